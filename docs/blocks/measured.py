"""Tables of what the benchmarks measured, out of the files that they write (`benchmarks/results`)."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from blocks.text import code, table

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# Not for longer: a benchmark may have the name of a package.
sys.path.insert(0, str(BENCHMARKS))
try:
    import measured
    import results
finally:
    sys.path.remove(str(BENCHMARKS))

__all__ = ["NOT_IN_TABLES", "all_results", "cells", "mark", "measured", "origin", "results"]

# Targets of the Makefile that no table knows.
NOT_IN_TABLES = {"bench-faults": "it counts findings: docs/reference/mutations.md"}
# The rows that the README shows: file and id.
README = (
    ("demo", "empty"),
    ("demo", "again"),
    ("kpack", "split rocsparse"),
    ("sdk", "kpack"),
    ("sdk", "plain"),
    ("by-hand", "reference"),
    ("check", "floor"),
    ("check", "parsed"),
    ("store", "reversion"),
    ("pipeline", "plan"),
    ("sources", "hipify hit"),
)
# And of their figures these, where they have them.
README_FIGURES = {"CPU", "wall", "memory", "disk", "start to end", "without the start of Python"}


def all_results() -> dict[str, results.Results]:
    """Every file of results by its name."""
    return {path.stem: results.read_results(path) for path in sorted((BENCHMARKS / "results").glob("*.json"))}


def render_measured() -> str:
    """Every row, by the command that measures it; those by hand are the last."""
    by_command: dict[str, list[results.Row]] = {}
    for found in sorted(all_results().values(), key=lambda found: (not found.command, found.command)):
        by_command.setdefault(found.command, []).extend(found.rows)
    parts = []
    for command, rows in by_command.items():
        head = ("what", "figure", "goal", "measured")
        told = (
            (*cells(one), f"{origin(one)}: {one.command}" if one.command else origin(one)) for one in rows
        )
        parts.append(f"## {code(command) if command else 'By hand'}\n\n" + table(head, told))
    return "\n".join(parts)


def render_readme_measured() -> str:
    """The rows of the README."""
    known = {(name, one.id): one for name, found in all_results().items() for one in found.rows}
    rows = [_short(known[key]) for key in README]
    cores = " or ".join(sorted({str(one.origin.cores) for one in rows}))
    told = ((what + mark(one), *rest) for one in rows for what, *rest in [cells(one)])
    return table((f"on {cores} cores, less is better", "figure", "goal"), told)


def _short(row: results.Row) -> results.Row:
    """A row with what one compares first."""
    figures = [figure for figure in row.figures if figure.of in README_FIGURES]
    return msgspec.structs.replace(row, figures=figures)


def render_user_measured() -> str:
    """What a user with one GPU pays."""
    rows = all_results()["user"].rows
    names = [figure.of for figure in rows[0].figures]
    lines = []
    for one in rows:
        told = {figure.of: str(figure).removeprefix(figure.of).strip() for figure in one.figures}
        lines.append((one.what, *(told[name] for name in names)))
    measured = "; ".join(sorted({origin(one) for one in rows}))
    return table(("installed", *names), lines) + f"\nMeasured {measured}.\n"


def cells(row: results.Row) -> tuple[str, str, str]:
    """What was measured, the figures, the goals."""
    what = f"{row.what}, against {row.against}" if row.against else row.what
    goals = (figure.goal for figure in row.figures)
    return what, "; ".join(map(str, row.figures)), "; ".join(filter(None, goals))


def mark(row: results.Row) -> str:
    """Where a row comes from that its benchmark did not write; empty where it did."""
    if not row.origin.note:
        return ""
    return f" ({'by hand,' if 'by hand' in row.origin.note else 'of'} {row.origin.date})"


def origin(row: results.Row) -> str:
    """When, on how many cores, and what others took of them."""
    told = f"{row.origin.date}, {row.origin.cores} cores"
    if row.origin.load is not None:
        told += f", others {row.origin.load.others:.0%}"
    return f"{told}; {row.origin.note}" if row.origin.note else told
