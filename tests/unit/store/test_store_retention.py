"""What goes, what stays, and what becomes of a deletion that is interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier
from typing import Any

import msgspec
import pytest
from watched_store import PowerCut

from command_line import run
from rocwright.data import load_table
from rocwright.device_code.wheel.selectors import DeviceChoice, Selector, write_selectors
from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.channels import Channels
from rocwright.model.sets import SetManifest, new_set, set_id
from rocwright.store import retention
from rocwright.store.channel_log import read_state
from rocwright.store.lease import PACE, Pace, leased
from rocwright.store.mend.store import mend_store
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import InFront, Stored
from rocwright.store.pins import Pin, pin, read_pins, unpin
from rocwright.store.pool import describe_files
from rocwright.store.publish import list_set
from rocwright.store.retention import collect, plan_gc
from rocwright.store.runs.upload import upload_run
from rocwright.store.sets.records import (
    Locations,
    read_listed,
    read_set,
    save_locations,
    save_receipt,
    save_set,
)
from rocwright.store.sets.stage import record_set

PREFIX = "v2/fam/"
AT = "2026-11-21T00:00:00Z"


class Aged(LocalStore):
    """A folder whose clock shows how old things are: days by key, added up as the test says."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.days: dict[str, float] = {}

    def age(self, days: float) -> None:
        """So many days pass."""
        for one in super().list(""):
            self.days[one.key] = self.days.get(one.key, 0) + days

    def _older(self, one: Stored) -> Stored:
        return msgspec.structs.replace(one, modified=one.modified - timedelta(days=self.days.get(one.key, 0)))

    def list(self, prefix: str) -> tuple:
        return tuple(map(self._older, super().list(prefix)))

    def stat(self, key: str) -> Stored | None:
        found = super().stat(key)
        return found and self._older(found)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        super().put_bytes(key, data, overwrite=overwrite)
        if overwrite:
            self.days.pop(key, None)


class Dying(Aged):
    """Stops at its n-th deletion of anything but a lease, before it or after it."""

    left, before = 0, True

    def delete(self, key: str) -> None:
        if key.startswith("_leases/"):
            super().delete(key)
            return
        self.left -= 1
        if self.left < 0 and self.before:
            raise PowerCut
        super().delete(key)
        if self.left < 0:
            raise PowerCut


@pytest.fixture
def store(tmp_path: Path) -> Dying:
    store = Dying(tmp_path / "store")
    store.left = 1_000_000
    return store


@pytest.fixture
def channels() -> Channels:
    """At most two open sets in the release channel, ten days of grace, no waiting for clients."""
    table = load_table("channels", Channels)
    few = tuple(msgspec.structs.replace(one, listed=2) for one in table.channel)
    retention = msgspec.structs.replace(table.retention, grace_days=10)
    return msgspec.structs.replace(table, channel=few, retention=retention, max_age=0)


@pytest.fixture
def recorded(store: LocalStore, make_wheel: Callable[..., Path]) -> Callable[..., SetManifest]:
    def record(version: str, platform: str = "linux") -> SetManifest:
        folder = store.root.parent / version / platform
        paths = [
            make_wheel("rocm", version, folder=folder),
            make_wheel("torch", version, requires=[f"rocm=={version}"], folder=folder),
        ]
        manifest = new_set(
            family="fam", targets=["gfx90a"], platform=platform, files=describe_files(paths), sources={}
        )
        now = datetime.now(timezone.utc)
        record_set(store, manifest, {path.name: path for path in paths}, [], now)
        return manifest

    return record


def files_of(store: LocalStore) -> set[str]:
    names = (one.key.rpartition("/")[2] for one in store.list("files/"))
    return {name for name in names if name.endswith(".whl")}


def test_files_of_a_bucket_go_side_by_side(channels: Channels) -> None:
    """Each deletion waits for its answer: one after the other, half a million of them took hours."""
    bucket = open_store("memory://retention-side-by-side")
    bucket.at_once = 4
    for number in range(8):
        bucket.put_bytes(f"files/{number:064x}/lost.whl", b"")
    under_way = Barrier(4, timeout=20)

    class Slow(InFront):
        def delete(self, key: str) -> None:
            if key.startswith("files/"):
                under_way.wait()
            super().delete(key)

    now = msgspec.structs.replace(channels.retention, grace_days=0)
    gone: list[str] = []
    done = collect(Slow(bucket), msgspec.structs.replace(channels, retention=now), at=AT, deleted=gone.append)
    assert done.objects == 8
    assert gone == sorted(gone)
    assert bucket.list("files/") == ()


