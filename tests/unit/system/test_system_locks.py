"""Locks: one at a time over threads and processes, and nothing is held by whoever was killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rocwright.errors import InvalidInput, RocwrightError
from rocwright.system import locks

HOLD = """
import sys, time
from pathlib import Path
from rocwright.system import locks
with locks.{0}(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def hold(kind: str, path: Path) -> subprocess.Popen[str]:
    """A process that has the lock."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(kind), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def release(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def test_a_checkout_in_use_is_refused_until_the_other_is_gone(tmp_path: Path) -> None:
    child = hold("exclusive", tmp_path)
    with pytest.raises(RocwrightError, match="another run is working on this checkout"):
        locks.exclusive(tmp_path).__enter__()
    release(child)
    with locks.exclusive(tmp_path):
        pass


def test_a_turn_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.lock"
    child = hold("turn", path)
    told: list[str] = []

    def waiting() -> None:
        told.append("waiting")
        release(child)  # killed: it cannot give anything back

    with locks.turn(path, waiting):
        assert told == ["waiting"]
    with locks.turn(path, waiting):
        assert told == ["waiting"]


def test_threads_take_turns(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(5):
            with locks.turn(tmp_path / "lock"):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 20
    assert max(most) == 1


def test_a_stopped_run_does_not_wait(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = hold("turn", path)
    code = (
        "import sys, threading; from pathlib import Path\n"
        "from rocwright.errors import Interrupted; from rocwright.system import locks, process\n"
        "def stop(): threading.Thread(target=process.stop_all).start()\n"
        "try:\n"
        "    with locks.turn(Path(sys.argv[1]), stop): pass\n"
        "except Interrupted: print('stopped')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    release(child)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n", "")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InvalidInput, match="cannot write"):
        locks.turn(tmp_path / "file" / "lock").__enter__()


def test_a_turn_in_a_directory_is_one_at_a_time_and_leaves_nothing(tmp_path: Path) -> None:
    """Two processes count up in one file; without turns they would overwrite each other's numbers."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    code = """
import pathlib, sys
from rocwright.system import locks
counter = pathlib.Path("counter")
for _ in range(300):
    with locks.turn_in(pathlib.Path()):
        counter.write_text(str(int(counter.read_text()) + 1))
"""
    runs = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert counter.read_text() == "900"
    assert list(tmp_path.iterdir()) == [counter]
