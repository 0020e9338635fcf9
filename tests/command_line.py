"""The command line as a user types it: in this process, or as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

DAY = date(2026, 11, 24)
PROGRAM = [sys.executable, "-c", "from rocwright.cli import main; main()"]


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ended]


def day(after: int) -> str:
    """The day so many days from today, as `--expires` takes it."""
    from rocwright.system import days

    return (days.today() + timedelta(days=after)).isoformat()


def status(*words: object) -> int:
    """The exit status of a command in this process; what it prints is left to `capsys`."""
    from rocwright import cli
    from rocwright.cli import options

    # On this day no table is old; the run of a test says nothing of that later either.
    options.today = lambda: DAY
    try:
        cli.main([str(word) for word in words])
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def run(capsys: pytest.CaptureFixture[str], *words: object) -> Ended:
    """A command in this process; the fixture `rocwright` is the same in an empty directory."""
    code = status(*words)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return Ended(code, printed.out, printed.err)


def run_program(
    *words: object, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with nothing of the caller's environment but `env` and PATH."""
    done = subprocess.run(
        [*PROGRAM, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8", **(env or {})},
        timeout=timeout,
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert "\x1b" not in done.stderr + done.stdout
    return done
