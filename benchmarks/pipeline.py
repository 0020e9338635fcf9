"""How long it takes to plan the full nightly matrix: 5 Pythons, 4 branches, 20 GPU targets, 2 platforms.

Each side runs in a process of its own, in turn, with the start of Python. Ours is the whole command
`rocwright pipeline plan --json`. The floor is a process that reads the finished plan, checks it against its
schema and prints it in the same form: what anybody pays who only passes it on. `work` is planning alone, in a
process that has begun. The plan is the largest there is: a build for each target (the profile's own is one
build for all).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measured import Side, run, turns
from results import Figure, Report, compared, ended, seconds

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
import json, sys, time
from rocwright.model.plan import Choice, Publication
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.plan import make_plan
tables, profile = known(environment={}), profiles().named("nightly")
choice = Choice("nightly", "1", families=tuple(sys.argv[1].split()), grouping="family")
begun, cpu = time.perf_counter(), time.process_time()
make_plan(profile, choice, tables, Publication(True, True))
print(json.dumps({"wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu}))
"""


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    report = Report("pipeline", __doc__)
    runs: int = report.parse().runs
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        plan = place / "plan.json"
        # Where no rocwright.toml lies.
        plan.write_text(run(OURS, cwd=place, sample=False).output)
        sides = {
            "ours": Side(OURS, cwd=place),
            "floor": Side([sys.executable, "-c", _FLOOR, plan]),
            "work": Side([sys.executable, "-c", _WORK, TARGETS], inner=True),
        }
        measured = turns(sides, runs)
    mine, copied = measured.first["ours"], measured.first["floor"]
    said, load = mine.said, measured.load
    more = [
        seconds("start to end", measured.wall("ours"), load, MOST_WALL),
        seconds("planning alone", measured.wall("work"), load),
        Figure("plans that differ from their copy", "", int(mine.output.strip() != copied.output.strip()), 0),
    ]
    what = (
        "plan of a nightly with `--grouping family` (5 Pythons, 4 references, 20 targets, 2 platforms: "
        f"{len(said['cells']):,} steps)"
    )
    against = "decoding and printing the finished plan"
    report.add(compared("plan", what, measured, against=against, cpu=MOST_RATIO, more=more))
    return report.finish()


if __name__ == "__main__":
    ended(main)
