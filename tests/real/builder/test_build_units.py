"""What is compiled, how often, and what a cache makes of it: the miniature family, a real compiler."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocwright.builder.units.logs import UnitRecord, read_units

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
    # Of device code each target and the host's half are kept by themselves.
    kept = SHARED_HOST + SHARED_HIP * len(HIP_CLANG_TARGETS) + OWN
    assert first["cache"]["misses"] == kept
    other = plant("deeper/two")
    second = other.build("--use-ccache", **cache)["report"]
    for kind, calls in (("host", SHARED_HOST + OWN), ("hip", SHARED_HIP)):
        row = second["kinds"][kind]
        assert (row["calls"], row["hits"], row["misses"]) == (calls, calls, 0)
    assert (second["cache"]["hits"], second["cache"]["misses"]) == (kept, 0)


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


@pytest.mark.skipif(not shutil.which("ccache"), reason="needs ccache")
def test_with_a_cache_a_further_target_is_all_that_is_compiled(plant, newcomer):
    tree, cache = plant("tree"), {"CCACHE_DIR": str(newcomer.home / "ccache-of-targets")}
    first = tree.build("--use-ccache", **cache)["report"]
    assert set(first["targets"]) == HIP_CLANG_TARGETS
    more = tree.build("--use-ccache", targets=f"{TARGETS},gfx908", **cache)["report"]
    assert set(more["targets"]) == {"gfx908"}
    # A target less is nothing to compile: neither for those that stay nor for the host.
    fewer = tree.build("--use-ccache", targets="gfx908", **cache)["report"]
    assert fewer["targets"] == {}
    assert all(unit.cache == "hit" for unit in tree.records if unit.kind == "hip")
