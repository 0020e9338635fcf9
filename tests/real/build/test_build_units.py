"""What is compiled, how often, and what a cache makes of it: the miniature family, a real compiler."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocwright.build.units.records import UnitRecord, read_units
from rocwright.errors import RocwrightError
from rocwright.system.interpreters import find_interpreter

TARGETS = "gfx906,gfx90a"
# Translation units of the miniature: those of every Python, and those that include Python.h.
SHARED_HOST, SHARED_HIP, OWN = 4, 5, 6
HIP_CLANG_TARGETS = {"gfx906", "gfx90a", "host"}


@dataclass
class Tree:
    """The hipified checkouts in a directory of the newcomer's, and builds of them against the demo's ROCm."""

    newcomer: Any
    demo: Any
    root: Path

    def build(self, *words: str, targets: str = TARGETS, **env: str) -> dict[str, Any]:
        """`rocwright build`; the report is among what it prints."""
        done = self.newcomer.rocwright("build", *self.arguments(targets), *words, **env)
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def arguments(self, targets: str = TARGETS) -> list[str | Path]:
        places = ["--root-checkout-dir", self.root / "src", "--output-dir", self.root / "out"]
        rocm = ["--rocm-environment", self.demo.work / "env" / "build"]
        return [*places, *rocm, "--pytorch-rocm-arch", targets, "--json"]

    @property
    def records(self) -> list[UnitRecord]:
        """Compilations and links of the last run."""
        return [unit for unit in read_units(self.root / "out-work" / "units") if unit.kind != "other"]


@pytest.fixture
def plant(newcomer, demo, request):
    """Gives checkouts at a place below the test's own directory."""
    root = newcomer.home / request.node.name.replace("[", "-").rstrip("]")

    def at(name: str) -> Tree:
        leave = shutil.ignore_patterns("build", "dist", "*.egg-info")
        shutil.copytree(demo.work / "src", root / name / "src", ignore=leave)
        newcomer.own(newcomer.home)
        return Tree(newcomer, demo, root / name)

    yield at
    shutil.rmtree(root)


@pytest.mark.skipif(not shutil.which("ccache"), reason="needs ccache")
def test_a_cache_serves_another_checkout_of_the_same_commits(plant, newcomer):
    """Every object, of host and device code, although work and sources lie elsewhere and deeper."""
    cache = {"CCACHE_DIR": str(newcomer.home / "ccache")}
    first = plant("one").build("--use-ccache", **cache)["report"]
    assert (first["kinds"]["hip"]["misses"], first["kinds"]["hip"]["hits"]) == (SHARED_HIP, 0)
    assert first["cache"]["misses"] == SHARED_HOST + SHARED_HIP + OWN
    other = plant("deeper/two")
    second = other.build("--use-ccache", **cache)["report"]
    for kind, calls in (("host", SHARED_HOST + OWN), ("hip", SHARED_HIP)):
        row = second["kinds"][kind]
        assert (row["calls"], row["hits"], row["misses"]) == (calls, calls, 0)
    assert (second["cache"]["hits"], second["cache"]["misses"]) == (SHARED_HOST + SHARED_HIP + OWN, 0)


def test_a_further_target_compiles_device_code_and_the_list_of_targets_alone(plant):
    tree = plant("tree")
    report = tree.build()["report"]
    assert set(report["targets"]) == HIP_CLANG_TARGETS
    assert all(seconds > 0.05 for seconds in report["targets"].values())
    again = tree.build(targets=f"{TARGETS},gfx908")["report"]
    made = [unit for unit in tree.records if unit.project == "torch"]
    assert [unit.source for unit in made if unit.kind == "host"] == ["aten/src/ATen/hip/HIPContext.cpp"]
    assert sum(unit.kind == "hip" for unit in made) == 2
    assert set(again["targets"]) == {*HIP_CLANG_TARGETS, "gfx908"}


def pythons_here() -> list[str]:
    """Up to three Pythons with headers that the user who runs the tests has."""
    found = []
    for text in ("3.11", "3.12", "3.13", "3.10"):
        try:
            if find_interpreter(text).has_headers:
                found.append(text)
        except RocwrightError:
            continue
    return found[:3]


def test_what_no_python_changes_is_compiled_once_for_all(demo, tmp_path):
    """As the user who runs the tests: several Pythons are seldom installed for everybody."""
    pythons = pythons_here()
    if len(pythons) < 2:
        pytest.skip("needs two Pythons with headers")
    tree = Tree(None, demo, tmp_path)
    shutil.copytree(demo.work / "src", tmp_path / "src", ignore=shutil.ignore_patterns("build", "dist"))
    command = [str(Path(sys.executable).with_name("rocwright")), "build", "--python", ",".join(pythons)]
    done = subprocess.run(
        [*command, *map(str, tree.arguments())], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    compiled = [unit for unit in tree.records if unit.kind != "link"]
    shared = [unit for unit in compiled if "/build/obj/" in unit.object]
    assert sorted(unit.kind for unit in shared) == ["hip"] * SHARED_HIP + ["host"] * SHARED_HOST
    assert len({unit.object for unit in compiled}) == len(compiled), "and nothing at all twice"
    assert {unit.python for unit in shared} == {pythons[0]}
    own = [unit for unit in compiled if unit not in shared]
    assert sorted(unit.python for unit in own) == sorted(pythons * OWN)
    assert json.loads(done.stdout)["report"]["repeated"] == []
