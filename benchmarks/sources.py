"""How quickly sources come back: again, at another commit, hipified before, from a warm mirror.

``python benchmarks/sources.py WORK``: WORK keeps the archive of the real PyTorch (a
source package of Debian) and is otherwise emptied. Everything comes from a git server on loopback. Our side
is the whole command `rocwright`, with the start of Python; the other side is git or the hipify script alone.
Both run in turn, several times. Walls are goals where a server is waited for.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measured import ROCWRIGHT, Command, Ran, Turns, Watched, fresh, middle, run
from results import Figure, Report, Row, compared, ended, row, seconds
from sources_worlds import FAMILY, PLAIN, Modules, config, git, mini_family, plain_git

HERE = Path(__file__).resolve().parent
# The server and the source package are those of the tests.
sys.path.insert(0, str(HERE.parent / "tests"))

from git_server import GitServer, serving  # noqa: E402
from real.sources import debian  # noqa: E402

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

    def ran(self, command: Command, *, cwd: Path | None = None, env: dict[str, str] | None = None) -> Ran:
        """A command that has to succeed."""
        return run(command, cwd=cwd or self.work, env={**self.env, **(env or {})}, sample=False)


def checkout(*words: str | Path) -> Command:
    """`rocwright checkout …`."""
    return [ROCWRIGHT, "checkout", *words]


def empty(path: Path) -> Path:
    """An empty directory."""
    return fresh(path, made=True)


def both(*ran: Ran) -> Ran:
    """Several commands as one."""
    return Ran(sum(one.wall for one in ran), sum(one.cpu for one in ran), 0, 0, "")


def again(bench: Bench) -> Row:
    """The five projects a second time, as asked for first and as locked."""
    origins = bench.work / "mini"
    mini_family(origins)
    with serving(origins) as server:
        urls = {project: server.url(name) for project, name in FAMILY.items()}
        table = config(bench.work / "mini.toml", urls)
        ours = checkout("all", "--config", table, "--directory", empty(bench.work / "again"))
        bench.ran(ours)
        with Watched() as watched:
            resolved = [_counted(bench, server, ours) for _ in range(bench.runs)]
            locked = [_counted(bench, server, [*ours, "--locked"]) for _ in range(bench.runs)]
    load = watched.load
    figures = [
        seconds("wall", middle((ran.wall for ran, _ in resolved), 3), load, MOST_AGAIN_S),
        seconds("wall with --locked", middle((ran.wall for ran, _ in locked), 3), load, MOST_AGAIN_S),
        Figure("requests", "", max(count for _, count in resolved)),
        Figure("requests with --locked", "", max(count for _, count in locked), 0),
    ]
    return row("again", "`checkout all` of the miniature family again", load, figures, runs=bench.runs)


def _counted(bench: Bench, server: GitServer, command: Command) -> tuple[Ran, int]:
    server.forget()
    return bench.ran(command), server.count()


def repin(bench: Bench) -> Row:
    """All submodules at another commit, with a server that takes its time; git does one after the other."""
    modules = Modules(empty(bench.work / "modules"), SUBMODULES)
    modules.make()
    mine, other = bench.work / "repin", bench.work / "repin-git"
    turns = _Turns("git")
    with serving(modules.root) as server, turns.watched:
        asked = ["--gitrepo-origin", server.url("top"), "--repo-hashtag", "main", "--no-hipify"]
        ours = checkout("torch", *asked, "--directory", empty(mine))
        bench.ran(ours)
        bench.ran(plain_git("clone", "-q", "--recurse-submodules", server.url("top"), other))
        jobs = str(SUBMODULES)
        update = plain_git("submodule", "update", "--init", "--recursive", "--jobs", jobs)
        for number in range(bench.runs):
            modules.step(f"step {number}")
            server.faults.latency_s = LATENCY_S
            server.forget()
            ahead = bench.ran(ours)
            rounds = server.rounds()
            fetch = plain_git("fetch", "-q", "--no-recurse-submodules", "origin", "main")
            steps = (fetch, plain_git("checkout", "-q", "FETCH_HEAD"), update)
            turns.add(ahead, both(*(bench.ran(step, cwd=other) for step in steps)))
            server.faults.latency_s = 0
        assert git(mine / "pytorch/third_party/m0", "rev-parse", "HEAD") == git(
            other / "third_party/m0", "rev-parse", "HEAD"
        )
    what = f"another commit with {SUBMODULES} submodules, each answer after {LATENCY_S} s"
    more = [Figure("answers one after the other", "", rounds)]
    against = f"`git submodule update --jobs {SUBMODULES}`"
    return turns.row("re-pin", what, against=against, wall=MOST_OF_SERIAL, more=more)


class _Turns:
    """Both sides, run by hand in turn because each run changes what the next one finds."""

    def __init__(self, other: str) -> None:
        self.watched, self.other = Watched(), other
        self.ran: dict[str, list[Ran]] = {"ours": [], other: []}

    def add(self, ours: Ran, other: Ran) -> None:
        """One turn."""
        self.ran["ours"].append(ours)
        self.ran[self.other].append(other)

    def row(self, name: str, what: str, **more: Any) -> Row:
        """The comparison, when all are over."""
        return compared(
            name, what, Turns({}, self.ran, self.watched.load), sides=("ours", self.other), **more
        )


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


def hit(real: Real) -> Row:
    """A hipified tree that was made before comes back; git alone moves the files there and back."""
    bench, place = real.bench, empty(real.bench.work / "hit")
    tree = place / "pytorch"
    bench.ran(real.ask(place))
    tip = git(tree, "rev-parse", "HEAD")
    back = real.ask(place, "--no-hipify")
    ours: Command = [ROCWRIGHT, "hipify", tree]
    floor = plain_git("read-tree", "-m", "-u", real.commit, tip)
    turns = _Turns("read-tree")
    with turns.watched:
        for _ in range(bench.runs):
            bench.ran(back)
            assert git(tree, "rev-parse", "HEAD") == real.commit
            least = bench.ran(floor, cwd=tree)
            bench.ran(plain_git("read-tree", "-m", "-u", tip, real.commit), cwd=tree)
            turns.add(bench.ran(ours), least)
            assert git(tree, "rev-parse", "HEAD") == tip
            assert git(tree, "status", "--porcelain") == ""
        inner = middle((_library(bench, back, tree) for _ in range(bench.runs)), 3)
    more = [seconds("without the start of Python", inner, turns.watched.load, MOST_HIT_S)]
    what = "a hipified PyTorch found again"
    return turns.row("hipify hit", what, against="`git read-tree` alone", more=more)


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
    bench.ran(back)
    out = bench.work / "seconds"
    bench.ran([sys.executable, "-c", _INNER, tree, out])
    return float(out.read_text())


def cold(real: Real) -> Row:
    """A tree that nobody hipified before, against the script alone, in a directory of its own."""
    bench = real.bench
    hip = debian.hip_path(empty(bench.work / "hip"), clang=False)
    script: Command = [sys.executable, debian.SCRIPT]
    env = {"HIP_PATH": str(hip), "PYTHONDONTWRITEBYTECODE": "1"}
    turns = _Turns("script")
    with turns.watched:
        for number in range(bench.runs):
            place = bench.work / f"cold-{number}"
            # No mirror, so that the result of the run before is not found.
            bench.ran(real.ask(place, "--no-hipify", "--no-mirror"))
            by_hand = debian.export(real.repository, real.commit, bench.work / f"hand-{number}")
            ours = bench.ran([ROCWRIGHT, "hipify", place / "pytorch", "--no-mirror"])
            turns.add(ours, bench.ran(script, cwd=by_hand, env=env))
            assert git(place / "pytorch", "rev-parse", "HEAD^{tree}") == debian.HIPIFIED
    what, against = "PyTorch hipified for the first time, with export and commit", "its script alone"
    return turns.row("hipify cold", what, against=against, cpu=MOST_OF_SCRIPT)


def mirrored(real: Real) -> Row:
    """A new checkout of commits that another one fetched before, against a clone."""
    bench = real.bench
    bench.ran(real.ask(empty(bench.work / "warm"), "--no-hipify"))
    turns = _Turns("clone")
    # Nothing is deleted in between: the file system would be busy with it for seconds.
    with turns.watched:
        for number in range(bench.runs):
            ours = bench.ran(real.ask(bench.work / f"mirrored-{number}", "--no-hipify"))
            target = bench.work / f"clone-{number}"
            clone = plain_git("clone", "-q", "--single-branch", "--no-tags", real.url, target)
            turns.add(ours, bench.ran(clone))
    against = "`git clone` from a server on this machine"
    what = "PyTorch from a warm mirror"
    return turns.row("warm mirror", what, against=against, cpu=MOST_OF_CLONE, wall=MOST_OF_CLONE)


def main() -> int:
    """Measure and print."""
    report = Report("sources", __doc__)
    report.parser.add_argument("work", type=Path)
    report.parser.add_argument("--only", action="append", help="names of measurements")
    options = report.parse()
    work = options.work.resolve()
    os.environ.setdefault("ROCWRIGHT_TEST_CACHE", str(work / "packages"))
    bench = Bench(empty(work / "sources"), options.runs)

    def measure(name: str, act: Callable[[], Row]) -> None:
        if not options.only or name in options.only:
            report.add(act())

    measure("again", lambda: again(bench))
    measure("re-pin", lambda: repin(bench))
    if not options.only or {"hipify hit", "hipify cold", "warm mirror"} & {*options.only}:
        commit = debian.make_repository(bench.work / "real" / "torch")
        with serving(bench.work / "real") as server:
            real = Real(bench, bench.work / "real" / "torch", commit, server.url("torch"))
            measure("hipify hit", lambda: hit(real))
            measure("hipify cold", lambda: cold(real))
            measure("warm mirror", lambda: mirrored(real))
    shutil.rmtree(bench.work)
    return report.finish()


if __name__ == "__main__":
    ended(main)
