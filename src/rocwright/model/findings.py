"""Findings: what is wrong with a file, and waivers: who lets it pass, why and until when.

Both end up in statements about a set (`rocwright.model.sets`). Whether a waiver is in force depends on
the day, so it never changes a finding: whoever decides (the publisher, the gate) weighs both on its own day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from rocwright.errors import ContractBroken, InvalidData, UsageError

Severity = Literal["error", "warning"]
_SHOWN = 3


def last_day(text: str, today: date) -> date:
    """The last day on which somebody's decision holds, as `--expires` gives it.

    Raises `UsageError`: no day, or one that is past.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--expires {text} is not a date", next_step="write it like 2030-01-31") from error
    if day < today:
        raise UsageError(
            f"--expires {text} is past; today is {today}", next_step="decide again and give a later date"
        )
    return day


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


@dataclass(frozen=True)
class Clause:
    """A row of a catalogue of rules: what is asked, how bad it is to break it, and what then to do.

    Where the cause decides what to do, whoever finds it says so. What is not `waivable` no waiver lets pass:
    such a file is not what it claims to be.
    """

    id: str
    summary: str
    _: KW_ONLY
    severity: Severity = "error"
    next_step: str = ""
    waivable: bool = True

    def broken(self, file: str, cause: str, next_step: str = "") -> Finding:
        """That `file` breaks it."""
        return Finding(self.id, self.severity, file, cause, next_step or self.next_step)


class HasFindings:
    """What every report is that holds findings: their counts."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong: a field of most reports, made of what was seen in others."""
        raise NotImplementedError

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many findings are warnings."""
        return sum(finding.severity == "warning" for finding in self.findings)


def refusal(findings: Iterable[Finding], where: str, next_step: str) -> ContractBroken:
    """The error that lists every finding that is one."""
    broken = [str(finding) for finding in findings if finding.severity == "error"]
    return ContractBroken(f"{len(broken)} errors in {where}:\n" + "\n".join(broken), next_step=next_step)


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

    def __str__(self) -> str:
        files = "" if self.file == "*" else f" of {self.file}"
        return f"{self.rule}{files} (until {self.expires.isoformat()}: {self.reason})"

    def covers(self, finding: Finding, today: date) -> bool:
        """Whether it lets this finding pass on that day."""
        return self.rule == finding.rule and today <= self.expires and fnmatchcase(finding.file, self.file)


class Override(msgspec.Struct, frozen=True):
    """What a rocwright.toml takes away from the wheel contract, to the end of the day `expires`.

    `field` is `off`, `severity`, or the value that was changed, `rule` the rule that it is about where that
    is one; it holds for packages that fit one of the patterns `names`, without any for all. `file` is the
    name of the file, without its folder, and `sha256` the digest of its bytes.
    """

    field: str
    before: str
    after: str
    reason: str
    expires: date
    file: str
    sha256: str
    rule: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.what} (until {self.expires.isoformat()}: {self.reason})"

    @property
    def what(self) -> str:
        """What is changed, and for which packages: `elf-rpath off for legacy-tool`."""
        change = "off" if self.field == "off" else f"{self.before} -> {self.after}"
        words = [self.rule, self.field if self.field not in ("off", "severity", "adopted") else "", change]
        words += [f"for {', '.join(self.names)}"] if self.names else []
        return " ".join(filter(None, words))

    def in_force(self, today: date) -> bool:
        """Whether it holds on that day."""
        return today <= self.expires


class Weighed(msgspec.Struct, frozen=True):
    """Findings weighed against waivers on one day.

    `refused` are the errors that nothing lets pass, `waived` the other errors, each with the waiver that
    covers it.
    """

    refused: tuple[Finding, ...]
    waived: tuple[tuple[Finding, Waiver], ...]

    @property
    def used(self) -> tuple[Waiver, ...]:
        """The waivers that cover something, each once, in the order of the findings."""
        return tuple(dict.fromkeys(waiver for _, waiver in self.waived))


def weigh(
    findings: Iterable[Finding], waivers: Sequence[Waiver], today: date, *, unwaivable: Collection[str] = ()
) -> Weighed:
    """Which errors a waiver in force on that day covers; errors of the rules `unwaivable` no waiver does."""
    refused: list[Finding] = []
    waived: list[tuple[Finding, Waiver]] = []
    for finding in findings:
        if finding.severity != "error":
            continue
        covering = next((waiver for waiver in waivers if waiver.covers(finding, today)), None)
        if covering is None or finding.rule in unwaivable:
            refused.append(finding)
        else:
            waived.append((finding, covering))
    return Weighed(tuple(refused), tuple(waived))
