"""Histories of several seeds, one after the other, and the table of what happened in them."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from real.store import history
from real.store.history_checks import Violation
from real.store.history_disks import KINDS
from rocwright.store.objects.protocol import ObjectStore

SEED = "ROCWRIGHT_TEST_HISTORY"
# So that a seed is read and typed with ease.
_SEEDS = 1_000_000
_SHOWN = ("seed", "store", "days", "operations", "kills", "power cuts", "seconds", "violations")


def seed_of_commit() -> int:
    """A seed that follows from the commit: another one each time, and the same again for the same commit."""
    said = os.environ.get(SEED)
    if said is not None:
        return int(said)
    where = Path(__file__).parent
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=where, capture_output=True, text=True, check=False
    )
    # No clone: an archive of the sources has no commit.
    return int(done.stdout[:12], 16) % _SEEDS if done.returncode == 0 else 1


def seeds_of(text: str) -> list[int]:
    """`7`, `1-20` or `1,5,9-12`, in order."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def kind_of(seed: int) -> str:
    """The kind of store of a seed, where none is asked for: every kind has its turn."""
    return list(KINDS)[random.Random(seed).randrange(len(KINDS))]


def live(seed: int, days: int, kind: str, folder: Path) -> dict[str, Any]:
    """A history and its report; `violation` says what was found, if anything was."""
    began = time.monotonic()
    make: Callable[[], ObjectStore] = KINDS[kind]
    lived = history.begin(make(), folder, seed)
    violation = ""
    try:
        lived.live(days)
    except Violation as found:
        violation = str(found)
    report = {"seed": seed, "store": kind, **lived.report(), "violations": int(bool(violation))}
    return {**report, "seconds": round(time.monotonic() - began, 1), "violation": violation}


def table(reports: list[dict[str, Any]]) -> str:
    """A line for each seed, then every event and check with its sum over all."""
    rows = [[str(one[name]) for name in _SHOWN] for one in reports]
    widths = [max(map(len, column)) for column in zip(_SHOWN, *rows, strict=True)]
    lines = [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in [list(_SHOWN), *rows]
    ]
    for part in ("events", "checks"):
        sums: Counter[str] = Counter()
        for one in reports:
            sums.update(one[part])
        lines += ["", f"{part}:", *(f"{sums[name]:>12,}  {name}" for name in sorted(sums))]
    more = ("days", "operations", "writes", "kills", "lost answers among them", "frozen", "power cuts")
    more += ("objects lost in them", "listings that lagged", "violations")
    lines += ["", "all:", *(f"{sum(one[name] for one in reports):>12,}  {name}" for name in more)]
    return "\n".join(lines)


def main() -> int:
    """Print a report (JSON for one seed, else a table); exit code 1 for a violation."""
    parser = argparse.ArgumentParser(description=history.__doc__)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--seed", "--seeds", help=f"or several: 1-20 (default: ${SEED}, else the commit's)")
    parser.add_argument("--store", choices=KINDS, help="the kind of store (default: the seed says)")
    parser.add_argument("--json", action="store_true", help="print JSON for several seeds, too")
    given = parser.parse_args()
    seeds = seeds_of(given.seed) if given.seed is not None else [seed_of_commit()]
    reports = []
    for seed in seeds:
        kind = given.store or kind_of(seed)
        with tempfile.TemporaryDirectory(prefix="rocwright-history-") as folder:
            report = live(seed, given.days, kind, Path(folder))
        reports.append(report)
        again = f'make history HISTORY_ARGS="--days {given.days} --seed {seed} --store {kind}"'
        found = f"day {report['days']}: {report['violation']}\n  again: {again}"
        found = found if report["violations"] else "ok"
        if report["violations"] or len(seeds) > 1:
            print(f"seed {seed}, {kind}, {report['seconds']} s: {found}", file=sys.stderr, flush=True)
    if given.json or len(reports) == 1:
        print(json.dumps(reports if len(reports) > 1 else reports[0], indent=2))
    else:
        print(table(reports))
    return int(any(one["violations"] for one in reports))
