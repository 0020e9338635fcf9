"""What each way of going wrong comes to, and what it costs: `python -m real.gputest.faults`, `make faults`.

A suite on a real torch, of one file for each fault: a test that passes, the fault, a test that passes. It
goes through `rocwright test units` and `rocwright test report`, beside a JUnit file that breaks off and a
shard that never reports. Then each file runs alone: its cost is what it takes longer than a file without a
fault, for a hang without the test's own limit. A file without a fault takes the start of a worker and an
import of torch, so a fault may cost as much, and a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from real.gputest import userland

Rocwright = Callable[..., subprocess.CompletedProcess[str]]
LIMIT_S = 5
MEMORY_GB = 2
SLACK_S = 1.0
VERSION = f"{userland.TORCH}a0\n"
# What a report expects: the run itself, one whose file breaks off, one that never came.
RUN, TRUNCATED, MISSING = "units-default-cpu-1of1", "default-2of3", "default-3of3"
TRUNCATED_DIRECTORY = "test-reports-default-2-3"

_BEFORE = """\
import os
import sys

import numpy
import torch


def test_before():
    assert torch.ones(3).sum() == 3


"""
_AFTER = """


def test_after():
    assert torch.ones(3).prod() == 1
"""


@dataclass(frozen=True)
class Fault:
    """A way of going wrong: the body of the test, what has to come of it, and a word of its message."""

    name: str
    body: str
    verdict: str
    says: str
    # Seconds that belong to the fault, not to getting over it.
    own_s: float = 0

    @property
    def file(self) -> str:
        return f"test_{self.name}.py"

    @property
    def text(self) -> str:
        if self.name == "import_error":
            return _BEFORE.replace("import torch\n", "import torch\nimport torch.no_such_module\n") + _AFTER
        return f"{_BEFORE}def test_fault():\n    {self.body}{_AFTER}"

    @property
    def expected(self) -> dict[str, str]:
        """Verdicts by node id."""
        if self.name == "import_error":
            return {self.file: self.verdict}
        tests = {"test_before": "passed", "test_fault": self.verdict, "test_after": "passed"}
        return {f"{self.file}::{test}": verdict for test, verdict in tests.items()}


FAULTS = (
    # Summed by torch's own threads, from addresses that are not there.
    Fault(
        "segfault",
        "torch.from_numpy(numpy.lib.stride_tricks.as_strided(numpy.zeros(1), (1 << 40,), (1 << 20,))).sum()",
        "crashed",
        "SIGSEGV",
    ),
    # A sum over 2**60 elements of one byte: it takes no memory, and years.
    Fault("hang", "torch.zeros(1).expand(1 << 60).sum()", "hung", f"{LIMIT_S} s", own_s=LIMIT_S),
    Fault("os_exit", "os._exit(0)", "crashed", "0"),
    Fault("sys_exit", "sys.exit(0)", "failed", "SystemExit"),
    Fault("memory", "kept = [torch.ones(1 << 26) for _ in range(40)]", "memory", "GB"),
    Fault("import_error", "", "error", "no_such_module"),
)
GOOD = Fault("good", "assert torch.eye(2).trace() == 2", "passed", "")


def write_checkout(root: Path, faults: Sequence[Fault] = (*FAULTS, GOOD)) -> Path:
    """A stand-in for a PyTorch checkout: its version, and the suite as its tests."""
    (root / "test").mkdir(parents=True)
    (root / "version.txt").write_text(VERSION)
    for fault in faults:
        (root / "test" / fault.file).write_text(fault.text)
    return root


def write_truncated(reports: Path) -> None:
    """A run's report whose runner was killed while it wrote."""
    directory = reports / TRUNCATED_DIRECTORY
    directory.mkdir(parents=True)
    text = '<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="2" failures="0" errors="0">'
    text += '<testcase classname="test_good" name="test_before" time="0.1"/><testcase classname="test_g'
    (directory / "junit.xml").write_text(text)


