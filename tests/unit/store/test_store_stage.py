"""Staging: a checked set into the store and into the first channel, or nothing at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from watched_store import PowerCut, WatchedStore

from rocwright.data import load_table
from rocwright.errors import ContractBroken, GateClosed, IntegrityError, InvalidInput
from rocwright.model.channels import Channels
from rocwright.model.findings import Waiver
from rocwright.model.sets import (
    FINDINGS,
    RECEIPT,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
    waiver_statement,
)
from rocwright.store.channel_log import Event, read_state
from rocwright.store.layout import file_key, metadata_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.publish import change, list_set
from rocwright.store.sets.records import (
    Locations,
    read_listed,
    read_set,
    read_statements,
    save_locations,
    save_set,
)
from rocwright.store.sets.stage import record_set, stage_set
from rocwright.store.withdraw import rollback

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
STAGING = load_table("channels", Channels).named("staging")


def manifest_of(paths: list[Path]) -> SetManifest:
    return new_set(
        family="fam",
        targets=["gfx90a"],
        platform="linux",
        files=describe_files(paths),
        sources={"torch": "abc"},
    )


def passed(manifest: SetManifest) -> list[Statement]:
    files = [entry.name for entry in manifest.files]
    return [about_set(manifest, FINDINGS, {"passed": True, "files": files})]


def test_a_set_is_staged_and_recorded(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1", requires=["rocm"]), make_wheel("rocm", "1")]
    manifest = manifest_of(paths)
    staged = stage_set(store, STAGING, manifest, paths, passed(manifest), NOW)
    assert staged.set_id == set_id(manifest)
    assert staged.index_url == (tmp_path / "store/v2-staging/fam").as_uri() + "/"
    listed = {one.key.removeprefix("v2-staging/fam/") for one in store.list("v2-staging/fam/")}
    pages = {key for key in listed if not key.startswith("_")}
    assert pages == {"index.html", "rocm/index.html", "torch/index.html"}
    assert len([key for key in listed if key.startswith("_log/0")]) == 1
    pool = {one.key for one in store.list("files/")}
    keys = {file_key(one.sha256, one.name) for one in manifest.files}
    assert pool == keys | {metadata_key(one.sha256, one.name) for one in manifest.files}
    assert read_set(store, staged.set_id) == manifest
    said = read_statements(store, staged.set_id)
    assert [item.predicate for item in said if item.predicate_type == RECEIPT] == [
        {"uploaded": "2026-11-21T12:00:00Z"}
    ]
    assert [item for item in said if item.predicate_type != RECEIPT] == passed(manifest)


def test_a_second_set_keeps_the_first_listed(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    for version in ("1", "2"):
        paths = [make_wheel("torch", version)]
        manifest = manifest_of(paths)
        stage_set(store, STAGING, manifest, paths, passed(manifest), NOW)
    page = store.read("v2-staging/fam/torch/index.html").decode()
    assert "torch-1-py3-none-any.whl" in page
    assert "torch-2-py3-none-any.whl" in page


def test_a_set_that_was_withdrawn_is_not_staged_again(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    """A step that runs again does not take a rollback back."""
    store, prefix = LocalStore(tmp_path / "store"), "v2-staging/fam/"
    for version in ("1", "2"):
        paths = [make_wheel("torch", version)]
        manifest = manifest_of(paths)
        stage_set(store, STAGING, manifest, paths, passed(manifest), NOW)
    state = rollback(store, prefix, reason="it crashes", at="2026-11-21T13:00:00Z", max_age=0)
    with pytest.raises(GateClosed, match="was withdrawn from v2-staging/fam/: it crashes") as refused:
        stage_set(store, STAGING, manifest, paths, passed(manifest), NOW)
    assert f"set promote {set_id(manifest)[:12]} --to v2-staging --again" in refused.value.next_step
    assert read_state(store, prefix) == state
    list_set(store, prefix, manifest, at="2026-11-21T13:00:00Z", again=True)
    assert read_state(store, prefix).yanked == {}


def test_an_unchecked_set_is_not_staged(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1")]
    manifest = manifest_of(paths)
    other = manifest_of([make_wheel("torch", "2")])
    failed = about_set(
        manifest, FINDINGS, {"passed": False, "files": [entry.name for entry in manifest.files]}
    )
    for statements in ([], [failed], passed(other)):
        with pytest.raises(ContractBroken, match="no passing check"):
            stage_set(store, STAGING, manifest, paths, statements, NOW)
    assert store.list("") == ()


def test_what_another_check_found_before_counts(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1")]
    manifest = manifest_of(paths)
    found = {"rule": "r", "severity": "error", "file": paths[0].name, "cause": "c", "next_step": "n"}
    names = [path.name for path in paths]
    failed = about_set(
        manifest, FINDINGS, {"passed": False, "files": names, "findings": [found], "unwaivable": []}
    )
    record_set(store, manifest, {path.name: path for path in paths}, [failed], NOW)
    with pytest.raises(ContractBroken, match="reported errors: r"):
        stage_set(store, STAGING, manifest, paths, passed(manifest), NOW)
    assert store.list("v2-staging/") == ()
    waiver = Waiver("r", "known", NOW.date())
    stage_set(store, STAGING, manifest, paths, [*passed(manifest), waiver_statement(manifest, waiver)], NOW)
    assert store.exists("v2-staging/fam/torch/index.html")


def test_files_that_are_not_the_sets_are_not_staged(tmp_path: Path, make_wheel: Callable[..., Path]) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1"), make_wheel("rocm", "1")]
    manifest = manifest_of(paths)
    with pytest.raises(InvalidInput, match="rocm-1"):
        stage_set(store, STAGING, manifest, paths[:1], passed(manifest), NOW)
    with pytest.raises(InvalidInput, match="extra-1"):
        stage_set(store, STAGING, manifest, [*paths, make_wheel("extra", "1")], passed(manifest), NOW)
    changed = make_wheel("rocm", "1", body="changed after the check", folder=tmp_path / "second")
    with pytest.raises(IntegrityError, match="not the file that was checked"):
        stage_set(store, STAGING, manifest, [paths[0], changed], passed(manifest), NOW)
    assert store.list("") == ()


def test_a_name_staged_before_with_other_bytes_is_refused_before_any_change(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    store = LocalStore(tmp_path / "store")
    first = [make_wheel("torch", "1")]
    manifest = manifest_of(first)
    stage_set(store, STAGING, manifest, first, passed(manifest), NOW)
    before = {one.key: store.digest(one.key) for one in store.list("")}
    second = [make_wheel("torch", "1", body="rebuilt", folder=tmp_path / "second"), make_wheel("rocm", "1")]
    manifest = manifest_of(second)
    with pytest.raises(IntegrityError, match="other content"):
        stage_set(store, STAGING, manifest, second, passed(manifest), NOW)
    assert {one.key: store.digest(one.key) for one in store.list("")} == before


def test_a_name_that_the_channel_has_dropped_takes_no_other_bytes(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    store, prefix = LocalStore(tmp_path / "store"), "v2-staging/fam/"
    sets = []
    for version in ("1", "2", "3"):
        paths = [make_wheel("torch", version)]
        sets.append(manifest_of(paths))
        stage_set(store, STAGING, sets[-1], paths, passed(sets[-1]), NOW)
    for old in sets[:2]:
        change(store, prefix, Event("drop", (set_id(old),), at="2026-11-21T13:00:00Z"))
    rebuilt = [make_wheel("torch", "1", body="rebuilt", folder=tmp_path / "second")]
    other = manifest_of(rebuilt)
    with pytest.raises(IntegrityError, match=r"v2-staging/fam/ once listed torch-1-.* with other content"):
        stage_set(store, STAGING, other, rebuilt, passed(other), NOW)
    # The same bytes may come back; and nobody can say what a set held whose manifest is damaged.
    stage_set(store, STAGING, sets[1], [make_wheel("torch", "2")], passed(sets[1]), NOW)
    store.put_bytes(f"sets/{set_id(sets[0])}/manifest.json", b"", overwrite=True)
    stage_set(store, STAGING, other, rebuilt, passed(other), NOW)
    assert read_state(store, prefix).open == tuple(map(set_id, (sets[2], sets[1], other)))


def objects(store: LocalStore) -> dict[str, bytes]:
    return {one.key: store.read(one.key) for one in store.list("")}


def test_recording_interrupted_anywhere_is_completed_by_the_next_run(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    paths = [make_wheel("torch", "1", requires=["rocm"]), make_wheel("rocm", "1")]
    manifest = manifest_of(paths)
    files = {path.name: path for path in paths}
    # Locks name the address of their store, so every run uses the same one.
    root = tmp_path / "store"
    record_set(LocalStore(root), manifest, files, passed(manifest), NOW)
    expected = objects(LocalStore(root))
    for cut in range(100):
        shutil.rmtree(root)
        try:
            record_set(WatchedStore(root, after=cut), manifest, files, passed(manifest), NOW)
        except PowerCut:
            store = LocalStore(root)
            if store.exists(f"sets/{set_id(manifest)}/manifest.json"):
                # A set that is recorded has all its files.
                assert {key for key in expected if key.startswith("files/")} <= set(objects(store))
            record_set(store, manifest, files, passed(manifest), NOW)
            assert objects(store) == expected
            # Later it is whole, and stays as it is: the first receipt counts.
            record_set(store, manifest, files, passed(manifest), NOW + timedelta(hours=1))
            assert objects(store) == expected
            continue
        break
    # Two files with METADATA, manifest, findings, receipt, and pages.
    assert 4 + 1 + 1 + 1 + 3 < cut < 99


def test_files_elsewhere_are_listed_by_their_address_until_all_are_in_the_store(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    store = LocalStore(tmp_path / "store")
    paths = [make_wheel("torch", "1"), make_wheel("rocm", "1")]
    manifest = manifest_of(paths)
    digest = set_id(manifest)
    save_set(store, manifest)
    urls = {path.name: f"https://index.example/{path.name}" for path in paths}
    save_locations(store, digest, Locations(files=urls))
    listed = read_listed(store, digest)
    assert (dict(listed.elsewhere), listed.uploaded) == (urls, None)
    record_set(store, manifest, {path.name: path for path in paths}, [], NOW)
    mirrored = read_listed(store, digest)
    assert (dict(mirrored.elsewhere), mirrored.uploaded) == ({}, "2026-11-21T12:00:00Z")
