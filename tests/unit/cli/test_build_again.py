"""`rocwright build` run again: what is finished is taken, unless something that reaches it differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unit.builder.rocm import rocm_wheels

pytestmark = pytest.mark.slow

SETUP = """
import json, os
from pathlib import Path
from setuptools import setup
Path(os.environ["SEEN"]).write_text(json.dumps(dict(os.environ)))
setup(name="mine", version="1.0", py_modules=["mine"])
"""
RECIPE = """
[[recipes.recipe]]
project = "mine"
how = "setup.py"
"""


def plain_rocm(prefix: Path) -> None:
    files = {
        **rocm_wheels.tree(""),
        "include/hip/hip_version.h": "#define HIP_VERSION_MAJOR 6\n",
        ".info/version": "6.4.3-1\n",
        "lib/libamdhip64.so": "",
    }
    for name, text in files.items():
        path = prefix / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


def test_another_variable_of_the_caller_s_builds_again(tmp_path: Path) -> None:
    plain_rocm(tmp_path / "rocm")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "setup.py").write_text(SETUP)
    (tmp_path / "mine" / "mine.py").write_text("")
    (tmp_path / "rocwright.toml").write_text(RECIPE)

    def build(**variables: str) -> list[str]:
        """What was taken from an earlier run."""
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        words = ["--project-dir", "mine=mine", "--rocm-prefix", "rocm", "--pytorch-rocm-arch", "gfx90a"]
        done = subprocess.run(
            [sys.executable, "-m", "rocwright", "build", *words, "--output-dir", "out", "--json"],
            cwd=tmp_path,
            env={**own, **pip, "SEEN": str(tmp_path / "seen.json"), **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        taken: list[str] = json.loads(done.stdout)["resumed"]
        return [name.partition("-")[2] for name in taken]

    assert build() == []
    assert build() == ["mine"]
    flags: dict[str, str] = {}
    for name in ("CFLAGS", "HIPCC_COMPILE_FLAGS_APPEND", "USE_MPI"):
        flags[name] = "-O1"
        assert build(**flags) == [], name
        assert json.loads((tmp_path / "seen.json").read_text())[name].startswith("-O1")
    assert build(**flags, SSH_CLIENT="::1 1 2", GITHUB_RUN_ID="7", TERM="dumb") == ["mine"]
