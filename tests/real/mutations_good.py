"""The good sets that mutations start from, and the check of a set of which only few files changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from real.mutations_base import KPACK, LEGACY, WINDOWS, Workbench
from rocwright.check.context import Request
from rocwright.check.contract import ContractTable, PackageRow
from rocwright.check.facts import Facts
from rocwright.check.gather import gather_all
from rocwright.check.report import Report
from rocwright.check.rules import RULES, SET_RULES
from rocwright.check.run import expand, judge
from rocwright.data import load_table
from windows_tree import TARGETS as WINDOWS_TARGETS
from windows_tree import windows_artifacts

if TYPE_CHECKING:
    from real.conftest import Demo, Newcomer
    from real.sdk_sets import RealSets

# What the demo builds its miniature family for.
TARGETS = ("gfx906", "gfx90a", "gfx1030")
TORCH = ("torch", "torchvision", "torchaudio", "triton", "apex")
# Far above the miniature's few kilobytes, and small enough to be exceeded in a blink.
BUDGET = 1_000_000


@dataclass(frozen=True)
class GoodSet:
    """Wheels and sdists by project, the facts about each file, and how the set is to be checked."""

    name: str
    paths: dict[str, Path]
    request: dict[str, Any]
    material: dict[str, Path]
    facts: dict[Path, Facts]

    def bench(self, scratch: Path) -> Workbench:
        """A workbench with the good files, which stay as they are."""
        return Workbench(dict(self.paths), scratch, dict(self.request), self.material)


def make_good_sets(newcomer: Newcomer, demo: Demo, real: RealSets) -> dict[str, GoodSet]:
    """All of them, from what the demo and the ROCm fixtures made."""
    root = newcomer.home / "good-sets"
    newcomer.run("mkdir", root)
    pytorch = by_project(demo.work / "dist/pytorch")
    split = root / "split"
    newcomer.rocwright("wheel", "split", pytorch["torch"], "--output-dir", split)
    windows_artifacts(root / "windows-artifacts", split=True)
    options = ["--version", "7.0.2", "--dest-dir", root / "windows"]
    newcomer.rocwright("sdk", "build", "--artifact-dir", root / "windows-artifacts", *options)

    kpack = {**by_project(real.kpack), **by_project(split), "triton": pytorch["triton"]}
    torch = {"targets": list(TARGETS), "closed": True, "expect": list(TORCH)}
    windows = {"targets": list(WINDOWS_TARGETS), "closed": True, "expect": ["rocm"]}
    return {
        LEGACY: _good(LEGACY, {**by_project(demo.work / "dist/rocm"), **pytorch}, torch),
        KPACK: _good(
            KPACK, kpack, {**torch, "expect": ["torch", "triton"]}, {"torch unsplit": pytorch["torch"]}
        ),
        WINDOWS: _good(WINDOWS, by_project(root / "windows/dist"), windows),
    }


def by_project(folder: Path) -> dict[str, Path]:
    """The wheels and sdists of a folder by canonical project name."""
    files = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return {canonicalize_name(path.name.split("-")[0]): path for path in sorted(files)}


def _good(
    name: str, paths: dict[str, Path], request: dict[str, Any], material: dict[str, Path] | None = None
) -> GoodSet:
    facts = dict(zip(paths.values(), gather_all(list(paths.values())), strict=True))
    return GoodSet(name, paths, request, material or {}, facts)


@cache
def contract() -> ContractTable:
    """The contract that users get, with a budget of its own for triton, which has a mutation for it."""
    table = load_table("contract", ContractTable)
    row = PackageRow(names=("triton",), rules=("size-budget",), budget=BUDGET)
    return ContractTable(package=(*table.package, row), growth=table.growth)


def check(good: GoodSet, bench: Workbench, *, without: Sequence[str] = ()) -> Report:
    """Judge the files on a workbench by all rules, or all but some; only what is new there is read."""
    files, findings = expand(bench.places)
    new = [path for path in (*bench.paths.values(), *files) if path not in good.facts]
    facts = {**good.facts, **dict(zip(new, gather_all(new), strict=True))}
    request = Request(
        targets=frozenset(bench.request["targets"]),
        closed=bench.request["closed"],
        expect=tuple(bench.request["expect"]),
    )
    return judge(
        [facts[path] for path in (*bench.paths.values(), *files)],
        request=request,
        contract=contract(),
        findings=findings,
        rules=[rule for rule in RULES if rule.id not in without],
        set_rules=[rule for rule in SET_RULES if rule.id not in without],
    )
