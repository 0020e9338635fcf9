"""Simulated days of nightly releases, and what the simulation finds when a promise is taken out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from real.store import history
from real.store.history_checks import Violation
from real.store.history_disks import KINDS, Disk
from real.store.history_forger import SIGNS, key_of
from real.store.history_report import SEED, seed_of_commit
from real.store.history_store import Memory
from rocwright.model.findings import Waiver
from rocwright.store import gate, publish, retention, withdraw
from rocwright.store.lease import Lease, leased
from rocwright.store.objects.address import open_store
from rocwright.store.objects.durable import Block, changing
from rocwright.store.objects.local import LocalStore
from rocwright.store.sets import promote, report, stage

pytestmark = pytest.mark.long


def test_twenty_days_without_a_violation() -> None:
    # Other days for each commit, the same again for the same one; the seed is printed.
    seed = seed_of_commit()
    print(f"history of seed {seed}; {SEED}={seed} repeats it")
    command = [sys.executable, "-m", "real.store.history", "--days", "20", "--seed", str(seed)]
    tests = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    events, checks = report["events"], report["checks"]
    assert (report["seed"], report["days"], report["violations"]) == (seed, 20, 0)
    # Enough happened for that to mean something, whatever the seed: half of what seed 1 comes to, or less.
    for name, least in LEAST.items():
        assert report[name] >= least, name
    for name, least in LEAST_EVENTS.items():
        assert sum(count for event, count in events.items() if event.startswith(name)) >= least, name
    assert checks["resolutions"] >= 13_000
    assert checks["admissions"] >= 50


@pytest.mark.parametrize("kind", KINDS)
def test_a_history_on_every_kind_of_store(kind: str, tmp_path: Path) -> None:
    lived = history.begin(KINDS[kind](), tmp_path, 11, rollback_rate=10.0)
    lived.live(15)
    assert (lived.world.counts.power_cuts >= 5) == (kind == "disk")


# The harness once promoted sets whose tests a rival had not recorded yet.
@pytest.mark.parametrize("seed", [90210, 102])
def test_seeds_that_once_failed(seed: int, tmp_path: Path) -> None:
    history.begin(Memory(), tmp_path, seed).live(4)


def test_several_seeds_are_told_in_a_table() -> None:
    command = [sys.executable, "-m", "real.store.history", "--days", "1", "--seeds", "1-2,7"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["seed", "store"]
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "7"]
    assert lines[-1].split() == ["0", "violations"]


def test_the_seed_follows_from_the_commit_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SEED, raising=False)
    assert seed_of_commit() == seed_of_commit()
    monkeypatch.setenv(SEED, "90210")
    assert seed_of_commit() == 90210


class AtOnce(LocalStore):
    """A folder in which each change is there at once, in a block, too: the checks look after every one."""

    def _changing(self, key: str) -> AbstractContextManager[Block]:
        return changing(alone=True)


def test_a_history_in_a_folder(tmp_path: Path) -> None:
    lived = history.begin(AtOnce(tmp_path / "store"), tmp_path, 5)
    lived.live(12)
    assert lived.world.counts.kills >= 10


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_a_history_on_a_server(kind: str, addresses: Callable[[str], str], tmp_path: Path) -> None:
    lived = history.begin(open_store(addresses(kind)), tmp_path, 6)
    lived.live(2)
    assert lived.counts["nightly: promoted"] >= 2


# What has to happen in twenty days for them to mean something.
LEAST = {"kills": 27, "lost answers among them": 8, "waits for another publisher": 33, "frozen": 2}
LEAST_EVENTS = {
    "builds failed": 2,
    "nightly: promoted": 16,
    "nightly: blocked": 3,
    "nightly: refused": 1,
    "bypasses": 2,
    "sets: waived": 2,
    "rollback": 2,
    "rollbacks of copies": 7,
    "objects deleted": 60,
}

# --- promises taken out, one by one


def _no_exclusion(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits for anybody."""

    @contextmanager
    def alone(store: Any, scope: str, *, by: str = "") -> Iterator[Lease]:
        with leased(store, f"{scope}{id(store)}/", by=by) as lease:
            yield lease

    patch.setattr(publish, "leased", alone)


def _root_page_first(patch: pytest.MonkeyPatch) -> None:
    """Pages in front of those that they need."""
    write = publish.write_pages

    def backwards(*args: Any, reverse: bool = False, **options: Any) -> Any:
        return write(*args, reverse=not reverse, **options)

    patch.setattr(publish, "write_pages", backwards)


