"""What the start of a command costs, against `pip --version`: the list of commands, the version, help.

``python benchmarks/cli.py`` prints one JSON object. Every line runs in a process of its own, in turn with
pip; figures are medians of user and system CPU seconds, so other work on the machine counts little. Both
sides are compiled before, into a directory of the run's own: what an installation has, whatever this
environment says of bytecode. The floor is the start of the same Python.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

# Of the CPU time of `pip --version`.
GOALS = {
    "--help": 1.2,
    "--version": 0.8,
    "check --help": 0.8,
    "set create --help": 0.8,
    "build --help": 0.8,
    "pipeline --help": 0.8,
    "pipeline plan --help": 0.8,
    "test skips show --help": 0.8,
}
PIP, FLOOR = ["-m", "pip", "--version"], ["-c", "pass"]


def cpu_seconds(words: list[str], environment: dict[str, str]) -> float:
    """User and system seconds of one process of this Python; raises when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    runs: int = parser.parse_args().runs
    lines = {line: ["-m", "rocwright", *line.split()] for line in GOALS}
    lines |= {"pip --version": PIP, "floor": FLOOR}
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        sides: dict[str, list[float]] = {line: [] for line in lines}
        for number in range(runs + 1):
            for line, words in lines.items():
                seconds = cpu_seconds(words, environment)
                # The first ones compile.
                if number:
                    sides[line].append(seconds)
    middle = {line: statistics.median(side) for line, side in sides.items()}
    ratio = {line: round(middle[line] / middle["pip --version"], 2) for line in GOALS}
    met = all(ratio[line] <= goal for line, goal in GOALS.items())
    result = {
        "what": "CPU time of a start, against `pip --version`",
        "goal": GOALS,
        "measured": {line: {"ratio": ratio[line], "cpu_s": round(middle[line], 3)} for line in GOALS},
        "floor": {"pip_cpu_s": round(middle["pip --version"], 3), "python_cpu_s": round(middle["floor"], 3)},
        "met": met,
        "runs": runs,
    }
    print(json.dumps(result, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
