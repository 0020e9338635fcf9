"""How output is read where pipes cannot be waited for: by threads, which work on every system."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rocwright.system import group, process

PROGRAM = """
import sys, time
for number in range(3):
    sys.stdout.write(f"out {number}\\n"); sys.stdout.flush(); time.sleep(0.02)
    sys.stderr.write(f"err {number}\\n"); sys.stderr.flush(); time.sleep(0.02)
sys.stdout.write("x" * 300_000)
sys.exit(3)
"""
# Leaves a process behind that keeps both streams open.
DAEMON = """
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)
"""


@pytest.fixture(params=["selected", "threads"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "threads":
        monkeypatch.setattr(process, "pieces", group.from_threads)
    return str(request.param)


def test_both_streams_are_read_apart_and_whole(reader: str, tmp_path: Path) -> None:
    lines: list[str] = []
    log = tmp_path / "log"
    done = process.run([sys.executable, "-c", PROGRAM], ok=[3], watch=lines.append, log=log)
    assert done.stdout == "out 0\nout 1\nout 2\n" + "x" * 300_000
    assert lines == ["err 0", "err 1", "err 2"]
    printed = [line for line in log.read_text().splitlines() if line[:3] in ("out", "err")]
    assert printed == [f"{stream} {number}" for number in range(3) for stream in ("out", "err")]


def test_a_process_left_behind_with_the_streams_is_not_waited_for(reader: str) -> None:
    began = time.monotonic()
    done = process.run([sys.executable, "-c", DAEMON])
    assert time.monotonic() - began < 30
    os.kill(int(done.stdout), signal.SIGTERM)


def test_a_command_that_takes_too_long_is_ended_with_what_it_started(reader: str) -> None:
    with pytest.raises(process.CommandFailed) as caught:
        process.run([sys.executable, "-c", f"{DAEMON}\nimport time; time.sleep(60)"], limit_s=0.5)
    assert "not done after 0.5 seconds" in str(caught.value)
