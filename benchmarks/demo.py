"""What the whole way costs: `rocwright demo` with an empty cache, with ROCm packages cached, and again.

Without --cache-dir the packages are downloaded into the work directory, so the first run starts with an empty
cache; with one, that run is left out. Memory is the largest sum of anonymous memory over the demo and all its
descendants.
"""

from __future__ import annotations

from pathlib import Path

from measured import CORES, ROCWRIGHT, Command, Watched, fresh, run
from results import Figure, Report, ended, row, seconds

# Seconds; the last is after all others, with every file in place.
GOALS = {
    "empty": ("the whole demo, nothing cached", 360.0),
    "cached": ("the same, ROCm packages cached", 150.0),
    "again": ("the demo again, nothing changed", 20.0),
}
MOST_MEMORY = 1_500_000_000


def main() -> int:
    """Run the demo two or three times and hold the figures against the goals."""
    report = Report("demo", __doc__, runs=1, command="make bench")
    report.parser.add_argument("--work-dir", type=Path, default=Path("demo-bench"))
    report.parser.add_argument("--cache-dir", type=Path)
    options = report.parse()
    work = fresh(options.work_dir / "work")
    cache = options.cache_dir or options.work_dir / "cache"
    command: Command = [ROCWRIGHT, "demo", "--json", "--work-dir", work, "--cache-dir", cache]
    for name, (what, most) in GOALS.items():
        if name == "empty":
            if options.cache_dir:
                continue
            fresh(options.work_dir)
        elif name == "cached":
            fresh(work)
        with Watched() as watched:
            ran = run(command)
        states = [step["state"] for step in ran.said["steps"]]
        figures = [
            seconds("wall", ran.wall, watched.load, most),
            seconds("CPU", ran.cpu, watched.load),
            Figure("memory", "B", ran.peak_anonymous, MOST_MEMORY),
            Figure("steps done", "", states.count("done")),
        ]
        report.add(row(name, what, watched.load, figures, threads=CORES))
    fresh(work if options.cache_dir else options.work_dir)
    return report.finish()


if __name__ == "__main__":
    ended(main)
