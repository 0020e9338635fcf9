"""From directories to a judged report, as the commands ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.errors import SuiteFailed
from rocwright.gputest.report.about import About, completed
from rocwright.gputest.report.expect import parse_expected
from rocwright.gputest.report.find import find_reports
from rocwright.gputest.report.judge import judge
from rocwright.gputest.report.values import Expected, Judged, Report
from rocwright.model.skips import SkipEntry
from rocwright.model.testing import Ran, SignatureTable
from rocwright.system import workflow


@dataclass(frozen=True)
class Places:
    """Where reports lie, which runs have to report (`--expect`), and what is known of those that do not say
    it."""

    reports: tuple[Path, ...] = ()
    combined: tuple[Path, ...] = ()
    expect: tuple[str, ...] = ()
    told: Ran = Ran("")  # noqa: RUF009 - frozen

    def read(self) -> tuple[tuple[Report, ...], tuple[Expected, ...] | None]:
        """The reports, and the expected runs; None where none are named.

        Raises `UsageError` and `InvalidData` for an `expect` that cannot be understood.
        """
        expected = parse_expected(self.expect) if self.expect else None
        ids = {one.id for one in expected or ()}
        found = find_reports(self.reports, combined=self.combined, told=self.told, ids=ids)
        return found, expected


def judge_places(
    places: Places,
    about: About,
    table: SignatureTable,
    *,
    previous: Sequence[Report] | None = None,
    compared: str = "",
    entries: Sequence[SkipEntry] = (),
) -> tuple[tuple[Report, ...], Judged, About]:
    """Read, judge, and complete what is said of the whole; raises as `Places.read`."""
    found, expected = places.read()
    issues = {one.id: one.issue for one in entries if one.issue}
    judged = judge(expected, found, previous, table=table, issues=issues, compared=compared)
    return found, judged, completed(about, judged)


def tell_summary(text: str) -> bool:
    """Append Markdown to the workflow step's summary; False outside of a workflow."""
    return workflow.tell_summary(text.splitlines())


def require_passed(judged: Judged, *, next_step: str) -> None:
    """Raise `SuiteFailed` unless every expected run passed."""
    if judged.state == "passed":
        return
    states = [one.state for one in judged.shards]
    bad = [one for one in judged.shards if one.state != "passed"]
    words = {"failed": "failed", "no report": "gave no report"}
    told = ", ".join(f"{states.count(state)} {text}" for state, text in words.items() if state in states)
    raise SuiteFailed(
        f"of {len(states)} runs {told}"
        if len(states) > 1
        else f"{bad[0].name}: {bad[0].state}, {bad[0].why}",
        next_step=next_step,
    )
