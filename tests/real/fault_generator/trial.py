"""Seeded faults in a good set, and who notices: `python -m real.fault_generator.trial --good DIR …`.

The verdict is that of pip, uv and an interpreter (`world`). Beside it stands what `rocwright check --set`
says, of this tree or of several (`--tree NAME=PATH`), and where that finds nothing in a set that breaks,
what it says with `--install`. Prints the table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from real.fault_generator.base import Sample, make
from real.fault_generator.world import World, lay_out
from real.mutations_base import Workbench
from real.mutations_good import TARGETS, by_project

REPOSITORY = Path(__file__).resolve().parents[3]
WANTED = ("rocm[libraries,devel]", "torch", "torchvision", "torchaudio", "triton", "apex")
EXPECT = ("rocm", "torch", "torchvision", "torchaudio", "triton", "apex")
_LARGE = 4 << 20
_CRASHED = "it crashed"


@dataclass
class Tree:
    """One rocwright, asked through a process that keeps what it has read."""

    name: str
    path: Path
    good: Path
    proved: bool = False
    child: subprocess.Popen[str] | None = field(default=None, repr=False)

    def ask(self, folder: Path, targets: Sequence[str], *, install: bool = False) -> list[str]:
        """Ids of rules that are broken: by what the files say, or when the installation is proved, too."""
        if install and not self.proved:
            self.proved = True
            wrong = self.ask(self.good, targets, install=True)
            assert not wrong, f"{self.name} says of the good set, installed: {wrong}"
        if self.child is None or self.child.poll() is not None:
            self.child = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("judge.py")), self.good, self.good.parent],
                env={**os.environ, "PYTHONPATH": str(self.path / "src")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        asked = {"folder": str(folder), "expect": EXPECT, "targets": list(targets), "install": install}
        print(json.dumps(asked), file=self.child.stdin, flush=True)
        answer = self.child.stdout.readline()
        found: list[str] = json.loads(answer) if answer else [_CRASHED]
        return found


# One world for each process.
_here: dict[str, Any] = {}


def _begin(
    good: dict[str, Path],
    work: Path,
    trees: Sequence[tuple[str, Path]],
    targets: Sequence[str],
    known: dict[int, dict[str, Any]],
    install: bool,
    python: str,
) -> None:
    place = Path(tempfile.mkdtemp(dir=work))
    lay_out(good, place / "good")
    asked = [Tree(*tree, place / "good") for tree in trees]
    _here.update(good=good, place=place, trees=asked, targets=targets, known=known, install=install)
    _here["python"] = python


def _one(seed: int) -> dict[str, Any]:
    scratch, folder = _here["place"] / "scratch", _here["place"] / "set"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    sample = make(_here["good"], scratch, seed)
    row: dict[str, Any] = _here["known"].get(seed) or _verdict(sample)
    lay_out(sample.paths, folder)
    for tree in _here["trees"]:
        static = tree.ask(folder, _here["targets"])
        ask = row["verdict"] != "silent" and _here["install"] and set(static) <= {_CRASHED}
        proved = tree.ask(folder, _here["targets"], install=True) if ask else []
        row["found"][tree.name] = {"static": static, "installed": proved}
    return row


def spoilt(good: dict[str, Path], scratch: Path) -> dict[str, Path]:
    """The good set with a torch that no Python reads, nor any edition of the check takes."""
    bench = Workbench(dict(good), scratch, {})
    with bench.edit("torch") as wheel:
        wheel.put("torch/__init__.py", "broken on purpose\n")
        wheel.remove("torch/lib/libtorch_hip.so")
    return bench.paths


def _control() -> None:
    """The good set is clean for each tree, and one that is broken is not."""
    broken = _here["place"] / "broken"
    lay_out(spoilt(_here["good"], _here["place"] / "spoilt"), broken)
    for tree in _here["trees"]:
        found = tree.ask(tree.good, _here["targets"])
        assert not found, f"{tree.name} says of the good set: {found}"
        assert tree.ask(broken, _here["targets"]), f"{tree.name} takes a torch that is broken"


def _verdict(sample: Sample) -> dict[str, Any]:
    if "world" not in _here:
        good = _here["good"]
        heavy = tuple(name for name, path in good.items() if path.stat().st_size > _LARGE)
        broken = spoilt(good, _here["place"] / "spoilt")
        _here["world"] = World(good, _here["place"] / "world", WANTED, broken, heavy, _here["python"])
    verdict = _here["world"].judge(sample.paths)
    return {
        "seed": sample.seed,
        "operators": sample.operators,
        "told": sample.told,
        "verdict": verdict.word,
        "breaks": verdict.breaks[:4],
        "harms": verdict.harms[:4],
        "found": {},
    }


def run(
    good: dict[str, Path],
    work: Path,
    seeds: Iterable[int],
    *,
    trees: Sequence[tuple[str, Path]] = (("this", REPOSITORY),),
    targets: Sequence[str] = TARGETS,
    known: dict[int, dict[str, Any]] | None = None,
    install: bool = True,
    jobs: int = 2,
    python: str = sys.executable,
) -> Iterable[dict[str, Any]]:
    """What became of each seed's sample, in order; of those in `known` only the trees are asked."""
    work.mkdir(parents=True, exist_ok=True)
    begin = (good, work, trees, targets, known or {}, install, python)
    # A fork of a test's process would keep locks of threads that are not there any more.
    apart = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=apart, initializer=_begin, initargs=begin) as pool:
        pool.submit(_control).result()
        yield from pool.map(_one, seeds)


