"""The good sets that mutations start from, and the check of a set of which only few files changed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from real.mutations_base import KPACK, LEGACY, SMALL, WINDOWS, Workbench
from real.sdk_sets import SMALL_TARGETS
from rocwright.check.context import Request
from rocwright.check.contract import ContractTable
from rocwright.check.facts import Facts, Installation
from rocwright.check.gather import gather_all
from rocwright.check.gather.variants import index_variants
from rocwright.check.install import prove
from rocwright.check.report import Report, sizes_of
from rocwright.check.rules import RULES, SET_RULES
from rocwright.check.run import Gathered, expand, judge, stated_beside
from rocwright.data import load_table
from rocwright.pipeline.check_set import serve_files
from windows_tree import TARGETS as WINDOWS_TARGETS
from windows_tree import windows_artifacts

if TYPE_CHECKING:
    from real.conftest import Demo, Newcomer
    from real.sdk_sets import RealSets, SmallSets

# What the demo builds its miniature family for.
TARGETS = ("gfx906", "gfx90a", "gfx1030")
TORCH = ("torch", "torchvision", "torchaudio", "triton", "apex")


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
        request = {
            key: list(value) if isinstance(value, list) else value for key, value in self.request.items()
        }
        return Workbench(dict(self.paths), scratch, request, self.material)


def make_good_sets(newcomer: Newcomer, demo: Demo, real: RealSets, small: SmallSets) -> dict[str, GoodSet]:
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
        SMALL: _good(
            SMALL, by_project(small.old), {**windows, "targets": list(SMALL_TARGETS), "install": True}
        ),
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


def check(good: GoodSet, bench: Workbench, *, without: Sequence[str] = ()) -> Report:
    """Judge the files on a workbench by all rules, or all but some; only what is new there is read."""
    files, findings = expand(bench.places)
    new = [path for path in (*bench.paths.values(), *files) if path not in good.facts]
    facts = {**good.facts, **dict(zip(new, gather_all(new), strict=True))}
    request = Request(
        targets=frozenset(bench.request["targets"]),
        closed=bench.request["closed"],
        expect=tuple(bench.request["expect"]),
        previous=sizes_of(good.facts.values()) if bench.request.get("previous") else None,
    )
    gathered = Gathered(
        tuple(facts[path] for path in (*bench.paths.values(), *files)),
        (),
        request,
        load_table("contract", ContractTable),
        tuple(findings),
        tuple(map(index_variants, stated_beside(bench.places))),
    )
    if bench.request.get("install") and not bench.installations:
        bench.installations = _installed(gathered, bench)
    return judge(
        gathered.files,
        request=request,
        contract=gathered.contract,
        findings=findings,
        installations=bench.installations,
        indexes=gathered.indexes,
        rules=[rule for rule in RULES if rule.id not in without],
        set_rules=[rule for rule in SET_RULES if rule.id not in without],
    )


def _installed(gathered: Gathered, bench: Workbench) -> tuple[Installation, ...]:
    """What pip and uv make of the files."""
    with tempfile.TemporaryDirectory(dir=bench.scratch) as work:
        return prove(gathered.context, serve_files, Path(work), note=lambda _: None)
