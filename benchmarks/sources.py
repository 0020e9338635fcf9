"""How quickly sources come back: again, at another commit, hipified before, from a warm mirror.

``python benchmarks/sources.py WORK`` prints one JSON object. WORK keeps the archive of the real PyTorch (a
source package of Debian) and is otherwise emptied. Everything comes from a git server on loopback. Our side
is the whole command `rocwright`, with the start of Python; the other side is git or the hipify script alone.
Both run in turn, several times; figures are medians of seconds, ratios medians of each turn's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdk_measure import Command, middle, run, shown
from sources_worlds import FAMILY, PLAIN, Modules, config, git, mini_family, plain_git

HERE = Path(__file__).resolve().parent
# The server and the source package are those of the tests.
sys.path.insert(0, str(HERE.parent / "tests"))

from git_server import GitServer, serving  # noqa: E402
from real.sources import debian  # noqa: E402

ROCWRIGHT = Path(sys.executable).with_name("rocwright")
MOST_AGAIN_S = 1.0
MOST_HIT_S = 0.5
MOST_OF_SCRIPT = 2.0
MOST_OF_CLONE = 1.0
MOST_OF_SERIAL = 0.5
SUBMODULES = 12
LATENCY_S = 0.3


@dataclass(frozen=True)
class Bench:
    """A directory to work in, and how often each side runs."""

    work: Path
    runs: int

    @property
    def env(self) -> dict[str, str]:
        """Of both sides: no user's settings, mirrors below the directory."""
        return {**PLAIN, "HOME": str(self.work), "ROCWRIGHT_MIRRORS": str(self.work / "mirrors")}

    def seconds(
        self, command: Command, *, cwd: Path | None = None, env: dict[str, str] | None = None
    ) -> float:
        """The wall of a command that has to succeed."""
        return run(command, cwd=cwd or self.work, env={**self.env, **(env or {})}, sample=False).wall

    def said(self, command: Command) -> Any:
        """The JSON that a command prints."""
        return run(command, cwd=self.work, env=self.env, sample=False).said


def checkout(*words: str | Path) -> Command:
    """`rocwright checkout …`."""
    return [ROCWRIGHT, "checkout", *words]


