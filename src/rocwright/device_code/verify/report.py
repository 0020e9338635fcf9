"""The rules for split device code, and what was found against them."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import msgspec

from rocwright.model.findings import Finding, Severity, count, refusal

KPACK_REPORT_SCHEMA = "rocwright.kpack-report/1"
# Of one rule in one file so many are told in full; a damaged archive breaks one rule a thousand times.
_MOST = 8

_AGAIN = "split again from the original"
_DOWNLOAD = "download the file again, or split again from the original"
# id → severity, what to do.
RULES: dict[str, tuple[Severity | Literal["note"], str]] = {
    "kpack-readable": ("error", _DOWNLOAD),
    "kpack-nothing": ("error", "give a split library, an archive, a directory or wheels"),
    # One library.
    "kpack-elf": ("error", "do not ship this file: a loader or tool will fail on it; split again"),
    "kpack-wrapper": ("error", _AGAIN),
    "kpack-marker": ("error", _AGAIN),
    "kpack-reference": ("error", "keep this library whole: something else points into its device code"),
    "kpack-leftover": ("error", _AGAIN),
    "kpack-kept": ("note", ""),
    "kpack-same-name": ("error", "give every library its own name in the archives; split the tree as one"),
    # Archives.
    "kpack-archive": ("error", _DOWNLOAD),
    "kpack-unused": ("error", _AGAIN),
    "kpack-name": ("error", "do not rename archives: the runtime finds them by target"),
    "kpack-code": ("error", _DOWNLOAD),
    "kpack-machine": ("error", "do not ship this archive: a GPU would load code for another one"),
    "kpack-unknown-target": ("note", ""),
    # Libraries and archives together.
    "kpack-unreachable": ("error", "install the archive where the library's search path leads"),
    "kpack-missing": ("error", "add the archive, or split again from the original"),
    "kpack-partial": ("note", ""),
    "kpack-orphan": ("error", "split library and archive from the same original"),
    "kpack-twice": ("error", "keep one archive with this code"),
    # Trees.
    "kpack-device-file": ("error", "move the file into its target's part"),
    "kpack-foreign": ("error", "move the file into the part of its own target"),
    "kpack-unplaced": ("warning", "add the target, or the file's place, to data/device_files.toml"),
    "kpack-overlap": ("error", "give each path to one part"),
    "kpack-layout": ("warning", "leave only generic and target directories beside each other"),
    # Wheels.
    "kpack-wheel": ("error", "build the wheel again"),
    "kpack-record": ("error", "write RECORD after the last change to a member"),
    "kpack-deflated": ("error", "store archives uncompressed: they hold compressed code already"),
    "kpack-pin": ("error", "pin the host wheel's exact version in every device wheel"),
    "kpack-extra": ("error", "let the host's extras name device wheels of the same version"),
    "kpack-extra-absent": ("note", ""),
    # Against the original.
    "kpack-original": ("error", "give the fat library, tree or wheel that was split"),
    "kpack-lost": ("error", _AGAIN),
    "kpack-invented": ("error", _AGAIN),
    "kpack-differs": ("error", _AGAIN),
    "kpack-host": ("error", _AGAIN),
    "kpack-mode": ("error", "copy the file with its permissions"),
}


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something worth knowing that breaks no rule."""

    rule: str
    file: str
    text: str

    def __str__(self) -> str:
        return f"note [{self.rule}] {self.file}: {self.text}"


class KpackReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What verifying found.

    `libraries` are the split ones, `archives` the archives, by the name they have in findings; `parts` the
    directories or wheels that were verified as parts of a split tree. `objects`
    counts code objects that were unpacked whole, `unpacked` their bytes; `identical` counts entries (one for
    each wrapper and target) that were compared with the original and equal it.
    """

    libraries: tuple[str, ...]
    archives: tuple[str, ...]
    parts: tuple[str, ...]
    targets: tuple[str, ...]
    objects: int
    unpacked: int
    identical: int
    findings: tuple[Finding, ...]
    notes: tuple[Note, ...]
    compared: bool = False
    rules: tuple[str, ...] = tuple(RULES)
    schema: str = KPACK_REPORT_SCHEMA

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return count(self.findings, "error")

    @property
    def warnings(self) -> int:
        """How many findings are warnings."""
        return count(self.findings, "warning")

    @property
    def passed(self) -> bool:
        """Whether something was verified and no error was found."""
        return bool(self.libraries or self.archives or self.parts) and self.errors == 0

    def predicate(self) -> dict[str, Any]:
        """The content of a statement, as plain values: `passed`, then all fields."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        return {"passed": self.passed, "errors": self.errors, "warnings": self.warnings, **content}

    def raise_for_errors(self) -> None:
        """Raise `ContractBroken` that lists every error; do nothing when there is none."""
        if self.passed:
            return
        next_step = "split again from the original; what was verified must not be shipped"
        raise refusal(self.findings, "split device code", next_step)


def _printable(text: str) -> str:
    """Text for any terminal and JSON: bytes of a path that are no UTF-8 appear as `\\xNN`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Log:
    """Collects findings and notes while everything is looked at."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.notes: list[Note] = []
        self.seen: Counter[tuple[str, str]] = Counter()

    def add(self, rule: str, file: str, cause: str) -> None:
        """Record that `file` breaks `rule`; or note it, as the rule says."""
        severity, next_step = RULES[rule]
        file, cause = _printable(file), _printable(cause)
        if severity == "note":
            self.notes.append(Note(rule, file, cause))
            return
        self.seen[rule, file] += 1
        if self.seen[rule, file] <= _MOST:
            self.findings.append(Finding(rule, severity, file, cause, next_step))

    def all(self) -> tuple[tuple[Finding, ...], tuple[Note, ...]]:
        """Everything recorded, with one line for what was left out of a long list."""
        more = tuple(
            Finding(
                rule, self._severity(rule), file, f"and {count - _MOST} more of this kind", RULES[rule][1]
            )
            for (rule, file), count in self.seen.items()
            if count > _MOST
        )
        return (*self.findings, *more), tuple(self.notes)

    def _severity(self, rule: str) -> Severity:
        severity = RULES[rule][0]
        return "error" if severity == "note" else severity
