"""What a run may publish: every combination of profile, store, event, credentials and wish."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from rocwright.model.plan import Choice, Profile
from rocwright.pipeline.setup.publication import has_credentials, publication

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "secret"}
PROFILES = {
    publish: Profile(
        name=publish,
        release_type="ci",
        platforms=("linux",),
        pythons=("3.12",),
        refs=("nightly",),
        tier="nightly",
        stage="staging",
        publish=publish,
    )
    for publish in ("never", "embedded", "asked")
}


def event(folder: Path, head: str | None, base: str = "o/r", name: str = "pull_request") -> dict[str, str]:
    path = folder / "event.json"
    repo = None if head is None else {"full_name": head}
    path.write_text(
        json.dumps({"pull_request": {"head": {"repo": repo}, "base": {"repo": {"full_name": base}}}})
    )
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)}


@pytest.mark.parametrize(
    ("publish", "store", "fork", "keys", "asked"),
    list(
        product(
            ("never", "embedded", "asked"),
            (None, "folder", "s3://bucket/x", "S3://bucket"),
            (False, True),
            (False, True),
            (False, True),
        )
    ),
)
def test_every_combination(
    tmp_path: Path, publish: str, store: str | None, fork: bool, keys: bool, asked: bool
) -> None:
    environment = event(tmp_path, "fork/r" if fork else "o/r") | (KEYS if keys else {})
    found = publication(PROFILES[publish], Choice(publish, "1", publish=asked), store, environment)
    if store is None:
        expected = (True, publish != "never")
    elif fork or (store != "folder" and not keys):
        expected = (False, False)
    else:
        expected = (True, publish == "asked" and asked)
    assert (found.upload, found.channels) == expected
    # What is refused is said, and nothing else is.
    assert bool(found.why) != found.channels
    if store is not None and fork:
        assert "fork" in found.why
    elif found.upload is False:
        assert "credentials" in found.why
    elif publish == "asked" and not asked and store is not None:
        assert "--publish" in found.why


@pytest.mark.parametrize(
    ("head", "name", "fork"),
    [
        ("o/r", "pull_request", False),
        ("someone/r", "pull_request", True),
        ("someone/r", "pull_request_target", True),
        # A fork that was deleted has no repository.
        (None, "pull_request", True),
        ("someone/r", "push", False),
        ("someone/r", "workflow_dispatch", False),
    ],
)
def test_which_events_are_a_forks(tmp_path: Path, head: str | None, name: str, fork: bool) -> None:
    environment = event(tmp_path, head, name=name)
    found = publication(PROFILES["asked"], Choice("asked", "1", publish=True), "folder", environment)
    assert found.upload is not fork


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pull_request": 3}', "\xff"])
def test_an_event_that_cannot_be_read_counts_as_a_forks(tmp_path: Path, text: str) -> None:
    path = tmp_path / "event.json"
    path.write_bytes(text.encode("latin-1"))
    environment = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(path), **KEYS}
    found = publication(PROFILES["asked"], Choice("asked", "1", publish=True), "s3://b", environment)
    assert (found.upload, found.channels) == (False, False)


@pytest.mark.parametrize(
    ("said", "head", "fork"),
    [("true", "o/r", True), ("True", "o/r", True), ("false", "o/r", False), ("", "o/r", False),
     ("false", "someone/r", True)],
)  # fmt: skip
def test_a_workflow_may_say_that_it_is_a_forks(tmp_path: Path, said: str, head: str, fork: bool) -> None:
    environment = {**event(tmp_path, head), "IS_PR_FROM_FORK": said}
    found = publication(PROFILES["asked"], Choice("asked", "1", publish=True), "folder", environment)
    assert found.upload is not fork


def test_a_pull_request_without_a_payload_counts_as_a_forks() -> None:
    environment = {"GITHUB_EVENT_NAME": "pull_request", **KEYS}
    assert not publication(PROFILES["asked"], Choice("asked", "1"), "s3://b", environment).upload


def test_a_profile_without_a_channel_publishes_nothing() -> None:
    profile = Profile(
        name="plain", release_type="ci", platforms=("linux",), pythons=("3.12",), refs=("x",), tier="nightly"
    )
    found = publication(profile, Choice("plain", "1", publish=True), "folder", {})
    assert (found.upload, found.channels, found.why) == (True, False, "the profile plain names no channel")


@pytest.mark.parametrize(
    ("environment", "there"),
    [
        ({}, False),
        ({"AWS_ACCESS_KEY_ID": ""}, False),
        ({"AWS_ACCESS_KEY_ID": "x"}, False),
        (KEYS, True),
        ({"AWS_PROFILE": "mine"}, True),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}, True),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1/x"}, True),
        # Unsigned requests can read a public bucket, and write to none.
        ({"AWS_SKIP_SIGNATURE": "true"}, False),
        ({"AWS_SKIP_SIGNATURE": "false"}, True),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_REGION": "us-east-1"}, False),
    ],
)
def test_what_counts_as_credentials(tmp_path: Path, environment: dict[str, str], there: bool) -> None:
    assert has_credentials({"HOME": str(tmp_path), **environment}) is there


def test_a_file_of_credentials_counts(tmp_path: Path) -> None:
    assert not has_credentials({"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "absent")})
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\n")
    assert has_credentials({"HOME": str(tmp_path)})


def test_nothing_secret_is_told() -> None:
    environment = {**KEYS, "GITHUB_EVENT_NAME": "pull_request"}
    assert "secret" not in publication(PROFILES["asked"], Choice("asked", "1"), "s3://b", environment).why
