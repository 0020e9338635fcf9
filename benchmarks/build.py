"""What building with rocwright costs beside the build: deciding, records, resuming, a further Python, pins,
and a fat wheel beside the compression of what goes into it.

``python benchmarks/build.py DEMO WORK``: DEMO is a finished demo, of which the ROCm
packages and the hipified checkouts of the miniature family are taken; WORK is emptied. The family is a
stand-in: shares of compile time are those of the miniature, not of PyTorch.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from measured import Command, Ran, Side, Turns, Watched, fresh, middle, run, turns
from results import Figure, Report, Row, compared, ended, row, seconds, shown

from rocwright.builder.pins import require_pins
from rocwright.builder.units.launch import write_launchers
from rocwright.builder.units.logs import read_units
from rocwright.errors import RocwrightError
from rocwright.system.interpreters import find_interpreter
from rocwright.system.limits import available_cores
from rocwright.wheel.write import BytesSource, Member, write_members

MOST_OWN_CPU_S = 2.0
MOST_RESUME_S = 2.0
MOST_OF_FIRST = 0.2
MOST_RECORD_MS = 25.0
MOST_OF_COPY = 2.0
MOST_OF_COMPRESSION = 1.3
CALLS = 100
WHEEL_BYTES = 700_000_000
# Runs the command and writes the CPU seconds of this process, without its children, to a file.
OWN_CPU = """
import atexit, resource, sys
def tell(path=sys.argv.pop(1)):
    used = resource.getrusage(resource.RUSAGE_SELF)
    open(path, "w").write(str(used.ru_utime + used.ru_stime))