def missed(row: dict[str, Any], tree: str) -> bool:
    """Whether a client notices, and the tree does not, even where it installs."""
    found = row["found"][tree]
    return row["verdict"] != "silent" and {*found["static"], *found["installed"]} <= {_CRASHED}


def table(rows: Sequence[dict[str, Any]], trees: Sequence[str]) -> str:
    """For each operator: samples in which it took part, what became of them, and what each tree missed."""
    head = ["operator", "samples", "breaks", "harms", "silent"]
    for name in trees:
        head += [f"{name}: static", "with --install", "missed", "refused though silent"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    names = {name for row in rows for name in row["operators"]}
    groups = {name: [row for row in rows if name in row["operators"]] for name in names}
    for name, some in [*sorted(groups.items()), ("all samples", list(rows))]:
        words = Counter(row["verdict"] for row in some)
        cells = [name, len(some), words["breaks"], words["harms"], words["silent"]]
        for tree in trees:
            loud = [row for row in some if row["verdict"] != "silent"]
            static = sum(bool(row["found"][tree]["static"]) for row in loud)
            proved = sum(bool(row["found"][tree]["installed"]) for row in loud)
            refused = sum(bool(row["found"][tree]["static"]) for row in some if row["verdict"] == "silent")
            cells += [static, proved, sum(missed(row, tree) for row in some), refused]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def good_set(*folders: Path) -> dict[str, Path]:
    """The wheels and sdists of folders by project."""
    return {name: path.resolve() for folder in folders for name, path in by_project(folder).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--good", type=Path, nargs="+", required=True, help="folders of the good set")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--targets", default=",".join(TARGETS), help="of the good set, separated by commas")
    parser.add_argument("--tree", action="append", default=[], help="NAME=PATH of a checkout; also several")
    parser.add_argument("--rows", type=Path, help="keeps what came of each sample; its verdicts hold")
    parser.add_argument("--no-install", action="store_true", help="ask no tree for `--install`")
    options = parser.parse_args()
    named = [tuple(each.split("=", 1)) for each in options.tree] or [("this", str(REPOSITORY))]
    lines = options.rows.read_text().splitlines() if options.rows and options.rows.exists() else []
    rows = []
    for row in run(
        good_set(*options.good),
        options.work,
        range(options.seed, options.seed + options.samples),
        trees=[(name, Path(path)) for name, path in named],
        targets=options.targets.split(","),
        known={row["seed"]: row for row in map(json.loads, lines)},
        install=not options.no_install,
        jobs=options.jobs,
    ):
        rows.append(row)
        if options.rows:
            with options.rows.open("a") as out:
                print(json.dumps(row), file=out)
    print(table(rows, list(rows[0]["found"])))


if __name__ == "__main__":
    main()