def units_words(python: Path, checkout: Path, reports: Path, files: Sequence[str]) -> list[str | Path]:
    """The command line of a run; all limits are in it."""
    words: list[str | Path] = ["test", "units", "--cpu", "--no-cache", "--python", python]
    words += ["--pytorch-dir", checkout, "--reports-dir", reports]
    words += [word for file in files for word in ("--suite-files", file)]
    return [*words, "--test-timeout", str(LIMIT_S), "--memory-gb", str(MEMORY_GB), "--json"]


def report_words(reports: Path) -> list[str | Path]:
    """The command line of the report over the run, the broken file and the missing shard."""
    words: list[str | Path] = ["test", "report", "--reports-dir", reports]
    words += [f"--expect={name}" for name in (RUN, TRUNCATED, MISSING)]
    return [*words, "--exit-status", "--json"]


def states_of(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What a report says of each run."""
    return {one["name"]: one["state"] for one in json.loads(done.stdout)["report"]["shards"]}


# The table for people.


def measure(rocwright: Rocwright, python: Path, work: Path) -> dict[str, object]:
    """Run everything; gives rows with verdicts and seconds, and what the report says of each run."""
    checkout, reports = write_checkout(work / "pytorch"), work / "reports"
    alone = [_alone(rocwright, python, checkout, work, fault) for fault in (GOOD, GOOD, *FAULTS)]
    # The first run also writes bytecode.
    usual = alone[1]["seconds"]
    rows = []
    for fault, ran in zip(FAULTS, alone[2:], strict=True):
        cost = round(ran["seconds"] - usual - fault.own_s, 2)
        right = ran["verdicts"] == fault.expected
        rows.append(
            {"fault": fault.name, "verdict": ran["verdict"], "message": ran["message"], "right": right}
            | {"seconds": ran["seconds"], "cost_s": cost, "met": right and cost <= usual + SLACK_S}
        )
    files = [fault.file for fault in (*FAULTS, GOOD)]
    together = rocwright(*units_words(python, checkout, reports / "units", files))
    write_truncated(reports)
    judged = rocwright(*report_words(reports))
    states = states_of(judged)
    return {
        "worker_start_and_import_s": usual,
        "allowed_s": round(usual + SLACK_S, 2),
        "faults": rows,
        "together": {"exit": together.returncode, "seconds": _only(together)["seconds"]},
        "report": {"exit": judged.returncode, "shards": states},
        "met": all(row["met"] for row in rows),
    }


def _only(done: subprocess.CompletedProcess[str]) -> dict:
    try:
        (record,) = json.loads(done.stdout)["records"]
    except (ValueError, KeyError) as error:
        raise SystemExit(f"no record: {error}\n{done.stdout}\n{done.stderr}") from error
    return record


def _alone(rocwright: Rocwright, python: Path, checkout: Path, work: Path, fault: Fault) -> dict:
    done = rocwright(*units_words(python, checkout, work / "alone", [fault.file]))
    record = _only(done)
    bad = next((one for one in record["results"] if one["verdict"] == fault.verdict), record["results"][0])
    return {
        "seconds": round(record["seconds"], 2),
        "verdict": bad["verdict"],
        "message": bad.get("message", ""),
        "verdicts": {one["id"]: one["verdict"] for one in record["results"]},
    }


def show(found: dict) -> None:
    """The table, for a terminal."""
    table = Table("Fault", "Verdict", "Message", "Took", "Cost", "Allowed", "")
    for row in found["faults"]:
        seconds = (f"{row['seconds']:.2f} s", f"{row['cost_s']:.2f} s", f"{found['allowed_s']:.2f} s")
        table.add_row(row["fault"], row["verdict"], row["message"], *seconds, "" if row["met"] else "MISSED")
    for name, state in found["report"]["shards"].items():
        table.add_row("", state, name)
    Console().print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description="what each fault of a test comes to, and what it costs")
    parser.add_argument("--python", type=Path, help=f"an interpreter with torch {userland.TORCH} and pytest")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    ours = [sys.executable, "-m", "rocwright"]

    def rocwright(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*ours, *map(str, words)], text=True, capture_output=True, cwd=work)

    with tempfile.TemporaryDirectory(prefix="rocwright-faults-") as directory:
        work = Path(directory)
        found = measure(rocwright, options.python or userland.make(work / "userland"), work)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
    return 0 if found["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
