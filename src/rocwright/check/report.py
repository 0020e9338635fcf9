"""What the rules found, as a value: readable by people and, as JSON, by the next step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import msgspec

from rocwright.check.sizes import SizeChange, SizeTable
from rocwright.model.findings import Finding, HasFindings, Waiver, Weighed, refusal, weigh

REPORT_SCHEMA = "rocwright.report/2"


class Looked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that was looked into: `size` in bytes, and the GPU targets that it holds code for."""

    name: str
    size: int
    targets: tuple[str, ...] = ()


class Report(HasFindings, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All findings over some files; holds file names, no folders, so it is the same on every machine.

    `targets` are those that were asked for, None where none were. `unwaivable` are the rules that no waiver
    lets pass. `sizes` are of all files, those of the set beside them included, `changes` what they differ in
    from the previous set. `stand_ins` are empty wheels that stood for packages from elsewhere when the set
    was installed.
    """

    files: tuple[str, ...]
    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    targets: tuple[str, ...] | None = None
    looked: tuple[Looked, ...] = ()
    unwaivable: tuple[str, ...] = ()
    sizes: SizeTable = SizeTable()
    changes: tuple[SizeChange, ...] = ()
    stand_ins: tuple[str, ...] = ()
    schema: str = REPORT_SCHEMA

    @property
    def passed(self) -> bool:
        """Whether something was checked and no error was found; waivers do not count here."""
        return bool(self.files) and self.errors == 0

    def weighed(self, waivers: Sequence[Waiver], today: date) -> Weighed:
        """Its errors: those that a waiver in force covers, and the others."""
        return weigh(self.findings, waivers, today, unwaivable=self.unwaivable)

    def passed_on(self, today: date, waivers: Sequence[Waiver]) -> bool:
        """Whether something was checked and a waiver in force covers each error."""
        return bool(self.files) and not self.weighed(waivers, today).refused

    def predicate(self) -> dict[str, Any]:
        """The content of a findings statement: `passed`, counts, files, rules, findings."""
        counts = {"files": len(self.files), "errors": self.errors, "warnings": self.warnings}
        content: dict[str, Any] = msgspec.to_builtins(self)
        return {"passed": self.passed, "counts": counts, **content}

    def raise_for_errors(self) -> None:
        """Raise `ContractBroken` that lists every error; do nothing when there is none."""
        if self.passed:
            return
        next_step = "resolve every finding and build again; nothing was published"
        raise refusal(self.findings, f"{len(self.files)} files", next_step)