def _pages_before_files(patch: pytest.MonkeyPatch) -> None:
    """A set is listed while its largest file is still on its way."""
    put = stage.put_pooled

    def late(store: Any, path: Path, entry: Any, **options: Any) -> None:
        if entry.project != "torch":
            put(store, path, entry, **options)

    patch.setattr(stage, "put_pooled", late)
    patch.setattr(publish, "require_files", lambda store, listed: None)
    patch.setattr(promote, "_verify_files", lambda store, manifest: None)


def _done_before_pages(patch: pytest.MonkeyPatch) -> None:
    """The event is in the log, and that is called done."""
    patch.setattr(publish, "_bring_into_line", lambda held, prefix, sets, before, *rest: before.state)
    # Who waits until the pages show something would wait for ever.
    patch.setattr(withdraw, "_pause", lambda *_: 0.0)


def _no_patience(patch: pytest.MonkeyPatch) -> None:
    """What clients still need is withdrawn at once."""
    patch.setattr(withdraw, "_pause", lambda *_: 0.0)


def _gate_left_open(patch: pytest.MonkeyPatch) -> None:
    """Whatever the gate says."""
    patch.setattr(promote, "require_open", lambda decision, digest: None)


def _greedy_retention(patch: pytest.MonkeyPatch) -> None:
    """Yanked sets count as gone although pages still link to their files."""
    plan = retention.plan_gc

    def greedy(store: Any, channels: Any, now: Any, **options: Any) -> Any:
        found = plan(store, channels, now, **options)
        more = [
            key.key
            for one in found.withdrawals
            for entry in [publish.read_listed(store, digest).manifest for digest in one.sets]
            for file in entry.files
            for key in store.list(f"files/{file.sha256}/")
        ]
        return msgspec.structs.replace(found, objects=(*found.objects, *more))

    patch.setattr(retention, "plan_gc", greedy)


def _waivers_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A waiver holds whatever day it is."""
    patch.setattr(Waiver, "covers", lambda waiver, finding, today: waiver.rule == finding.rule)


def _bypasses_for_ever(patch: pytest.MonkeyPatch) -> None:
    """A bypass holds whatever day it is."""
    patch.setattr(gate, "_in_force", lambda bypasses, policy: {one.required: one for one in bypasses})


def _a_suite_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A release asks for one suite less."""
    ask = report.policy_for

    def less(*args: Any, **options: Any) -> Any:
        found = ask(*args, **options)
        return msgspec.structs.replace(found, required=found.required[1:])

    patch.setattr(report, "policy_for", less)


def _yanked_and_offered(patch: pytest.MonkeyPatch) -> None:
    """The log says that a set is withdrawn, the pages do not."""

    def view(sets: Any, state: Any) -> Any:
        return {one: sets[one] for one in state.sets}

    patch.setattr(publish._Sets, "view", view)


def _young_files(patch: pytest.MonkeyPatch) -> None:
    """Retention does not wait for uploads that are under way."""
    plan = retention.plan_gc

    def at_once(store: Any, channels: Any, now: Any, **options: Any) -> Any:
        days = msgspec.structs.replace(channels.retention, grace_days=0)
        return plan(store, msgspec.structs.replace(channels, retention=days), now, **options)

    patch.setattr(retention, "plan_gc", at_once)


def _pins_not_seen(patch: pytest.MonkeyPatch) -> None:
    """Retention knows no pins."""
    patch.setattr(retention, "read_pins", lambda *given: {})


def _pins_swept(patch: pytest.MonkeyPatch) -> None:
    """Retention takes the pins, too."""
    plan = retention.plan_gc

    def sweep(store: Any, *args: Any, **options: Any) -> Any:
        found = plan(store, *args, **options)
        pins = [one.key for one in store.list("pins/")]
        return msgspec.structs.replace(found, objects=(*found.objects, *pins))

    patch.setattr(retention, "plan_gc", sweep)


def _statements_swept(patch: pytest.MonkeyPatch) -> None:
    """Retention takes what was said about a set with its pages."""
    patch.setattr(retention, "_RECORDS", re.compile(r"manifest\.json"))


def _log_cut(patch: pytest.MonkeyPatch) -> None:
    """Who is done takes the first event out of the log."""
    mark = publish.mark_shown

    def cut(store: Any, prefix: str, log: Any, seals: Any) -> None:
        mark(store, prefix, log, seals)
        if len(log.events) > 3:
            store.below.delete(log.events[0].key)

    patch.setattr(publish, "mark_shown", cut)


def _event_rewritten(patch: pytest.MonkeyPatch) -> None:
    """Who is done writes the first event anew, in other words."""
    mark = publish.mark_shown

    def rewrite(store: Any, prefix: str, log: Any, seals: Any) -> None:
        mark(store, prefix, log, seals)
        data = store.below.read(log.events[0].key)
        store.below.put_bytes(log.events[0].key, data + b" ", overwrite=True)

    patch.setattr(publish, "mark_shown", rewrite)


