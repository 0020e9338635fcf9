"""Ctrl-C and SIGTERM sent to a real process that runs a small graph through the command line's entry."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

GRAPH = '''
"""A graph of three steps: one ends, one is interrupted while it writes, one must never start."""
import sys
from pathlib import Path
import msgspec
from rocwright import cli
from rocwright.cli import parse
from rocwright.engine import run as local
from rocwright.engine.graph import Step, make_graph
from rocwright.system import process

class Value(msgspec.Struct, frozen=True):
    path: str

def finished(inputs, note):
    Path("finished.out").write_text("whole")
    return Value("finished.out")

def partial(inputs, note):
    out = Path("partial.out")
    if len(sys.argv) > 1:
        out.write_text("whole")
        return Value(str(out))
    out.write_text("ha")
    write = "echo $$ > pid.part; mv pid.part pid; exec sleep 60"
    process.run(["/bin/sh", "-c", f"sh -c '{write}' & touch ready; wait"])
    out.write_text("whole")
    return Value(str(out))

def after(inputs, note):
    Path("after.out").write_text("whole")
    return Value("after.out")

def step(act, *needs):
    return Step(act.__name__, Value, act, needs=needs, outputs=lambda value: (Path(value.path),))

def app(arguments, *, exit_on_error, print_error):
    graph = make_graph([step(finished), step(partial, "finished"), step(after, "partial")])
    for record in local.run(graph, Path("state"), jobs=2).steps:
        print(record.id, record.state)

parse.app = app
cli.main(["any"])
'''


def gone(pid: int) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupted_run_ends_its_children_and_resumes(tmp_path: Path, sig: signal.Signals) -> None:
    (tmp_path / "small_graph.py").write_text(GRAPH)
    argv = [sys.executable, "-m", "small_graph"]
    child = subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        while not ((tmp_path / "ready").exists() and (tmp_path / "pid").exists()):
            assert child.poll() is None, child.stderr.read() if child.stderr else ""
            time.sleep(0.02)
        child.send_signal(sig)
        stdout, stderr = child.communicate(timeout=120)
    finally:
        child.kill()
        # Whatever went wrong, no other test is to meet what is left of it.
        child.communicate()
    assert child.returncode == 130
    assert stdout == ""
    assert "error (Interrupted): interrupted" in stderr
    assert "run the same command again" in stderr
    assert "Traceback" not in stderr
    assert gone(int((tmp_path / "pid").read_text()))
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["finished.json"]
    assert (tmp_path / "partial.out").read_text() == "ha"
    assert not (tmp_path / "after.out").exists()

    again = subprocess.run([*argv, "go on"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert again.stdout.splitlines() == ["finished cached", "partial done", "after done"], again.stderr
    assert (tmp_path / "partial.out").read_text() == "whole"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_second_run_waits_and_ends_what_a_killed_one_left_at_work(tmp_path: Path) -> None:
    (tmp_path / "small_graph.py").write_text(GRAPH)
    argv = [sys.executable, "-m", "small_graph"]
    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.DEVNULL) as first:
        try:
            while not ((tmp_path / "ready").exists() and (tmp_path / "pid").exists()):
                assert first.poll() is None
                time.sleep(0.02)
            with subprocess.Popen(
                [*argv, "go on"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as second:
                assert second.stderr is not None
                assert second.stderr.readline() == "waiting for another run in .\n"
                first.kill()
                stdout, stderr = second.communicate(timeout=120)
        finally:
            first.kill()
    assert stdout.splitlines() == ["finished cached", "partial done", "after done"], stderr
    # The shell, and the one that it started.
    assert stderr == "ended 2 processes that an earlier run had left running\n"
    assert gone(int((tmp_path / "pid").read_text()))
    assert sorted(path.name for path in tmp_path.glob("state.*")) == ["state.lock"]
