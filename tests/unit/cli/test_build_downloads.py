"""`rocwright build` of a tree whose own build fetches something: told before anything begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Run
from trees import write
from unit.cli.test_build_again import RECIPE, plain_rocm

SETUP = """
import os, subprocess
from setuptools import setup
from tools.build_libs import build_libs
build_libs()
setup(name="mine", version="1.0", py_modules=["mine"])
"""
CLONES = """
import os, subprocess
def checkout_nccl():
    subprocess.check_call(["git", "clone", "https://example.org/nccl"])
def build_libs():
    checkout_nccl()
"""
SIX = "include(ExternalProject)\nExternalProject_Add(six GIT_REPOSITORY https://example.org/six)\n"
CMAKE = "add_subdirectory(third_party/nnpack)\n"


def build(rocwright: Run, tmp_path: Path, files: dict[str, str], fetches: str = "") -> tuple[int, str]:
    """Its exit code, and what it says."""
    plain_rocm(tmp_path / "rocm")
    for name, text in files.items():
        write(tmp_path / "mine" / name, text)
    write(tmp_path / "mine" / "mine.py", "")
    write(tmp_path / "rocwright.toml", RECIPE + fetches)
    where = ["--project-dir", "mine=mine", "--rocm-prefix", "rocm", "--output-dir", "out"]
    done = rocwright("build", *where, "--pytorch-rocm-arch", "gfx90a")
    return done.code, " ".join(done.err.split())


def test_a_clone_in_what_setup_py_imports_is_in_the_way(rocwright: Run, tmp_path: Path) -> None:
    code, said = build(rocwright, tmp_path, {"setup.py": SETUP, "tools/build_libs.py": CLONES})
    assert code == 12
    assert "mine: its build downloads: tools/build_libs.py, line 4: git clone in: " in said
    assert 'fetches = ["tools/build_libs.py: …"]' in said
    assert not (tmp_path / "out-work").exists()


def test_what_a_submodule_always_fetches_is_in_the_way(rocwright: Run, tmp_path: Path) -> None:
    setup = "import subprocess\nsubprocess.check_call(['cmake', '.'])\n"
    files = {"setup.py": setup, "CMakeLists.txt": CMAKE, "third_party/nnpack/CMakeLists.txt": SIX}
    code, said = build(rocwright, tmp_path, files)
    assert code == 12
    assert "third_party/nnpack/CMakeLists.txt, line 2: ExternalProject_Add(six …)" in said


def test_what_its_row_knows_is_not_in_the_way(rocwright: Run, tmp_path: Path) -> None:
    # What else is in the way stops it before it begins.
    write(tmp_path / "out", "")
    known = 'fetches = ["tools/build_libs.py: nccl"]\n'
    code, said = build(rocwright, tmp_path, {"setup.py": SETUP, "tools/build_libs.py": CLONES}, known)
    assert code == 12
    assert "its build downloads" not in said


@pytest.mark.slow
def test_what_a_condition_may_fetch_is_said_and_built(rocwright: Run, tmp_path: Path) -> None:
    clones = CLONES.replace(
        "    checkout_nccl()", "    if os.environ.get('USE_NCCL') == '1':\n        checkout_nccl()"
    )
    code, said = build(rocwright, tmp_path, {"setup.py": SETUP, "tools/build_libs.py": clones})
    assert code == 0, said
    assert (
        "mine: its build may download, by conditions of its own, and is not kept from the network: "
        "tools/build_libs.py, line 4: git clone" in said
    )
    assert list((tmp_path / "out").glob("mine-1.0*.whl"))
