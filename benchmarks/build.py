"""What building with rocwright costs beside the build: deciding, records, resuming, a further Python, pins,
and a fat wheel beside the compression of what goes into it.

``python benchmarks/build.py DEMO WORK`` prints one JSON object. DEMO is a finished demo, of which the ROCm
packages and the hipified checkouts of the miniature family are taken; WORK is emptied. The family is a
stand-in: shares of compile time are those of the miniature, not of PyTorch. Figures of small things are
medians; the machine's load shows in wall seconds, hardly in CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sdk_measure import Command, Ran, middle, run, shown

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

    @property
    def shown(self) -> str:
        """The command as a user would give it."""
        return shown(["rocwright", *self.command[4:]])


def builds(family: Family, pythons: list[str], runs: int) -> dict[str, object]:
    """A whole build, then the same again with nothing to do, and plans alone."""
    ran, own = family.build()
    compiled = [family.compile_cpu(python) for python in pythons]
    commands = sum(wheel["cpu_s"] for wheel in ran.said["wheels"])
    targets = len(ran.said["report"]["targets"]) - 1
    resumed = [family.build()[0] for _ in range(runs)]
    planned = [family.build("--dry-run", "--pytorch-rocm-arch", "gfx942")[0] for _ in range(runs)]
    resume_s = middle(each.wall for each in resumed)
    share = compiled[1] / compiled[0] if len(compiled) > 1 else None
    return {
        "bookkeeping": {
            "goal": f"at most {MOST_OWN_CPU_S} CPU seconds of rocwright itself in the build of the family",
            "measured": {
                "own_cpu_s": round(own, 2),
                "plan_cpu_s": round(middle(each.cpu for each in planned), 2),
                "wall_s": round(ran.wall, 1),
            },
            "floor": {"build_commands_cpu_s": round(commands, 1)},
            "met": own <= MOST_OWN_CPU_S,
        },
        "resume": {
            "goal": f"a finished family again in at most {MOST_RESUME_S} s",
            "measured": {
                "wall_s": round(resume_s, 2),
                "cpu_s": round(middle(each.cpu for each in resumed), 2),
            },
            "met": resume_s <= MOST_RESUME_S,
        },
        "second_python": {
            "goal": f"less than {MOST_OF_FIRST:.0%} of the first one's compile CPU",
            "measured": {
                "targets": targets,
                "compile_cpu_s": dict(zip(pythons, (round(each, 2) for each in compiled), strict=True)),
                "share": None if share is None else round(share, 3),
            },
            "met": None if share is None else share < MOST_OF_FIRST,
        },
    }


def recorder(work: Path, runs: int) -> dict[str, object]:
    """Milliseconds that a launcher adds to a call, beside a shell and a bare start of Python."""
    write_launchers(work)
    record = str(work / "bin" / "record-host")
    sides = {
        "alone": ["/bin/true"],
        "recorded": [record, "/bin/true", "-c", "x.cpp", "-o", "x.o"],
        "shell": ["/bin/sh", "-c", "exec /bin/true"],
        "python": [sys.executable, "-I", "-S", "-c", "pass"],
    }
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(runs):
        for name, words in sides.items():
            cpu[name].append(_cpu_ms(words))
    alone = middle(cpu["alone"])
    added = {name: round(middle(values) - alone, 2) for name, values in cpu.items() if name != "alone"}
    return {
        "goal": f"at most {MOST_RECORD_MS} CPU milliseconds a call",
        "measured": {"cpu_ms": added.pop("recorded")},
        "floor": {f"{name}_cpu_ms": value for name, value in added.items()},
        "met": middle(cpu["recorded"]) - alone <= MOST_RECORD_MS,
    }


def _cpu_ms(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(CALLS):
        subprocess.run(words, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / CALLS * 1000


def pins(work: Path, runs: int) -> dict[str, object]:
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
    ours, copies = [], []
    for number in range(runs):
        copies.append(_seconds(lambda: shutil.copyfile(wheel, work / "copy")))
        pin = f"torch=={number + 1}.0"
        ours.append(_seconds(lambda pin=pin: require_pins(wheel, [pin])))
    ratio = middle(mine / copy for mine, copy in zip(ours, copies, strict=True))
    return {
        "goal": f"at most {MOST_OF_COPY} times a copy of the {wheel.stat().st_size / 1e6:.0f} MB",
        "measured": {"wall_s": round(middle(ours), 2), "ratio": round(ratio, 2)},
        "floor": {"copy_s": round(middle(copies), 2)},
        "met": ratio <= MOST_OF_COPY,
    }


def fat(demo: Path, work: Path, runs: int) -> dict[str, object]:
    """A fat wheel of the demo's torch and ROCm, beside libdeflate on the same bytes and threads."""
    (torch,) = (demo / "dist" / "pytorch").glob("torch-*.whl")
    threads = str(available_cores())
    command: Command = [sys.executable, "-m", "rocwright", "wheel", "fat", torch, demo / "rocm", "--json"]
    command += ["--output-path", f"{work / 'fat'}/", "--jobs", threads]
    bundled = work / "bundled"
    bundled.mkdir()
    plan = run([*command, "--dry-run"], sample=False).said
    for number, file in enumerate(plan["files"]):
        place = bundled / f"{number}-{Path(file['path']).name}"
        try:
            os.link(file["source"], place)
        except OSError:  # another file system
            shutil.copyfile(file["source"], place)
    least: Command = [sys.executable, Path(__file__).with_name("wheel_write.py"), bundled]
    least += ["--threads", threads, "--side", "floor"]
    run(least, sample=False)  # warms the file cache for both
    ours, floors = [], []
    for _ in range(runs):
        floors.append(run(least, sample=False))
        ours.append(run(command, sample=False))
    ratio = middle(mine.wall / floor.wall for mine, floor in zip(ours, floors, strict=True))
    size = sum(file["size"] for file in plan["files"])
    return {
        "goal": f"at most {MOST_OF_COMPRESSION} times hashing and compressing the {size / 1e6:.0f} MB",
        "measured": {
            "wall_s": round(middle(one.wall for one in ours), 2),
            "cpu_s": round(middle(one.cpu for one in ours), 2),
            "ratio": round(ratio, 2),
        },
        "floor": {
            "wall_s": round(middle(one.wall for one in floors), 2),
            "cpu_s": round(middle(one.cpu for one in floors), 2),
            "command": shown(least),
        },
        "command": shown(command),
        "met": ratio <= MOST_OF_COMPRESSION,
    }


def _seconds(act: Any) -> float:
    began = time.monotonic()
    act()
    os.sync()
    return time.monotonic() - began


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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("demo", type=Path, help="directory of a finished demo")
    parser.add_argument("work", type=Path, help="directory to work in; what is there is deleted")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    demo, work = options.demo.resolve(), options.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    pythons = pythons_here()
    family = Family(demo, work, pythons)
    results = builds(family, pythons, options.runs)
    results |= {"recorder": recorder(work / "launchers", options.runs), "pins": pins(work, options.runs)}
    results["fat"] = fat(demo, work, options.runs)
    shutil.rmtree(work)
    met = all(each["met"] is not False for each in results.values() if isinstance(each, dict))
    facts = {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0], "command": family.shown}
    print(json.dumps({**results, **facts, "runs": options.runs, "met": met}, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
