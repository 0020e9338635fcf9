"""What the start of a command costs, against `pip --version`: the list of commands, the version, help.

Every line runs in a process of its own, in turn with pip, so other work on the machine counts little. Both
sides are compiled before, into a directory of the run's own: what an installation has, whatever this
environment says of bytecode. The floor of all of it is the start of the same Python.
"""

from __future__ import annotations

import sys
import tempfile

from measured import Side, turns
from results import Report, compared, ended

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


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    report = Report("cli", __doc__, runs=20)
    runs: int = report.parse().runs
    with tempfile.TemporaryDirectory() as compiled:
        env = {"PYTHONPYCACHEPREFIX": compiled}
        words = {line: ["-m", "rocwright", *line.split()] for line in GOALS}
        words |= {"pip": ["-m", "pip", "--version"], "python": ["-c", "pass"]}
        measured = turns({line: Side([sys.executable, *each], env=env) for line, each in words.items()}, runs)
    for line, most in GOALS.items():
        what, sides = f"the start of `rocwright {line}`", (line, "pip")
        report.add(compared(line, what, measured, against="`pip --version`", sides=sides, cpu=most))
    report.add(
        compared(
            "pip",
            "the start of `pip --version`",
            measured,
            against="`python -c pass`",
            sides=("pip", "python"),
        )
    )
    return report.finish()


if __name__ == "__main__":
    ended(main)
