"""What losing a process costs on a real torch, beside the start of a worker and the import of torch.

A file for each fault: a test that passes, the fault, a test that passes, each noting the time. The start is
from the call to the first test: a worker, torch, the collection of a file. The cost of a fault is from its
moment to the test behind it; of a hang, without the limit of the test itself.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from measured import Watched, fresh
from results import Row, row, seconds

SLACK_S = 1.0  # beside the start
# On a busy machine it takes seconds to fill the memory: that must not look like a hang.
LIMIT_S = 10.0
MEMORY = 3 << 30

_SUITE = """\
import ctypes
import os
import time

import torch


def note(what):
    with open("moments", "a") as stream:
        print({name!r}, what, time.monotonic(), file=stream)


def test_before():
    note("before")


def test_fault():
    note("fault")
    {fault}


def test_after():
    note("after")
"""
# The body, its verdict, and the seconds that are the fault's own.
FAULTS = {
    "segfault": ("ctypes.string_at(0)", "crashed", 0.0),
    "os._exit": ("os._exit(0)", "crashed", 0.0),
    "hang": ("torch.zeros(1).expand(1 << 60).sum()", "hung", LIMIT_S),
    "memory": (
        'held = []\n    while True:\n        held.append(torch.ones(1 << 26))\n        note("fault")',
        "memory",
        0.0,
    ),
}


def crashes(python: Path, directory: Path, rounds: int) -> Row:
    """Medians over so many rounds, each with every fault once, in one worker after the other."""
    fresh(directory, made=True)
    for number, (name, (body, _, _)) in enumerate(FAULTS.items()):
        (directory / f"test_{number}.py").write_text(_SUITE.format(name=name, fault=body))
    starts: list[float] = []
    costs: dict[str, list[float]] = {name: [] for name in FAULTS}
    _round(python, directory)  # fills the file cache and writes byte code
    with Watched() as watched:
        for _ in range(rounds):
            began, moments = _round(python, directory)
            starts.append(moments["segfault", "before"] - began)
            for name, (_, _, own) in FAULTS.items():
                costs[name].append(moments[name, "after"] - moments[name, "fault"] - own)
    start = statistics.median(starts)
    figures = [
        seconds(name, statistics.median(costs[name]), watched.load, round(start + SLACK_S, 2))
        for name in costs
    ]
    figures.append(seconds("a worker's start", start, watched.load))
    return row("crashes", "what a lost process of torch costs", watched.load, figures, runs=rounds)


def _round(python: Path, directory: Path) -> tuple[float, dict[tuple[str, str], float]]:
    """When it began, and the last moment that each test noted; verdicts have to be right."""
    from rocwright.gputest.isolate.plan import Isolation
    from rocwright.gputest.isolate.run import run_isolated

    noted = directory / "moments"
    noted.unlink(missing_ok=True)
    began = time.monotonic()
    done = run_isolated(
        Isolation(
            python=python,
            root=directory,
            files=tuple(f"test_{number}.py" for number in range(len(FAULTS))),
            test_s=LIMIT_S,
            collect_s=120,
            end_s=20,
            memory=MEMORY,
            log_dir=directory / "logs",
        )
    )
    expected = [verdict for _, fault, _ in FAULTS.values() for verdict in ("passed", fault, "passed")]
    found = [case.verdict for case in done.results]
    assert found == expected, [(case.id, case.verdict, case.message) for case in done.results]
    rows = [line.split() for line in noted.read_text().splitlines()]
    return began, {(name, what): float(at) for name, what, at in rows}
