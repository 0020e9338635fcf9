"""How runs of tests are printed: tests that speak against the wheels, a table of counts, where all lies."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from rocwright.cli.reply import Reply, plain
from rocwright.errors import SuiteFailed
from rocwright.gputest.record import FAILED, INTERRUPTED, NOTHING, counts, exit_status
from rocwright.model.testing import RunRecord
from rocwright.system import console

# So many bad tests of a run are listed; all of them stand in its record.
_LISTED = 50


def records_reply(records: Sequence[RunRecord], reports: Path) -> Reply:
    """What runs showed, as records and as tables."""

    def show() -> None:
        for record in records:
            _show_bad(record)
        rows = [
            (
                record.ran.key,
                ", ".join(f"{number} {verdict}" for verdict, number in counts(record.results).items())
                or "nothing ran",
                str(record.deselected) if record.deselected else "",
                f"{record.seconds:.1f} s",
                "" if record.complete else "stopped before its end",
            )
            for record in records
        ]
        console.table("", ("Run", "Tests", "Left out", "Took", ""), rows, right=(2, 3))
        for record in records:
            for text in record.notes:
                console.say(f"note: {plain(text)}")
        console.say(f"records, JUnit files and logs: {reports}")

    return Reply({"reports": str(reports), "records": [msgspec.to_builtins(one) for one in records]}, show)


def runs_reply(runs: Sequence[Mapping[str, object]]) -> Reply:
    """What would run; for people a value a line."""

    def show() -> None:
        for run in runs:
            for name, value in run.items():
                if isinstance(value, Mapping):
                    console.out(f"{name}:")
                    for key, text in value.items():
                        console.out(f"  {key}={text}")
                elif isinstance(value, list) and value:
                    console.out(f"{name}:")
                    for one in value:
                        console.out(f"  {_one_line(one)}")
                elif value not in (None, []):
                    console.out(f"{name}: {value}")

    return Reply(runs, show)


def _one_line(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{key}={text}" for key, text in value.items())
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)


def _show_bad(record: RunRecord) -> None:
    for one in record.bad[:_LISTED]:
        console.out(plain(f"{one.verdict.upper()} {one.id}{f': {one.message}' if one.message else ''}"))
    if len(record.bad) > _LISTED:
        console.out(f"and {len(record.bad) - _LISTED} more; {record.ran.key} holds all of them")


def end(records: Sequence[RunRecord], reports: Path) -> None:
    """End as pytest does: return when all passed, raise `SuiteFailed` where tests failed, else leave with 2
    (stopped) or 5 (nothing ran)."""
    status = exit_status(records)
    if status == FAILED:
        bad = sum(len(record.bad) for record in records)
        raise SuiteFailed(
            f"{bad} {'test' if bad == 1 else 'tests'} failed",
            where=reports,
            next_step=f"see them together: rocwright test report --reports-dir {reports}",
        )
    if status == INTERRUPTED:
        _leave("the run was stopped before its end", status)
    if status == NOTHING:
        _leave("no test ran, which does not count as passed: none matches the selection", status)


def _leave(text: str, status: int) -> NoReturn:
    console.say(text)
    sys.exit(status)
