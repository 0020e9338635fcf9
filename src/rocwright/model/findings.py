"""Findings: what is wrong with a file, and waivers: who lets it pass, why and until when.

Both end up in statements about a set (`rocwright.model.statement`). Whether a waiver is in force depends on
the day, so it never changes a finding: whoever decides (the publisher, the gate) weighs both on its own day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from rocwright.errors import InvalidData

Severity = Literal["error", "warning"]
_SHOWN = 3


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One broken rule: which, how bad, in which file (or folder), why, and what to do.

    `members` are the files inside a wheel that it is about, all with the same cause.
    """

    rule: str
    severity: Severity
    file: str
    cause: str
    next_step: str
    members: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.severity} [{self.rule}] {self.file}: {self.about}{self.cause}\n  next: {self.next_step}"
        )

    @property
    def about(self) -> str:
        """The members in front of the cause: the first few, and how many more."""
        if not self.members:
            return ""
        more = len(self.members) - _SHOWN
        return ", ".join(self.members[:_SHOWN]) + (f" and {more} more" if more > 0 else "") + ": "


class Waiver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Permission to publish in spite of a rule; valid to the end of the day `expires`.

    `file` is a pattern over file names (`torch-*.whl`). Raises `InvalidData` without a reason.
    """

    rule: str
    reason: str
    expires: date
    file: str = "*"

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InvalidData(f"the waiver of {self.rule} gives no reason", next_step="say why")

    def covers(self, finding: Finding, today: date) -> bool:
        """Whether it lets this finding pass on that day."""
        return self.rule == finding.rule and today <= self.expires and fnmatchcase(finding.file, self.file)


def refused(findings: Iterable[Finding], waivers: Sequence[Waiver], today: date) -> tuple[Finding, ...]:
    """The errors among the findings that no waiver in force on that day covers."""
    return tuple(
        finding
        for finding in findings
        if finding.severity == "error" and not any(waiver.covers(finding, today) for waiver in waivers)
    )
