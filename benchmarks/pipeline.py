"""How long it takes to plan the full nightly matrix: 5 Pythons, 4 branches, 20 GPU targets, 2 platforms.

``python benchmarks/pipeline.py`` prints one JSON object. Each side runs in a process of its own, in turn,
several times; figures are medians, with the start of Python. Ours is the whole command `rocwright pipeline
plan --json`. The floor is a process that reads the finished plan, checks it against its schema and prints it
in the same form: what anybody pays who only passes it on. `work` is planning alone, in a process that has
begun. The plan is the largest there is: a build for each target (the profile's own is one build for all).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_WALL = 1.0  # seconds
MOST_RATIO = 4.0  # of the floor
TARGETS = (
    "gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1010 gfx1011 gfx1012 gfx1030"
    " gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 gfx1100 gfx1101 gfx1102 gfx1103"
)
OURS = [
    *(sys.executable, "-c", "from rocwright.cli import main; main()", "pipeline", "plan"),
    *("--profile", "nightly", "--families", TARGETS, "--grouping", "family", "--run-id", "1", "--json"),
]
_FLOOR = """
import sys, msgspec
from pathlib import Path
from rocwright.model.plan import Plan
plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
sys.stdout.write(msgspec.json.format(msgspec.json.encode(plan), indent=2).decode())
"""
_WORK = """
import sys, time
from rocwright.model.plan import Choice, Publication
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.plan import make_plan
tables, profile = known(environment={}), profiles().named("nightly")
choice = Choice("nightly", "1", families=tuple(sys.argv[1].split()), grouping="family")
begun = time.perf_counter()
make_plan(profile, choice, tables, Publication(True, True))
print(time.perf_counter() - begun)
"""


def wall(command: list[str], output: Path, cwd: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of one process whose stdout goes to a file; raises when it fails."""
    with output.open("wb") as stream:
        before, begun = os.times(), time.perf_counter()
        subprocess.run(command, check=True, stdout=stream, cwd=cwd)
        passed, after = time.perf_counter() - begun, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return passed, cpu


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        plan, copy = place / "plan.json", place / "copy.json"
        # Once before, so that no side pays for compiling modules.
        wall(OURS, plan, place)
        floor = [sys.executable, "-c", _FLOOR, str(plan)]
        wall(floor, copy, place)
        ours_s, cpu_s, floor_s, work_s = [], [], [], []
        for _ in range(runs):
            passed, cpu = wall(OURS, plan, place)
            ours_s.append(passed)
            cpu_s.append(cpu)
            floor_s.append(wall(floor, copy, place)[0])
            told = subprocess.run(
                [sys.executable, "-c", _WORK, TARGETS], check=True, stdout=subprocess.PIPE, text=True
            )
            work_s.append(float(told.stdout))
        same = plan.read_bytes().strip() == copy.read_bytes().strip()
        counted = json.loads(plan.read_bytes())
    ours, least = statistics.median(ours_s), statistics.median(floor_s)
    met = ours <= MOST_WALL and ours <= MOST_RATIO * least and same
    found = {
        "goal": {"wall_s": MOST_WALL, "wall_to_floor": MOST_RATIO},
        "measured": {
            "wall_s": round(ours, 3),
            "cpu_s": round(statistics.median(cpu_s), 3),
            "wall_to_floor": round(ours / least, 2),
            "work_s": round(statistics.median(work_s), 3),
            "cells": len(counted["cells"]),
            "jobs": len(counted["jobs"]),
            "same_bytes": same,
        },
        "floor": {"wall_s": round(least, 3)},
        "met": met,
        "commands": {"ours": shlex.join(OURS), "floor": "decode and print the finished plan"},
        "runs": runs,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(found, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