def fresh(path: Path) -> Path:
    """An empty directory."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def again(bench: Bench) -> dict[str, object]:
    """The five projects a second time, as asked for first and as locked."""
    origins = bench.work / "mini"
    mini_family(origins)
    with serving(origins) as server:
        urls = {project: server.url(name) for project, name in FAMILY.items()}
        table = config(bench.work / "mini.toml", urls)
        ours = checkout("all", "--config", table, "--directory", fresh(bench.work / "again"))
        first = bench.seconds(ours)
        resolved = [_counted(bench, server, ours) for _ in range(bench.runs)]
        locked = [_counted(bench, server, [*ours, "--locked"]) for _ in range(bench.runs)]
    walls = {"wall_s": middle(w for w, _ in resolved), "locked_wall_s": middle(w for w, _ in locked)}
    requests = [max(count for _, count in locked), max(count for _, count in resolved)]
    return {
        "goal": f"at most {MOST_AGAIN_S} s, and a locked one asks no server",
        "measured": {
            **walls,
            "first_s": round(first, 3),
            "requests_locked": requests[0],
            "requests": requests[1],
        },
        "met": max(walls.values()) <= MOST_AGAIN_S and requests[0] == 0,
        "runs": bench.runs,
        "commands": {"ours": shown(ours), "locked": shown([*ours, "--locked"])},
    }


def _counted(bench: Bench, server: GitServer, command: Command) -> tuple[float, int]:
    server.forget()
    return bench.seconds(command), server.count()


def repin(bench: Bench) -> dict[str, object]:
    """All submodules at another commit, with a server that takes its time; git does one after the other."""
    modules = Modules(fresh(bench.work / "modules"), SUBMODULES)
    modules.make()
    mine, other = bench.work / "repin", bench.work / "repin-git"
    walls: list[tuple[float, float]] = []
    rounds, peak = 0, 0
    with serving(modules.root) as server:
        asked = ["--gitrepo-origin", server.url("top"), "--repo-hashtag", "main", "--no-hipify"]
        ours = checkout("torch", *asked, "--directory", fresh(mine))
        bench.seconds(ours)
        bench.seconds(plain_git("clone", "-q", "--recurse-submodules", server.url("top"), other))
        jobs = str(SUBMODULES)
        update = plain_git("submodule", "update", "--init", "--recursive", "--jobs", jobs)
        for number in range(bench.runs):
            modules.step(f"step {number}")
            server.faults.latency_s = LATENCY_S
            server.forget()
            ahead = bench.seconds(ours)
            rounds, peak = server.rounds(), server.peak()
            serial = bench.seconds(
                plain_git("fetch", "-q", "--no-recurse-submodules", "origin", "main"), cwd=other
            )
            serial += bench.seconds(plain_git("checkout", "-q", "FETCH_HEAD"), cwd=other)
            walls.append((ahead, serial + bench.seconds(update, cwd=other)))
            server.faults.latency_s = 0
        assert git(mine / "pytorch/third_party/m0", "rev-parse", "HEAD") == git(
            other / "third_party/m0", "rev-parse", "HEAD"
        )
    ratio = middle(a / b for a, b in walls)
    return {
        "goal": f"at most {MOST_OF_SERIAL} of git, {SUBMODULES} submodules, {LATENCY_S} s for each answer",
        "measured": {
            "to git": ratio,
            "wall_s": middle(a for a, _ in walls),
            "answers one after the other": rounds,
            "at the same time": peak,
        },
        "floor": {"git_wall_s": middle(b for _, b in walls)},
        "met": ratio <= MOST_OF_SERIAL,
        "runs": bench.runs,
        "commands": {"ours": shown(ours), "git": f"git fetch; git checkout; {shown(update)}"},
    }


@dataclass(frozen=True)
class Real:
    """The real PyTorch, served."""

    bench: Bench
    repository: Path
    commit: str
    url: str

    def ask(self, directory: Path, *more: str) -> Command:
        """The command that checks it out below `directory`."""
        asked = ["--gitrepo-origin", self.url, "--repo-hashtag", debian.BRANCH, "--directory", directory]
        return checkout("torch", *asked, *more)


def hit(real: Real) -> dict[str, object]:
    """A hipified tree that was made before comes back; git alone moves the files there and back."""
    bench, place = real.bench, fresh(real.bench.work / "hit")
    tree = place / "pytorch"
    bench.seconds(real.ask(place))
    tip = git(tree, "rev-parse", "HEAD")
    back = real.ask(place, "--no-hipify")
    ours: Command = [ROCWRIGHT, "hipify", tree]
    floor = plain_git("read-tree", "-m", "-u", real.commit, tip)
    walls: list[tuple[float, float]] = []
    for _ in range(bench.runs):
        bench.seconds(back)
        assert git(tree, "rev-parse", "HEAD") == real.commit
        least = bench.seconds(floor, cwd=tree)
        bench.seconds(plain_git("read-tree", "-m", "-u", tip, real.commit), cwd=tree)
        walls.append((bench.seconds(ours), least))
        assert git(tree, "rev-parse", "HEAD") == tip
        assert git(tree, "status", "--porcelain") == ""
    command, inner = (
        middle(a for a, _ in walls),
        middle(_library(bench, back, tree) for _ in range(bench.runs)),
    )
    return {
        "goal": f"at most {MOST_HIT_S} s, the start of Python not counted",
        "measured": {"wall_s": inner, "whole_command_wall_s": command},
        "floor": {"read_tree_s": middle(b for _, b in walls)},
        "met": inner <= MOST_HIT_S,
        "runs": bench.runs,
        "commands": {"ours": shown(ours), "floor": shown(floor)},
    }


_INNER = """\
import pathlib, sys, time
import rocwright.cli.checkout
from rocwright.cli.parse import app
began = time.monotonic()
try:
    app(["hipify", sys.argv[1]])
except SystemExit as ended:
    assert not ended.code, ended.code
