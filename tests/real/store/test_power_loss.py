"""The power is cut while publishers are at work: what a command has acknowledged is there afterwards.

A library between Python and the C library writes down what real publishers ask of the system; what a disk may
hold when the power goes at some moment follows from that by a strict model, and the commands judge it.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

import command_line
from needs import needs
from real.store.power_checks import Command, make_wheels, program, publish, set_in, violations
from real.store.power_model import Change, acknowledge, build_recorder, changes, disk_after

pytestmark = [pytest.mark.real, needs("gcc")]
MOMENTS = 40
SEED = 20261126
# Killed when these have their names and the folders are not synced yet: the next one finds them there.
NAMED = (".whl.metadata", "/manifest.json", "/receipt-", "/_log/0", "/fam/_json/engine/", "/_log/shown-")


@dataclass
class Recorded:
    """What publishers did on the disk that is the folder `root`, and the folders of wheels that they took."""

    root: Path
    log: tuple[Change, ...]
    wheels: list[Path]

    def cut(self, moment: int, target: Path, chance: random.Random) -> tuple[Path, list[str]]:
        """The store after a power cut behind so many changes, and the sets acknowledged by then."""
        disk, acknowledged = disk_after(self.log[:moment], self.root)
        shutil.rmtree(target, ignore_errors=True)
        disk.cut(target, chance)
        return target / "store", acknowledged

    @property
    def returns(self) -> list[int]:
        """The moments at which a command had just returned."""
        return [number + 1 for number, one in enumerate(self.log) if one.operation == "acknowledged"]


def record(folder: Path, *, sync: str) -> Recorded:
    """Three sets; the publisher of the second is killed again and again, and its command run once more."""
    recorder, log, root = build_recorder(folder), folder / "log", folder / "disk"
    root.mkdir()
    wheels = [make_wheels(folder / "wheels", number)[0].parent for number in (1, 2, 3)]
    env = {
        "LD_PRELOAD": str(recorder),
        "RECORD_ROOT": str(root),
        "RECORD_LOG": str(log),
        "ROCWRIGHT_STORE_SYNC": sync,
    }
    for number, one in enumerate(wheels):
        for part in NAMED if number == 1 else ():
            killed = program(*publish(one, root / "store"), env={**env, "RECORD_DIE": part})
            assert killed.returncode == -9, killed.stderr
            for lease in (root / "store/_leases").rglob("*.json"):
                # As its age would have it: nobody renews it any more.
                lease.unlink()
        done = program(*publish(one, root / "store"), env=env)
        assert done.returncode == 0, done.stderr
        acknowledge(log, set_in(done.stdout))
    return Recorded(root, tuple(changes(log)), wheels)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Commands in this process, which waits for no disk."""
    monkeypatch.setenv("ROCWRIGHT_STORE_SYNC", "0")

    def run(*words: object) -> tuple[int, str]:
        done = command_line.run(capsys, *words)
        return done.code, done.out + done.err

    return run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("power"), sync="1")


def judged(
    recorded: Recorded, moments: list[int], command: Command, target: Path, chance: random.Random
) -> tuple[dict[int, list[str]], int]:
    """What is wrong after a power cut at each moment, if anything; and how often a set was acknowledged."""
    found: dict[int, list[str]] = {}
    count = 0
    for moment in moments:
        store, acknowledged = recorded.cut(moment, target, chance)
        count += len(acknowledged)
        if wrong := violations(command, store, acknowledged):
            found[moment] = wrong
    return found, count


def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(
    recorded: Recorded, command: Command, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    # Whatever a command forgot to sync is still at stake when it has just returned.
    moments = 8 * recorded.returns + [chance.randrange(len(recorded.log)) for _ in range(MOMENTS)]
    found, count = judged(recorded, moments, command, tmp_path / "disk", chance)
    assert found == {}
    assert count >= MOMENTS // 2


def test_the_same_command_again_completes_what_the_power_cut_ended(
    recorded: Recorded, command: Command, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    for _ in range(MOMENTS // 4):
        store, acknowledged = recorded.cut(chance.randrange(len(recorded.log)), tmp_path / "disk", chance)
        # As their age would have it: nobody renews them any more.
        shutil.rmtree(store / "_leases", ignore_errors=True)
        for wheels in recorded.wheels[: len(acknowledged) + 1]:
            code, printed = command(*publish(wheels, store))
            assert code == 0, printed
            assert violations(command, store, [*acknowledged, set_in(printed)]) == []


def test_the_trial_notices_what_is_not_synced(command: Command, tmp_path: Path) -> None:
    recorded = record(tmp_path, sync="0")
    found, _ = judged(recorded, recorded.returns, command, tmp_path / "cut", random.Random(SEED))
    assert found.keys() == set(recorded.returns)
