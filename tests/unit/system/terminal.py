"""Code in a process of its own, whose output goes into pipes or to a real terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping

import pytest

QUIET = {"PATH": os.environ["PATH"], "PYTHONPATH": "src", "LANG": "C.UTF-8"}


def piped(code: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"from rocwright.system import console, progress\n{code}"],
        capture_output=True,
        text=True,
        env={**QUIET, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return done


def on_terminal(env: Mapping[str, str], code: str) -> str:
    """What `code` writes to a real terminal."""
    try:
        ours, theirs = pty.openpty()
    except OSError:
        pytest.skip("this system gives out no pseudo terminals (a container without /dev/pts)")
    child = subprocess.Popen(
        [sys.executable, "-c", code], stderr=theirs, stdout=theirs, env={**QUIET, "TERM": "xterm", **env}
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 4096):
            seen += piece
    except OSError:
        pass  # the other end of a terminal closes with EIO
    os.close(ours)
    assert child.wait() == 0
    return seen.decode()