def test_a_fresh_upload_stays_whatever_its_source_says(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest], make_wheel: Callable[..., Path]
) -> None:
    wheel = make_wheel("old", "1")
    os.utime(wheel, (0, 0))
    store.put_file(wheel, f"files/{'a' * 64}/{wheel.name}")
    assert collect(store, channels, at=AT).objects == 0


def test_a_set_that_is_recorded_again_is_young_again(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest]
) -> None:
    manifest = recorded("1")
    store.age(11)
    assert recorded("1") == manifest
    assert collect(store, channels, at=AT).objects == 0
    store.age(11)
    assert collect(store, channels, at=AT).objects > 0


def test_sets_go_in_three_steps(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest]
) -> None:
    sets = [recorded(version) for version in ("1", "2", "3")]
    for manifest in sets:
        list_set(store, PREFIX, manifest, at=AT)
    first = set_id(sets[0])
    done = collect(store, channels, at=AT)
    assert [(one.action, one.sets) for one in done.withdrawals] == [("yank", (first,))]
    assert read_state(store, PREFIX).yanked == {first: "older than the newest 2 sets of release"}
    store.age(11)
    assert collect(store, channels, at=AT).objects == 0
    assert first not in read_state(store, PREFIX).sets
    assert "torch-1-py3-none-any.whl" in files_of(store)
    store.age(11)
    done = collect(store, channels, at=AT)
    assert done.sets == (first,)
    assert files_of(store) == {
        f"{name}-{version}-py3-none-any.whl" for name in ("rocm", "torch") for version in "23"
    }
    # What was released once can still be told.
    assert read_set(store, first) == sets[0]
    assert collect(store, channels, at=AT).objects == 0


@pytest.mark.parametrize("prefix", [PREFIX, "elsewhere/fam/"])
def test_what_pages_list_of_which_the_log_is_gone_stays(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest], prefix: str
) -> None:
    """Nobody knows what the channel lists until a repair has read its pages."""
    listed, unlisted = recorded("1"), recorded("2")
    list_set(store, prefix, listed, at=AT)
    store.age(40)
    for one in store.list(f"{prefix}_log/"):
        store.delete(one.key)
    done = collect(store, channels, at=AT)
    assert done.objects == 0
    [damage] = done.damaged
    assert str(damage).startswith(f"{prefix}_log/: it is missing, and there are pages")
    mend_store(store, channels, at=AT)
    assert read_state(store, prefix).sets == (set_id(listed),)
    # What a repair looked at has the age that it had.
    assert collect(store, channels, at=AT).sets == (set_id(unlisted),)
    assert files_of(store) == {"rocm-1-py3-none-any.whl", "torch-1-py3-none-any.whl"}


def test_a_set_that_is_listed_again_is_new_again(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest]
) -> None:
    sets = [recorded(version) for version in ("1", "2", "3")]
    for manifest in sets:
        list_set(store, PREFIX, manifest, at=AT)
    collect(store, channels, at=AT)
    assert set(read_state(store, PREFIX).yanked) == {set_id(sets[0])}
    list_set(store, PREFIX, sets[0], at=AT, again=True)
    collect(store, channels, at=AT)
    assert set(read_state(store, PREFIX).yanked) == {set_id(sets[1])}
    assert plan_gc(store, channels, datetime.now(timezone.utc)).withdrawals == ()


def test_what_installers_take_is_not_withdrawn_whatever_was_listed_since(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest]
) -> None:
    best = recorded("9")
    list_set(store, PREFIX, best, at=AT)
    for version in ("1", "2", "3"):
        list_set(store, PREFIX, recorded(version), at=AT)
    plan = plan_gc(store, channels, datetime.now(timezone.utc))
    assert [len(one.sets) for one in plan.withdrawals] == [1]
    collect(store, channels, at=AT)
    assert set_id(best) in read_state(store, PREFIX).open
    assert len(read_state(store, PREFIX).yanked) == 1


def test_sets_of_one_platform_do_not_push_out_those_of_another(
    store: Dying, channels: Channels, recorded: Callable[..., SetManifest]
) -> None:
    """Linux has a set each night, Windows had one long ago, and some sets are for both."""
    both, windows = recorded("1", "any"), recorded("2", "windows")
    linux = [recorded(version) for version in ("3", "4", "5")]
    for manifest in (both, windows, *linux):
        list_set(store, PREFIX, manifest, at=AT)
    for _ in range(2):
        collect(store, channels, at=AT)
        assert set(read_state(store, PREFIX).yanked) == {set_id(linux[0])}
    # Of Windows there are two newer ones now.
    for version in ("6", "7"):
        list_set(store, PREFIX, recorded(version, "windows"), at=AT)
    collect(store, channels, at=AT)
    assert set(read_state(store, PREFIX).yanked) == set(map(set_id, (both, windows, linux[0])))


