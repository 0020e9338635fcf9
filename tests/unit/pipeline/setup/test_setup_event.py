"""Events of GitHub Actions become values; what cannot be read is named; git says what changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from git_repos import git
from rocwright.errors import InvalidInput, UsageError
from rocwright.pipeline.setup.event import (
    Event,
    changed_files,
    changed_since,
    from_fork,
    read_event,
    told_event,
)
from rocwright.pipeline.setup.run import workflow_event

BASE = "a" * 40


def payload(folder: Path, name: str, value: object, **more: str) -> dict[str, str]:
    path = folder / "event.json"
    path.write_text(json.dumps(value))
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path), **more}


def test_a_pull_request(tmp_path: Path) -> None:
    value = {
        "pull_request": {
            "labels": [{"name": "ci:skip"}, {"name": "gfx950"}],
            "head": {"repo": {"full_name": "someone/r"}, "sha": "b" * 40},
            "base": {"repo": {"full_name": "o/r"}, "ref": "release/2.12", "sha": BASE},
        }
    }
    environment = payload(tmp_path, "pull_request", value, GITHUB_REF_NAME="7/merge")
    assert read_event(environment) == Event(
        "pull_request", "release/2.12", ("ci:skip", "gfx950"), base=BASE, fork=True
    )


@pytest.mark.parametrize(("before", "base"), [(BASE, BASE), ("0" * 40, "")])
def test_a_push(tmp_path: Path, before: str, base: str) -> None:
    environment = payload(tmp_path, "push", {"before": before}, GITHUB_REF_NAME="main")
    assert read_event(environment) == Event("push", "main", base=base)


def test_a_dispatch_has_its_inputs_as_text_without_the_empty_ones(tmp_path: Path) -> None:
    inputs = {
        "build_pytorch": False,
        "python_version": " 3.13 ",
        "artifact_run_id": "",
        "device_groups": 2,
        "x": None,
    }
    environment = payload(tmp_path, "workflow_dispatch", {"inputs": inputs}, GITHUB_REF_NAME="main")
    found = read_event(environment).inputs
    assert found == {"build_pytorch": "false", "python_version": "3.13", "device_groups": "2"}


@pytest.mark.parametrize(
    ("name", "trigger"),
    [
        ("pull_request_target", "pull_request"),
        ("merge_group", "push"),
        ("workflow_call", "workflow_dispatch"),
        ("schedule", "schedule"),
    ],
)
def test_events_that_are_like_another(tmp_path: Path, name: str, trigger: str) -> None:
    assert read_event(payload(tmp_path, name, {})).trigger == trigger


@pytest.mark.parametrize(
    ("name", "said"), [("", "nothing says which event"), ("issues", "'issues' is not an event")]
)
def test_events_that_start_no_run(name: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_event({"GITHUB_EVENT_NAME": name})


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "\xff", '{"pull_request": {"labels": 3}}'])
def test_a_payload_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "event.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"event\.json cannot be read"):
        read_event({"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(path)})


def test_a_payload_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_event({"GITHUB_EVENT_NAME": "push", "GITHUB_EVENT_PATH": str(tmp_path / "absent")})


@pytest.mark.parametrize(
    "value",
    [{}, {"pull_request": None}, {"pull_request": {"head": {"repo": None}}}, {"pull_request": {"head": 3}}],
)
def test_a_pull_request_of_nobody_knows_where_is_a_forks(tmp_path: Path, value: object) -> None:
    assert from_fork(payload(tmp_path, "pull_request", value))


def test_events_that_options_tell_of() -> None:
    told = told_event("workflow_dispatch", inputs=["a=b=c", " x = 1 "], changed=None)
    assert told.inputs == {"a": "b=c", "x": "1"}
    for bad in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(UsageError):
            told_event("workflow_dispatch", inputs=bad)
    with pytest.raises(UsageError, match="a push has no inputs"):
        told_event("push", inputs=["a=1"])


# ---- what changed


class Repository:
    """A repository of git with what a test commits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        return git(self.root, *words)

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            (self.root / name).write_text(text)
            self.git("add", "--", name)
        self.git("commit", "-q", "-m", "x")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "tree")


def test_files_between_two_commits_with_both_names_of_a_renamed_one(repository: Repository) -> None:
    first = repository.commit(a="1\n2\n3\n", b="1")
    repository.git("mv", "a", "ä b")
    repository.git("commit", "-q", "-m", "rename")
    assert changed_files(repository.root, first, merged=False) == ("a", "ä b")
    assert changed_files(repository.root, "HEAD", merged=False) == ()


def test_a_pull_request_counts_its_own_files_only(repository: Repository) -> None:
    repository.commit(a="1")
    repository.git("switch", "-q", "-c", "mine")
    repository.commit(mine="1")
    repository.git("switch", "-q", "main")
    base = repository.commit(theirs="1")
    repository.git("switch", "-q", "mine")
    assert changed_files(repository.root, base, merged=True) == ("mine",)
    assert changed_files(repository.root, base, merged=False) == ("mine", "theirs")
    # As GitHub checks it out: a merge, without the base's newer commits.
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "main")
    assert changed_since(repository.root, "main") == ("mine",)


def test_a_checkout_without_history_knows_the_merge(repository: Repository, tmp_path: Path) -> None:
    repository.commit(a="1")
    repository.git("switch", "-q", "-c", "mine")
    repository.commit(mine="1")
    repository.git("switch", "-q", "main")
    repository.commit(theirs="1")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "mine")
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "-q", "--depth=2", repository.root.as_uri(), str(shallow)],
        check=True,
        capture_output=True,
    )
    assert changed_files(shallow, BASE, merged=True) == ("mine",)
    assert changed_files(shallow, BASE, merged=False) is None


def test_what_nobody_knows_is_none(repository: Repository, tmp_path: Path) -> None:
    assert changed_files(repository.root, BASE, merged=True) is None
    repository.commit(a="1")
    assert changed_files(repository.root, BASE, merged=True) is None
    assert changed_files(repository.root, "", merged=True) is None
    assert changed_files(tmp_path, "HEAD", merged=True) is None
    with pytest.raises(InvalidInput, match="no commit 'v9'"):
        changed_since(repository.root, "v9")


def test_the_event_of_a_workflow_knows_what_changed(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit(a="1")
    repository.commit(b="1")
    environment = payload(tmp_path, "push", {"before": first}, GITHUB_REF_NAME="main")
    assert workflow_event(environment, repository.root).changed == ("b",)
    assert workflow_event(payload(tmp_path, "schedule", {}), repository.root).changed is None
