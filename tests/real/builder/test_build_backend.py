"""The planned command with the build backends of later PyTorch versions, from the package index."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import msgspec
import pytest

from one_build import run_build
from rocwright.builder.decide.family import plan_family
from rocwright.builder.decide.plan import BuildRequest
from rocwright.builder.decide.recipe import recipes
from rocwright.builder.decide.tree import read_tree
from rocwright.builder.rocm.rocm import Rocm
from rocwright.system import venv

pytestmark = pytest.mark.real

PROJECT = """
[build-system]
requires = ["scikit-build-core>=1.0"]
build-backend = "scikit_build_core.build"

[project]
name = "torch"
dynamic = ["version"]

[tool.scikit-build]
wheel.cmake = false
wheel.packages = ["torch"]

[tool.scikit-build.metadata.version]
provider = "scikit_build_core.metadata.regex"
input = "torch/version.txt"
regex = '(?P<value>.+)'
"""


def checkout(root: Path) -> Path:
    """A torch that is built with scikit-build-core and has git ignore the generated module."""
    (root / "torch").mkdir(parents=True)
    (root / "version.txt").write_text("2.14.0\n")
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "torch" / "__init__.py").write_text("")
    (root / "torch" / "version.txt").write_text("2.14.0+rocm7.10.0\n")
    (root / ".gitignore").write_text("torch/_rocm_init.py\n/dist/\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def test_scikit_build_core_packs_the_module_that_git_ignores(tmp_path: Path) -> None:
    root = checkout(tmp_path / "pytorch")
    wanted = BuildRequest(sources={"torch": str(root)}, platform="linux", targets=("gfx942",))
    rocm = Rocm("7.10.0", "/sdk", "/sdk/bin", "/sdk/lib/cmake", libraries=("amdhip64",))
    trees = {"torch": read_tree(recipes().get("torch"), root)}
    (plan,) = plan_family(wanted, rocm, recipes(), trees, caller={}, jobs=1).builds
    # No real torch: nothing to import.
    plan = msgspec.structs.replace(plan, install=False)
    environment = venv.create(tmp_path / "env")
    built = run_build(plan, environment, tmp_path / "out", log=tmp_path / "log")
    assert built.version == "2.14.0+rocm7.10.0"
    with zipfile.ZipFile(built.path) as wheel:
        text = wheel.read("torch/_rocm_init.py").decode()
        metadata = wheel.read("torch-2.14.0+rocm7.10.0.dist-info/METADATA").decode()
    assert "'amdhip64'" in text and "check_version='7.10.0'" in text
    # This backend knows no variable for requirements; they are there all the same.
    assert "Requires-Dist: rocm[libraries]==7.10.0\n" in metadata
    assert not (root / "torch" / "_rocm_init.py").exists()