def test_the_plan_changes_nothing(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest]
) -> None:
    recorded("1")
    store.age(11)
    before = {one.key for one in store.list("")}
    plan = plan_gc(store, channels, datetime.now(timezone.utc))
    assert {key for key in plan.objects if key.endswith(".whl")} == {
        key for key in before if key.endswith(".whl")
    }
    assert {one.key for one in store.list("")} == before


def test_a_pin_that_somebody_removes_while_it_is_read_is_none(tmp_path: Path) -> None:
    class Unpinned(LocalStore):
        """Whoever removes the pin is faster than whoever has just listed it."""

        def list(self, prefix: str) -> tuple[Stored, ...]:
            found = super().list(prefix)
            self.delete("pins/goes.json")
            return found

    store = Unpinned(tmp_path)
    for name in ("goes", "stays"):
        store.put_bytes(f"pins/{name}.json", msgspec.json.encode(Pin("0" * 64, at=AT)))
    assert list(read_pins(store)) == ["stays"]


def test_a_set_whose_files_come_in_while_it_is_read_is_listed_as_complete(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    store = LocalStore(tmp_path / "store")
    wheel = make_wheel("one", "1")
    manifest = new_set(family="fam", targets=[], platform="linux", files=describe_files([wheel]), sources={})
    digest = save_set(store, manifest).split("/")[1]
    save_locations(store, digest, Locations({wheel.name: "https://example.org/one.whl"}))

    class Arrives(LocalStore):
        """The files come in after we have found no receipt, and before we ask where else they are."""

        def read(self, key: str) -> bytes:
            if key.endswith("/locations.json"):
                save_receipt(store, manifest, AT)
                store.delete(key)
            return super().read(key)

    found = read_listed(Arrives(store.root), digest)
    assert (found.uploaded, dict(found.elsewhere)) == (AT, {})


def test_pins_and_youth_hold_a_set(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest]
) -> None:
    pinned, unheld = recorded("1"), recorded("2")
    pin(store, "keep", Pin(set_id(pinned), at=AT, reason="a customer has it"))
    store.age(11)
    young = recorded("3")
    done = collect(store, channels, at=AT)
    assert done.sets == (set_id(unheld),)
    assert {name[-18] for name in files_of(store)} == {"1", "3"}
    unpin(store, "keep")
    collect(store, channels, at=AT)
    assert {name[-18] for name in files_of(store)} == {"3"}
    with pytest.raises(IntegrityError, match="is not in the store"):
        pin(store, "late", Pin(set_id(unheld), at=AT))
    with pytest.raises(IntegrityError, match="is not in the store"):
        list_set(store, PREFIX, unheld, at=AT)
    assert read_pins(store) == {}
    pin(store, "keep", Pin(set_id(young), at=AT))
    with pytest.raises(InvalidInput, match="the pin keep holds set"):
        pin(store, "keep", Pin(set_id(pinned), at=AT))
    with pytest.raises(InvalidInput, match="pins of this store: keep"):
        unpin(store, "other")
    with pytest.raises(InvalidInput, match="not a valid pin name"):
        pin(store, "../x", Pin(set_id(young), at=AT))


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_killed_at_each_deletion_the_next_run_completes_it(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest], before: bool
) -> None:
    kept = recorded("1")
    list_set(store, PREFIX, kept, at=AT)
    recorded("2")
    store.age(11)
    list_set(store, PREFIX, recorded("3"), at=AT)
    expected = {"rocm-1", "torch-1", "rocm-3", "torch-3"}
    store.before = before
    cuts = 0
    while True:
        store.left = 1
        try:
            collect(store, channels, at=AT)
            break
        except PowerCut:
            cuts += 1
            assert {name.removesuffix("-py3-none-any.whl") for name in files_of(store)} >= expected
    assert cuts >= 4
    assert {name.removesuffix("-py3-none-any.whl") for name in files_of(store)} == expected


