"""What plans of a thousand, ten thousand and a hundred thousand steps cost: to make, and to go through.

Each is a whole command: `rocwright pipeline plan --json` for the nightly profile, with a build for each of
20 targets, and `rocwright pipeline run --dry-run` of that plan, in which each step tells what it would do.
What grows is the number of branches of PyTorch.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from measured import ROCWRIGHT, Side, run
from pipeline import OURS
from results import Report, ended, grown

BRANCHES = (1, 4, 40)


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    report = Report("scale", __doc__, runs=1)
    report.parse()
    sides, runs = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        # Where no rocwright.toml lies.
        place = Path(folder)
        for branches in BRANCHES:
            names = " ".join(f"branch-{number}" for number in range(branches))
            side = Side([*OURS, "--pytorch-git-refs", names], cwd=place)
            plan = place / f"{branches}.json"
            plan.write_text(run(side.command, cwd=place, sample=False).output)
            cells = len(json.loads(plan.read_text())["cells"])
            sides[cells] = side
            work = place / f"run-{branches}"
            command = [ROCWRIGHT, "pipeline", "run", "--dry-run", "--plan", plan, "--work-dir", work]
            runs[cells] = Side(command, cwd=place)
        what = "plan of a nightly with `--grouping family` for 20 targets and 1 to 40 branches"
        report.add(grown("plan", what, "steps", sides, exponent=1.1))
        what = "going through such a plan (`pipeline run --dry-run`)"
        report.add(grown("plan-run", what, "steps", runs, exponent=1.1))
    return report.finish()


if __name__ == "__main__":
    ended(main)