atexit.register(tell)
from rocwright.cli import main
sys.exit(main())
"""


class Family:
    """The miniature family in a directory of its own, and the command that builds it."""

    def __init__(self, demo: Path, work: Path, pythons: list[str]) -> None:
        self.work, self.out, self.own = work, work / "out", work / "own-cpu"
        shutil.copytree(demo / "src", work / "src", ignore=shutil.ignore_patterns("build", "dist"))
        self.command: Command = [sys.executable, "-c", OWN_CPU, self.own, "build", "--json"]
        self.command += ["--output-dir", self.out, "--root-checkout-dir", work / "src"]
        self.command += ["--find-links", demo / "dist" / "rocm", "--python", ",".join(pythons)]

    def build(self, *words: str) -> tuple[Ran, float]:
        """One run, and the CPU seconds of rocwright itself in it."""
        ran = run([*self.command, *words], cwd=self.work, sample=False)
        return ran, float(self.own.read_text())

    def compile_cpu(self, python: str) -> float:
        """CPU seconds of the compilers and linkers for one Python in the last run."""
        units = read_units(Path(f"{self.out}-work") / "units")
        return sum(unit.cpu_s for unit in units if unit.python == python)


def builds(family: Family, pythons: list[str], runs: int) -> list[Row]:
    """A whole build, then the same again with nothing to do, and plans alone."""
    with Watched() as watched:
        ran, own = family.build()
        compiled = [family.compile_cpu(python) for python in pythons]
        resumed = [family.build()[0] for _ in range(runs)]
        planned = [family.build("--dry-run", "--pytorch-rocm-arch", "gfx942")[0] for _ in range(runs)]
    load, commands = watched.load, sum(wheel["cpu_s"] for wheel in ran.said["wheels"])
    bookkeeping = [
        seconds("own CPU", own, load, MOST_OWN_CPU_S),
        seconds("CPU of its commands", commands, load),
        seconds("CPU of a plan", middle(each.cpu for each in planned), load),
        seconds("wall", ran.wall, load),
    ]
    resume = [
        seconds("wall", middle((each.wall for each in resumed), 3), load, MOST_RESUME_S),
        seconds("CPU", middle((each.cpu for each in resumed), 3), load),
    ]
    rows = [
        row("bookkeeping", "rocwright itself in a build of the miniature family", load, bookkeeping),
        row("resume", "a finished family again", load, resume, runs=runs),
    ]
    if len(compiled) > 1:
        share = [Figure("compile CPU", "×", round(compiled[1] / compiled[0], 3), MOST_OF_FIRST)]
        rows.append(row("second python", "a second Python", load, share, against="the first"))
    return rows


def recorder(work: Path, runs: int) -> list[Row]:
    """CPU that a launcher adds to a call of nothing, beside a shell and a bare start of Python."""
    write_launchers(work)
    record = str(work / "bin" / "record-host")
    sides = {
        "alone": ["/bin/true"],
        "recorded": [record, "/bin/true", "-c", "x.cpp", "-o", "x.o"],
        "shell": ["/bin/sh", "-c", "exec /bin/true"],
        "python": [sys.executable, "-I", "-S", "-c", "pass"],
    }
    loop = f"import subprocess, sys\nfor _ in range({CALLS}): subprocess.run(sys.argv[1:], check=True)"
    measured = turns(
        {name: Side([sys.executable, "-c", loop, *words]) for name, words in sides.items()}, runs
    )
    added = {
        name: (measured.cpu(name) - measured.cpu("alone")) / CALLS * 1000
        for name in ("recorded", "shell", "python")
    }
    figures = [
        Figure("CPU", "×", round(added["recorded"] / added["python"], 2)),
        seconds("CPU", added["recorded"], measured.load, MOST_RECORD_MS, "ms"),
        seconds("CPU of a shell", added["shell"], measured.load, unit="ms"),
    ]
    what = "recording a call of the compiler"
    return [row("recorder", what, measured.load, figures, runs=runs, against="a bare start of Python")]


def pins(work: Path, runs: int) -> list[Row]:
    """Requirements written into a large wheel, beside a copy of the file, each to the disk."""
    wheel = work / "large-1.0-py3-none-any.whl"
    metadata = b"Metadata-Version: 2.1\nName: large\nVersion: 1.0\nRequires-Dist: torch\n"
    tags = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = [
        Member("large/data.bin", BytesSource(os.urandom(WHEEL_BYTES))),
        Member("large-1.0.dist-info/METADATA", BytesSource(metadata)),
        Member("large-1.0.dist-info/WHEEL", BytesSource(tags)),
    ]
    with wheel.open("wb") as stream:
        write_members(stream, members, "large-1.0.dist-info/RECORD")
    numbers = iter(range(1, runs + 2))
    sides: dict[str, Callable[[], object]] = {
        "floor": lambda: shutil.copyfile(wheel, work / "copy"),
        "ours": lambda: require_pins(wheel, [f"torch=={next(numbers)}.0"]),
    }
    ran: dict[str, list[Ran]] = {side: [] for side in sides}
    with Watched() as watched:
        for _ in range(runs):
            for side, act in sides.items():
                ran[side].append(_spent(act))
    measured = Turns({}, ran, watched.load)
    what = f"pins written into a wheel of {shown(wheel.stat().st_size, 'B')}"
    return [compared("pins", what, measured, against="copying it", wall=MOST_OF_COPY)]


def _spent(act: Callable[[], object]) -> Ran:
    """What this process takes for it, until it is on the disk."""
    began, cpu = time.monotonic(), time.process_time()
    act()
    os.sync()
    return Ran(time.monotonic() - began, time.process_time() - cpu, 0, 0, "")


def fat(demo: Path, work: Path, runs: int) -> list[Row]:
    """A fat wheel of the demo's torch and ROCm, beside libdeflate on the same bytes and threads."""
    torch = max((demo / "dist" / "pytorch").glob("torch-*.whl"), key=lambda path: path.stat().st_mtime)
    threads = available_cores()
    command: Command = [sys.executable, "-m", "rocwright", "wheel", "fat", torch, demo / "rocm", "--json"]
    command += ["--output-path", f"{work / 'fat'}/", "--jobs", str(threads)]
    bundled = fresh(work / "bundled", made=True)
    plan = run([*command, "--dry-run"], sample=False).said
    for number, file in enumerate(plan["files"]):
        place = bundled / f"{number}-{Path(file['path']).name}"
        try:
            os.link(file["source"], place)
        except OSError:  # another file system
            shutil.copyfile(file["source"], place)
    least = [sys.executable, Path(__file__).with_name("sdk_floor.py"), "floor", bundled]
    sides = {"ours": Side(command), "floor": Side([*least, "--threads", str(threads)])}
    size = sum(file["size"] for file in plan["files"])
    what = f"a fat wheel of {shown(size, 'B')}"
    against = "only reading, hashing and compressing it"
    goal = MOST_OF_COMPRESSION
    return [compared("fat", what, turns(sides, runs), against=against, cpu=goal, threads=threads)]


def pythons_here() -> list[str]:
    """The running Python and the next one that is installed with headers."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    for text in ("3.13", "3.12", "3.11", "3.10", "3.14"):
        try:
            if text != running and find_interpreter(text).has_headers:
                return [running, text]
        except RocwrightError:
            continue
    return [running]


def main() -> int:
    """Measure, print, and tell by the exit code whether every goal was met."""
    report = Report("build", __doc__)
    report.parser.add_argument("demo", type=Path, help="directory of a finished demo")
    report.parser.add_argument("work", type=Path, help="directory to work in; what is there is deleted")
    report.parser.add_argument("--only", choices=("builds", "recorder", "pins", "fat"), action="append")
    options = report.parse()
    demo, work, runs = options.demo.resolve(), fresh(options.work.resolve(), made=True), options.runs
    pythons = pythons_here()
    parts: dict[str, Callable[[], list[Row]]] = {
        "builds": lambda: builds(Family(demo, work, pythons), pythons, runs),
        "recorder": lambda: recorder(work / "launchers", runs),
        "pins": lambda: pins(work, runs),
        "fat": lambda: fat(demo, work, runs),
    }
    for part in options.only or parts:
        report.add(*parts[part]())
    shutil.rmtree(work)
    return report.finish()


if __name__ == "__main__":
    ended(main)