def test_what_cannot_be_read_holds_everything(
    store: Dying, channels: Channels, recorded: Callable[[str], SetManifest]
) -> None:
    listed = recorded("1")
    list_set(store, PREFIX, listed, at=AT)
    recorded("2")
    store.age(11)
    before = files_of(store)
    store.put_bytes("pins/mine.json", b"{}")
    assert [one.key for one in collect(store, channels, at=AT).damaged] == ["pins/mine.json"]
    assert files_of(store) == before
    store.delete("pins/mine.json")
    manifest = f"sets/{set_id(listed)}/manifest.json"
    data = store.read(manifest)
    store.delete(manifest)
    assert [one.key for one in collect(store, channels, at=AT).damaged] == [manifest]
    assert files_of(store) == before
    store.put_bytes(manifest, data)
    assert collect(store, channels, at=AT).damaged == ()
    assert files_of(store) < before


def test_objects_go_for_ten_seconds_and_then_others_may_publish_as_long(
    store: Dying, channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for a lease looks only now and then, and its own is removed while it waits."""
    for number in range(10):
        store.put_bytes(f"files/{number:064d}/a.whl", b"")
    store.age(11)
    monkeypatch.setattr(retention, "_BATCH", 2)
    now, gone, slept = 0.0, 0, []

    def deleted(key: str) -> None:
        nonlocal now, gone
        now, gone = now + 3.0, gone + 1

    def sleep(seconds: float) -> None:
        slept.append((gone, seconds))
        with leased(store, "v2/fam/"):
            pass

    token = PACE.set(Pace(patience=-1, clock=lambda: now, sleep=sleep))
    try:
        assert collect(store, channels, at=AT, deleted=deleted).objects == 10
    finally:
        PACE.reset(token)
    assert slept == [(4, 10.0), (8, 10.0)], "as long as the slowest of them waits between two looks"


def test_a_plan_that_took_long_is_worth_as_many_objects(
    store: Dying, channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan for each ten seconds of a store with a million objects would take days."""
    for number in range(10):
        store.put_bytes(f"files/{number:064d}/a.whl", b"")
    store.age(11)
    monkeypatch.setattr(retention, "_BATCH", 2)
    now, plans = 0.0, 0
    planned = retention.plan_gc

    def plan_gc(*args: Any, **options: Any) -> retention.GcPlan:
        nonlocal now, plans
        now, plans = now + 25.0, plans + 1
        return planned(*args, **options)

    def deleted(key: str) -> None:
        nonlocal now
        now += 4.0

    monkeypatch.setattr(retention, "plan_gc", plan_gc)
    token = PACE.set(Pace(patience=-1, clock=lambda: now, sleep=lambda seconds: None))
    try:
        assert collect(store, channels, at=AT, deleted=deleted).objects == 10
    finally:
        PACE.reset(token)
    assert plans == 3, "one to see what is to be withdrawn, one for 8 objects in 32 s, one for the last"


def test_runs_go_only_when_asked(store: Dying, channels: Channels) -> None:
    for key in (
        "42-linux/python/fam/index.html",
        "42-linux/python/fam/a-1-py3-none-any.whl",
        "mine/notes.txt",
    ):
        store.put_bytes(key, b"x")
    store.age(11)
    store.put_bytes("43-linux/python/fam/index.html", b"x")
    assert collect(store, channels, at=AT).objects == 0
    assert collect(store, channels, at=AT, runs=True).objects == 2
    assert {one.key for one in store.list("")} == {"43-linux/python/fam/index.html", "mine/notes.txt"}


@pytest.mark.parametrize("group", ["gfx94X-dcgpu", None])
def test_of_an_old_run_nothing_stays_that_leads_to_what_went(
    store: Dying, channels: Channels, make_wheel: Callable[..., Path], group: str | None
) -> None:
    """The pages and records of a run, also of one for all GPUs, whose packages lie beside its groups."""
    for kind in ("python", "pytorch"):
        upload_run(store, [make_wheel(kind, "1")], "42", "linux", group, kind)
    store.put_bytes("42-linux/rocm_lib_gfx94X.tar.zst", b"x")
    store.age(11)
    upload_run(store, [make_wheel("new", "1")], "42", "linux", "gfx120X-all", "python")
    young = {key for key in (one.key for one in store.list("42-linux/")) if "/gfx120X-all" in key}
    plan = plan_gc(store, channels, datetime.now(timezone.utc), runs=True)
    assert [key.rpartition("/")[2] for key in plan.objects[:3]] == ["index.html"] * 3
    collect(store, channels, at=AT, runs=True)
    assert {one.key for one in store.list("")} == {*young, "42-linux/rocm_lib_gfx94X.tar.zst"}
    assert len(young) == 6


def test_the_packages_of_a_run_go_together(
    store: Dying, channels: Channels, make_wheel: Callable[..., Path]
) -> None:
    """One page has both kinds."""
    upload_run(store, [make_wheel("rocm", "1")], "42", "linux", "fam", "python")
    store.age(11)
    upload_run(store, [make_wheel("torch", "1")], "42", "linux", "fam", "pytorch")
    assert collect(store, channels, at=AT, runs=True).objects == 0


def test_the_commands(
    store: Dying,
    recorded: Callable[[str], SetManifest],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ROCWRIGHT_STORE", str(store.root))
    first, second = recorded("1"), recorded("2")
    for manifest in (first, second):
        list_set(store, PREFIX, manifest, at=AT, by="nightly")
    code, out, err = run(capsys, "set", "rollback", "release", "--reason", "slow", "--no-wait", "--json")
    assert code == 0, err
    assert msgspec.json.decode(out) == {
        "prefix": PREFIX,
        "current": set_id(first),
        "yanked": {set_id(second): "slow"},
    }
    code, out, _ = run(capsys, "set", "log", "release", "--json")
    log = msgspec.json.decode(out)
    assert [(one["action"], one["by"]) for one in log["events"]] == [
        ("list", "nightly"),
        ("list", "nightly"),
        ("yank", ""),
    ]
    assert (log["current"], log["shown"]) == (set_id(first), True)
    code, out, _ = run(capsys, "set", "pin", "keep", set_id(second)[:12], "--json")
    assert msgspec.json.decode(out)["keep"]["set"] == set_id(second)
    code, out, _ = run(capsys, "set", "gc")
    assert (code, out) == (0, "0 objects, 0 B; nothing was changed (--delete does it)\n")
    code, out, _ = run(capsys, "set", "repair", "release:fam")
    assert (code, out) == (0, f"{PREFIX} serves {set_id(first)}; 2 sets are on its pages\n")
    code, _, err = run(capsys, "set", "rollback", "release:fam", "--reason", "x")
    assert code == 3
    assert "has no earlier set to go back to" in err
    code, _, err = run(capsys, "set", "log", "release:other")
    assert code == 3
    assert "families: fam" in err


def test_without_delete_the_command_names_each_file_that_would_go(
    store: Dying, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # By the clock of this machine everything in the store is new, so no day of grace is given.
    config = tmp_path / "rocwright.toml"
    config.write_text("[channels.retention]\ngrace_days = 0\n")
    keys = ("42-linux/python/fam/index.html", "42-linux/python/fam/a-1-py3-none-any.whl")
    for key in keys:
        store.put_bytes(key, b"x")
    words = ("--runs", "--store", str(store.root), "--config", str(config))
    code, out, _ = run(capsys, "set", "gc", *words)
    assert code == 0
    assert out.splitlines()[:-1] == [f"would delete {key}" for key in keys]
    assert out.splitlines()[-1].startswith("2 objects, 2 B; nothing was changed")
    assert {one.key for one in store.list("")} == set(keys)


def test_what_pages_said_of_variants_goes_with_the_last_set_of_that_version(
    store: Dying, channels: Channels, tmp_path: Path
) -> None:
    """What a page once led to stays as long as a set has that version: somebody may still have the page."""

    def with_variants(version: str, *targets: str) -> None:
        same = ("amd-torch-device", version, "torch", "py3-none-any")
        wanted = [Selector(*same, "null"), *(Selector(*same, one, one, f"torch-{one}") for one in targets)]
        paths = write_selectors([DeviceChoice("", "", (), tuple(wanted))], tmp_path / version)
        files = describe_files(paths)
        manifest = new_set(family="fam", targets=targets, platform="linux", files=files, sources={})
        record_set(store, manifest, {path.name: path for path in paths}, [], datetime.now(timezone.utc))
        list_set(store, PREFIX, manifest, at=AT)

    def versions() -> list[str]:
        return sorted(one.key.rpartition("/")[2].split("-")[1] for one in store.list(f"{PREFIX}_variants/"))

    with_variants("1", "gfx942")
    with_variants("1", "gfx942", "gfx90a")
    with_variants("2", "gfx942")
    store.age(11)
    collect(store, channels, at=AT)
    # Both of the first version, of which the channel has room for one: yanked is not gone.
    assert versions() == ["1", "1", "2"]
    with_variants("3", "gfx942")
    for _ in range(3):
        store.age(11)
        collect(store, channels, at=AT)
    assert versions() == ["2", "3"]
    assert not [name for name in files_of(store) if "-1-" in name]
