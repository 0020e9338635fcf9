"""An earlier run for tests that are not about ROCm's packages: those of this session's demo."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# What a runner of the tests says of itself is not said of theirs.
OTHERS = ("GITHUB_", "ROCWRIGHT_")


@pytest.fixture
def earlier(demo) -> Callable[[Path, str], None]:
    """Gives a store, a folder, ROCm's packages of the demo as those of a run.

    To make them takes as long as all else that such a test does.
    """

    def given(store: Path, run_id: str) -> None:
        argv = [sys.executable, "-m", "rocwright", "store", "upload", "--store", str(store)]
        argv += ["--input-packages-dir", str(demo.work / "dist" / "rocm")]
        argv += ["--run-id", run_id, "--artifact-group", "debian12"]
        own = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
        done = subprocess.run(argv, cwd=demo.work, env=own, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    return given
