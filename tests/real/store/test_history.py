"""Sixty simulated days of nightly releases, and what the simulation finds when a promise is taken out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from real.store import history
from real.store.history_checks import Violation
from real.store.history_store import Memory
from rocwright.store import publish, retention
from rocwright.store.lease import Lease, leased
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.sets import promote, stage


def test_sixty_days_without_a_violation() -> None:
    command = [sys.executable, "-m", "real.store.history", "--days", "60", "--seed", "1"]
    tests = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    events, checks = report["events"], report["checks"]
    assert (report["days"], report["violations"]) == (60, 0)
    # Enough happened for that to mean something.
    assert report["kills"] >= 100
    assert report["lost answers among them"] >= 30
    assert report["waits for another publisher"] >= 100
    assert report["frozen"] >= 5
    assert events["builds failed"] >= 10
    assert events["nightly: promoted"] >= 60
    assert events["nightly: blocked"] >= 10
    assert events["rollback to: rolled back"] + events["rollback: rolled back"] >= 5
    assert events["rollbacks of copies"] >= 20
    assert events["objects deleted"] >= 500
    assert checks["resolutions"] >= 50_000


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_other_histories(seed: int, tmp_path: Path) -> None:
    lived = history.begin(Memory(), tmp_path, seed, rollback_rate=10.0)
    lived.live(15)


def test_a_history_in_a_folder(tmp_path: Path) -> None:
    lived = history.begin(LocalStore(tmp_path / "store"), tmp_path, 5)
    lived.live(12)
    assert lived.world.counts.kills >= 10


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_a_history_on_a_server(kind: str, addresses: Callable[[str], str], tmp_path: Path) -> None:
    lived = history.begin(open_store(addresses(kind)), tmp_path, 6)
    lived.live(2)
    assert lived.counts["nightly: promoted"] >= 2


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

    def late(store: Any, path: Path, entry: Any) -> None:
        if entry.project != "torch":
            put(store, path, entry)

    patch.setattr(stage, "put_pooled", late)
    patch.setattr(publish, "require_files", lambda store, listed: None)
    patch.setattr(promote, "_verify_files", lambda store, manifest: None)


def _done_before_pages(patch: pytest.MonkeyPatch) -> None:
    """The event is in the log, and that is called done."""
    patch.setattr(publish, "_bring_into_line", lambda held, prefix, sets, before, view: before.state)


def _no_patience(patch: pytest.MonkeyPatch) -> None:
    """What clients still need is withdrawn at once."""
    patch.setattr(publish, "_pause", lambda *_: 0.0)


def _gate_left_open(patch: pytest.MonkeyPatch) -> None:
    """Whatever the gate says."""
    patch.setattr(promote, "require_open", lambda decision, digest: None)


def _greedy_retention(patch: pytest.MonkeyPatch) -> None:
    """Yanked sets count as gone although pages still link to their files."""
    plan = retention.plan_gc

    def greedy(store: Any, channels: Any, now: Any, **options: Any) -> Any:
        import msgspec

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


TAKEN_OUT = {
    "no exclusion": (_no_exclusion, r"acknowledged|not those of its log"),
    "pages in the wrong order": (_root_page_first, r"finds no"),
    "pages before files": (_pages_before_files, r"not there"),
    "done before pages": (_done_before_pages, r"acknowledged|not those of its log"),
    "no patience": (_no_patience, r"uv finds no .*pages of different age"),
    "gate left open": (_gate_left_open, r"must not be there"),
    "greedy retention": (_greedy_retention, r"deleted|not there"),
}


@pytest.mark.parametrize(("take_out", "found"), TAKEN_OUT.values(), ids=TAKEN_OUT)
def test_a_promise_taken_out_is_found(
    take_out: Callable[[pytest.MonkeyPatch], None],
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_out(monkeypatch)
    with pytest.raises(Violation, match=found):
        history.begin(Memory(), tmp_path, 1, rollback_rate=20.0, crowd=1.0).live(60)