def _half_a_file(patch: pytest.MonkeyPatch) -> None:
    """Half of a file is taken for all of it."""

    def half(store: Any, path: Path, entry: Any, **options: Any) -> None:
        put(store, path, entry, **options)
        key = f"files/{entry.sha256}/{entry.name}"
        if entry.project == "torch":
            store.put_bytes(key, path.read_bytes()[:100], overwrite=True)

    put = stage.put_pooled
    patch.setattr(stage, "put_pooled", half)
    patch.setattr(promote, "_verify_files", lambda store, manifest: None)


def _unlisted_event(patch: pytest.MonkeyPatch) -> None:
    """A listing that lags is believed."""
    patch.setattr(publish, "_require_listed", lambda *given: None)


def _nothing_synced(patch: pytest.MonkeyPatch) -> None:
    """What was acknowledged is in memory only."""
    patch.setattr(Disk, "sync", False)


def _half_synced(patch: pytest.MonkeyPatch) -> None:
    """Names are on the disk before what they name."""
    patch.setattr(Disk, "sync", False)
    patch.setattr(Disk, "whole", False)


def _forged_counted(patch: pytest.MonkeyPatch) -> None:
    """What nobody signed counts as what somebody said and did."""
    from rocwright.store.trust import guard

    patch.setattr(guard.Guarded, "trust", lambda self, prefix: None)


TAKEN_OUT = {
    "no exclusion": (_no_exclusion, "conditional", r"acknowledged|not those of its log"),
    "pages in the wrong order": (_root_page_first, "conditional", r"finds no"),
    "pages before files": (_pages_before_files, "conditional", r"not there"),
    "done before pages": (_done_before_pages, "conditional", r"acknowledged|its log|or does not"),
    "no patience": (_no_patience, "conditional", r"finds no .*(pages of different age|of a copy)"),
    "gate left open": (_gate_left_open, "unconditional", r"must not be there"),
    "greedy retention": (_greedy_retention, "conditional", r"deleted|not there"),
    "waivers for ever": (_waivers_for_ever, "conditional", r"is broken and not waived on"),
    "bypasses for ever": (_bypasses_for_ever, "conditional", r"is not bypassed on"),
    "a suite forgotten": (_a_suite_forgotten, "conditional", r"rocm-sdk .* has not passed"),
    "yanked and offered": (
        _yanked_and_offered,
        "conditional",
        r"withdrawn and is offered|wrong about|rolled back to",
    ),
    "young files": (_young_files, "conditional", r"hours after it came in|needs it|not there|is deleted"),
    "pins not seen": (_pins_not_seen, "conditional", r"the pin .* needs it"),
    "pins swept": (_pins_swept, "conditional", r"nobody removed it"),
    "statements swept": (_statements_swept, "conditional", r"kept for ever"),
    "log cut": (_log_cut, "conditional", r"in the log and is not any more"),
    "event rewritten": (_event_rewritten, "conditional", r"was changed"),
    "half a file": (_half_a_file, "unconditional", r"has other bytes|is deleted"),
    "unlisted event": (_unlisted_event, "conditional", r"acknowledged|not those of its log"),
    "nothing synced": (_nothing_synced, "disk", r"not there|acknowledged|not in the log|not any more"),
    "half synced": (_half_synced, "disk", r"other bytes|was changed|not there|finds no"),
}


if SIGNS:
    TAKEN_OUT["forged events counted"] = (
        _forged_counted,
        "unconditional",
        r"two ways|wrong about|must not be there|finds no",
    )


# With the first seed nobody is harmed for sixty days, being alone by chance, or only after many.
SOON = {_no_exclusion: 5, _a_suite_forgotten: 2}


@pytest.mark.parametrize(("take_out", "kind", "found"), TAKEN_OUT.values(), ids=TAKEN_OUT)
def test_a_promise_taken_out_is_found(
    take_out: Callable[[pytest.MonkeyPatch], None],
    kind: str,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_out(monkeypatch)
    # Where objects are damaged and forged besides, what was taken out is found later.
    monkeypatch.setattr(history, "MENDS", False)
    options: dict[str, Any] = {"keys": key_of(1) if "forged" in take_out.__name__ else ()}
    seed = SOON.get(take_out, 1)
    with pytest.raises(Violation, match=f"(?s){found}"):
        history.begin(KINDS[kind](), tmp_path, seed, rollback_rate=20.0, crowd=1.0, **options).live(60)
