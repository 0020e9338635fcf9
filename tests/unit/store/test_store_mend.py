"""Repair at its door: killed anywhere and run again, full disks, and what is never made up."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from watched_store import PowerCut, WatchedStore

from rocwright.data import load_table
from rocwright.errors import NoSpace
from rocwright.model.channels import Channels
from rocwright.model.sets import SetManifest, canonical_json, new_set, set_id
from rocwright.store.channel_log import Event, read_log, read_state
from rocwright.store.mend.store import mend_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.publish import change, list_set
from rocwright.store.retention import collect
from rocwright.store.sets.records import read_set
from rocwright.store.sets.stage import record_set
from rocwright.store.sets.verify import verify_set

PREFIX = "v2-staging/fam/"
AT = "2026-11-21T00:00:00Z"
CHANNELS = load_table("channels", Channels)


@pytest.fixture
def recorded(tmp_path: Path, make_wheel: Callable[..., Path]) -> Callable[[LocalStore, str], SetManifest]:
    def record(store: LocalStore, version: str) -> SetManifest:
        folder = tmp_path / version
        paths = [
            make_wheel("rocm", version, folder=folder),
            make_wheel("torch", version, requires=[f"rocm=={version}"], folder=folder),
        ]
        files = describe_files(paths)
        manifest = new_set(family="fam", targets=["gfx90a"], platform="linux", files=files, sources={})
        now = datetime.now(timezone.utc)
        record_set(store, manifest, {path.name: path for path in paths}, [], now)
        list_set(store, PREFIX, manifest, at=now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return manifest

    return record


def contents(store: LocalStore) -> dict[str, str]:
    """Digests of all but logs, in which the times differ, and the page for people, which names the folder."""
    own = ("v2-staging/_landing.json", "v2-staging/index.html")
    keys = (one.key for one in store.list("") if "/_log/" not in one.key and one.key not in own)
    return {key: store.digest(key) for key in keys}


def test_killed_before_each_of_its_writes_it_is_completed_by_the_next_run(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest]
) -> None:
    first = LocalStore(tmp_path / "first")
    sets = [recorded(first, version) for version in ("1", "2", "3")]
    change(first, PREFIX, Event("yank", (set_id(sets[0]),), at=AT, reason="wrong", by="somebody"))
    # A manifest that its files tell, a wheel that nobody has, METADATA, a page, an event that nothing tells.
    lost = next(one for one in sets[1].files if one.project == "torch")
    hurt = [
        f"sets/{set_id(sets[2])}/manifest.json",
        f"files/{lost.sha256}/{lost.name}",
        f"files/{sets[2].files[0].sha256}/{sets[2].files[0].name}.metadata",
        f"{PREFIX}torch/index.html",
        first.list(f"{PREFIX}_log/")[3].key,
    ]
    for key in hurt:
        (first.root / key).write_bytes(b"")
    whole = WatchedStore(tmp_path / "whole")
    shutil.copytree(first.root, whole.root)
    mend_store(whole, CHANNELS, at=AT)
    expected = contents(whole)
    assert len(whole.changed) > 20
    for after in range(0, len(whole.changed), 2):
        store = WatchedStore(tmp_path / f"cut-{after}", after=after)
        shutil.copytree(first.root, store.root)
        with pytest.raises(PowerCut):
            mend_store(store, CHANNELS, at=AT)
        store.after = None
        mend_store(store, CHANNELS, at=AT)
        assert mend_store(store, CHANNELS, at=AT) == ()
        state = read_state(store, PREFIX)
        assert (set(state.sets), dict(state.yanked)) == (
            {set_id(sets[0]), set_id(sets[2])},
            {set_id(sets[0]): "wrong"},
        )
        found = contents(store)
        assert [key for key in {*found, *expected} if found.get(key) != expected.get(key)] == []


def test_a_manifest_comes_back_with_its_id_or_not_at_all(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest]
) -> None:
    store = LocalStore(tmp_path / "store")
    manifest = recorded(store, "1")
    key = f"sets/{set_id(manifest)}/manifest.json"
    # Somebody's idea of what it was: the same but for the platform.
    other = canonical_json(msgspec.structs.replace(manifest, platform="windows"))
    (store.root / key).write_bytes(other)
    done = [one for one in mend_store(store, CHANNELS, at=AT) if one.key == key]
    assert [one.done for one in done] == ["brought back"]
    assert hashlib.sha256(store.read(key)).hexdigest() == set_id(manifest)
    # Of sources that nothing else tells it cannot be known.
    secret = msgspec.structs.replace(manifest, sources={"torch": "1a2b3c4d"})
    there = LocalStore(tmp_path / "other")
    paths = {path.name: path for path in (tmp_path / "1").iterdir()}
    record_set(there, secret, paths, [], datetime.now(timezone.utc))
    list_set(there, PREFIX, secret, at=AT)
    (there.root / f"sets/{set_id(secret)}/manifest.json").write_bytes(other)
    mend_store(there, CHANNELS, at=AT)
    assert not there.list("sets/")
    assert read_state(there, PREFIX).sets == ()
    assert there.read(f"_damaged/sets/{set_id(secret)}/manifest.json") == other


def test_a_manifest_that_says_the_same_in_other_bytes_is_never_gone(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest]
) -> None:
    """Its digest is that of what it says, and nothing else may tell what that was."""
    manifest = recorded(LocalStore(tmp_path / "store"), "1")
    key = f"sets/{set_id(manifest)}/manifest.json"

    class Killed(LocalStore):
        def put_bytes(self, put: str, data: bytes, *, overwrite: bool = False) -> None:
            if put == key:
                raise KeyboardInterrupt
            super().put_bytes(put, data, overwrite=overwrite)

    store = Killed(tmp_path / "store")
    (store.root / key).write_bytes(json.dumps(json.loads(store.read(key)), indent=1).encode())
    with pytest.raises(KeyboardInterrupt):
        mend_store(store, CHANNELS, at=AT)
    whole = LocalStore(store.root)
    assert read_set(whole, set_id(manifest)) == manifest
    mend_store(whole, CHANNELS, at=AT)
    assert whole.read(key) == canonical_json(manifest)


def test_a_set_that_somebody_puts_right_meanwhile_stays_listed(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest]
) -> None:
    first = LocalStore(tmp_path / "store")
    sets = [recorded(first, version) for version in ("1", "2")]
    lost = next(one for one in sets[1].files if one.project == "torch")
    first.delete(f"files/{lost.sha256}/{lost.name}")

    class Meanwhile(LocalStore):
        """Somebody creates the set again when the repair has looked, and begins to change the channel."""

        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if key.startswith(f"_leases/{PREFIX}"):
                paths = {path.name: path for path in (tmp_path / "2").iterdir()}
                record_set(first, sets[1], paths, [], datetime.now(timezone.utc))
            super().put_bytes(key, data, overwrite=overwrite)

    done = mend_store(Meanwhile(first.root), CHANNELS, at=AT)
    assert [one for one in done if one.done == "taken out"] == []
    assert read_state(first, PREFIX).sets == tuple(map(set_id, sets))


def test_a_log_of_which_nothing_is_left_but_its_pages(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest]
) -> None:
    store = LocalStore(tmp_path / "store")
    sets = [recorded(store, version) for version in ("1", "2")]
    change(store, PREFIX, Event("yank", (set_id(sets[0]),), at=AT, reason="wrong"))
    pages = {one.key: store.digest(one.key) for one in store.list(PREFIX) if "/_log/" not in one.key}
    shutil.rmtree(store.root / PREFIX / "_log")
    mend_store(store, CHANNELS, at=AT)
    state = read_state(store, PREFIX)
    assert (set(state.sets), dict(state.yanked)) == ({*map(set_id, sets)}, {set_id(sets[0]): "wrong"})
    assert {one.key: store.digest(one.key) for one in store.list(PREFIX) if "/_log/" not in one.key} == pages
    assert read_log(store, PREFIX).finished


def test_a_dry_run_writes_nothing_and_says_the_same(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest]
) -> None:
    store = WatchedStore(tmp_path / "store")
    manifest = recorded(store, "1")
    recorded(store, "2")
    lost = next(one for one in manifest.files if one.project == "torch")
    (store.root / f"files/{lost.sha256}/{lost.name}").write_bytes(b"")
    store.changed.clear()
    said = mend_store(store, CHANNELS, at=AT, dry_run=True)
    assert store.changed == []
    assert mend_store(store, CHANNELS, at=AT) == said
    assert {one.done for one in said} == {"set aside", "taken out", "written anew"}
    [left] = read_state(store, PREFIX).sets
    assert verify_set(store, left).problems == ()


class Full(LocalStore):
    """A disk that takes nothing more: no bytes, or (`hard`) not even a name, until something is deleted."""

    hard, full = False, False

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        if self.full and (data or self.hard):
            raise NoSpace(f"no space left while writing {key}")
        super().put_bytes(key, data, overwrite=overwrite)

    def delete(self, key: str) -> None:
        if key.startswith("files/"):
            self.full = False
        super().delete(key)


@pytest.mark.parametrize("hard", [False, True])
def test_a_full_disk_is_freed(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest], hard: bool
) -> None:
    store = Full(tmp_path / "store")
    recorded(store, "1")
    for number in range(3):
        store.put_bytes(f"files/{number:064d}/a.whl", bytes(10 + number))
    retention = msgspec.structs.replace(CHANNELS.retention, grace_days=0)
    table = msgspec.structs.replace(CHANNELS, retention=retention, max_age=0)
    store.hard, store.full = hard, True
    deleted: list[str] = []
    done = collect(store, table, at=AT, deleted=deleted.append)
    assert (done.objects, done.bytes, len(deleted)) == (3, 33, 3)
    assert store.list("_leases/") == ()
    assert len(store.list("files/")) == 4


def test_a_full_disk_where_somebody_publishes_is_left_alone(
    tmp_path: Path, recorded: Callable[[LocalStore, str], SetManifest]
) -> None:
    store = Full(tmp_path / "store")
    recorded(store, "1")
    store.put_bytes(f"files/{0:064d}/a.whl", b"x")
    store.put_bytes(f"_leases/{PREFIX}{0:032x}.json", b"{}")
    retention = msgspec.structs.replace(CHANNELS.retention, grace_days=0)
    store.hard, store.full = True, True
    with pytest.raises(NoSpace):
        collect(store, msgspec.structs.replace(CHANNELS, retention=retention), at=AT)
    assert store.exists(f"files/{0:064d}/a.whl")