pathlib.Path(sys.argv[2]).write_text(str(time.monotonic() - began))
"""


def _library(bench: Bench, back: Command, tree: Path) -> float:
    """The same without the start of Python and its imports."""
    bench.seconds(back)
    out = bench.work / "seconds"
    bench.seconds([sys.executable, "-c", _INNER, tree, out])
    return float(out.read_text())


def cold(real: Real) -> dict[str, object]:
    """A tree that nobody hipified before, against the script alone, in a directory of its own."""
    bench = real.bench
    walls: list[tuple[float, float]] = []
    ours: Command = []
    hip = debian.hip_path(fresh(bench.work / "hip"), clang=False)
    script: Command = [sys.executable, debian.SCRIPT]
    for number in range(bench.runs):
        place = bench.work / f"cold-{number}"
        # No mirror, so that the result of the run before is not found.
        bench.seconds(real.ask(place, "--no-hipify", "--no-mirror"))
        by_hand = debian.export(real.repository, real.commit, bench.work / f"hand-{number}")
        ours = [ROCWRIGHT, "hipify", place / "pytorch", "--no-mirror"]
        env = {"HIP_PATH": str(hip), "PYTHONDONTWRITEBYTECODE": "1"}
        walls.append((bench.seconds(ours), bench.seconds(script, cwd=by_hand, env=env)))
        assert git(place / "pytorch", "rev-parse", "HEAD^{tree}") == debian.HIPIFIED
    ratio = middle(a / b for a, b in walls)
    return {
        "goal": f"at most {MOST_OF_SCRIPT} of the script alone, which neither exports nor commits",
        "measured": {"to script": ratio, "wall_s": middle(a for a, _ in walls)},
        "floor": {"script_wall_s": middle(b for _, b in walls)},
        "met": ratio <= MOST_OF_SCRIPT,
        "runs": bench.runs,
        "commands": {"ours": shown(ours), "script": f"HIP_PATH=... {shown(script)}"},
    }


def mirrored(real: Real) -> dict[str, object]:
    """A new checkout of commits that another one fetched before, against a clone."""
    bench = real.bench
    bench.seconds(real.ask(fresh(bench.work / "warm"), "--no-hipify"))
    walls = []
    ours, clone = real.ask(bench.work), plain_git("clone")
    # Nothing is deleted in between: the file system would be busy with it for seconds.
    for number in range(bench.runs):
        ours = real.ask(bench.work / f"mirrored-{number}", "--no-hipify")
        target = bench.work / f"clone-{number}"
        clone = plain_git("clone", "-q", "--single-branch", "--no-tags", real.url, target)
        walls.append((bench.seconds(ours), bench.seconds(clone)))
    ratio = middle(a / b for a, b in walls)
    return {
        "goal": f"at most {MOST_OF_CLONE} of a clone from a server on this machine",
        "measured": {"to git": ratio, "wall_s": middle(a for a, _ in walls)},
        "floor": {"clone_wall_s": middle(b for _, b in walls)},
        "met": ratio <= MOST_OF_CLONE,
        "runs": bench.runs,
        "commands": {"ours": shown(ours), "git": shown(clone)},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", action="append", help="names of measurements")
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    os.environ.setdefault("ROCWRIGHT_TEST_CACHE", str(work / "packages"))
    bench = Bench(fresh(work / "sources"), arguments.runs)
    report: dict[str, object] = {}

    def measure(name: str, act: Callable[[], dict[str, object]]) -> None:
        if not arguments.only or name in arguments.only:
            began = time.monotonic()
            report[name] = act()
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)

    measure("again", lambda: again(bench))
    measure("re-pin", lambda: repin(bench))
    if not arguments.only or {"hipify hit", "hipify cold", "warm mirror"} & {*arguments.only}:
        commit = debian.make_repository(bench.work / "real" / "torch")
        with serving(bench.work / "real") as server:
            real = Real(bench, bench.work / "real" / "torch", commit, server.url("torch"))
            measure("hipify hit", lambda: hit(real))
            measure("hipify cold", lambda: cold(real))
            measure("warm mirror", lambda: mirrored(real))
    shutil.rmtree(bench.work)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
