"""The rules for split device code, and what was found against them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from rocwright.model.findings import Clause, Finding, HasFindings, refusal

KPACK_REPORT_SCHEMA = "rocwright.kpack-report/1"
# Of one rule in one file so many are told in full; a damaged archive breaks one rule a thousand times.
_MOST = 8

_AGAIN = "split again from the original"
_DOWNLOAD = "download the file again, or split again from the original"
# What breaks none of them, but is worth knowing.
NOTES = frozenset(
    ("kpack-kept", "kpack-unknown-target", "kpack-partial", "kpack-launch", "kpack-extra-absent")
    + ("kpack-target-absent",)
)
_CLAUSES = (
    Clause("kpack-readable", "Every file given can be read.", next_step=_DOWNLOAD),
    Clause(
        "kpack-nothing",
        "There is split device code to verify.",
        next_step="give a split library, an archive, a directory or wheels",
    ),
    # One library.
    Clause(
        "kpack-elf",
        "A split library is a sound ELF file.",
        next_step="do not ship this file: a loader or tool will fail on it; split again",
    ),
    Clause(
        "kpack-wrapper",
        "Every wrapper of a split library is marked as split, and numbered.",
        next_step=_AGAIN,
    ),
    Clause(
        "kpack-marker",
        "The marker that names the archives exists, is loaded into memory, and can be read.",
        next_step=_AGAIN,
    ),
    Clause(
        "kpack-reference",
        "Nothing else in the library points to where its device code was.",
        next_step="keep this library whole: something else points into its device code",
    ),
    Clause("kpack-leftover", "No device code is left in a split library.", next_step=_AGAIN),
    Clause("kpack-kept", "A library was not split and keeps its device code, for the reason given."),
    Clause(
        "kpack-same-name",
        "Each split library has its own name in the archives.",
        next_step="give every library its own name in the archives; split the tree as one",
    ),
    # Archives.
    Clause("kpack-archive", "An archive is sound, and for one target.", next_step=_DOWNLOAD),
    Clause("kpack-unused", "Every stored object is in the archive's table.", next_step=_AGAIN),
    Clause(
        "kpack-name",
        "An archive has the name that the runtime looks for.",
        next_step="do not rename archives: the runtime finds them by target",
    ),
    Clause("kpack-code", "Every stored object can be unpacked and is a code object.", next_step=_DOWNLOAD),
    Clause(
        "kpack-machine",
        "Code is for the GPU that it is filed under.",
        next_step="do not ship this archive: a GPU would load code for another one",
    ),
    Clause("kpack-unknown-target", "An archive is for an unknown target."),
    # Libraries and archives together.
    Clause(
        "kpack-unreachable",
        "The path that a library gives leads to its archives.",
        next_step="install the archive where the library's search path leads",
    ),
    Clause(
        "kpack-missing",
        "Archives have code for every wrapper of a library.",
        next_step="add the archive, or split again from the original",
    ),
    Clause(
        "kpack-stranger",
        "Code in an archive was taken out of this very build of its library.",
        next_step="put the archives of one split beside its libraries: AMD's runtime would run this code",
    ),
    Clause(
        "kpack-target",
        "There is an archive for every target that the host was split into.",
        next_step="add the part of this target, or say with --targets which are meant to be here",
    ),
    Clause("kpack-target-absent", "The part of a target that the host was split into is not installed here."),
    Clause("kpack-launch", "A library launches kernels that no archive here defines, or leaves them out."),
    Clause("kpack-partial", "A wrapper has no code for one of the targets."),
    Clause(
        "kpack-orphan",
        "Code in an archive belongs to a library that is there.",
        next_step="split library and archive from the same original",
    ),
    Clause(
        "kpack-twice",
        "Code of one wrapper and target is in one archive.",
        next_step="keep one archive with this code",
    ),
    # Trees.
    Clause(
        "kpack-device-file",
        "No file that serves some GPUs is in the part for all.",
        next_step="move the file into its target's part",
    ),
    Clause(
        "kpack-foreign",
        "A file is in the part of the target that it serves.",
        next_step="move the file into the part of its own target",
    ),
    Clause(
        "kpack-unplaced",
        "It is known which target a device file serves.",
        severity="warning",
        next_step="add the target, or the file's place, to data/device_files.toml",
    ),
    Clause("kpack-overlap", "An installed path belongs to one part.", next_step="give each path to one part"),
    Clause(
        "kpack-layout",
        "Beside the generic part there are only parts of targets.",
        severity="warning",
        next_step="leave only generic and target directories beside each other",
    ),
    # Wheels.
    Clause("kpack-wheel", "A wheel is sound.", next_step="build the wheel again"),
    Clause(
        "kpack-record",
        "RECORD is right about every member.",
        next_step="write RECORD after the last change to a member",
    ),
    Clause(
        "kpack-deflated",
        "Archives lie uncompressed in a wheel.",
        next_step="store archives uncompressed: they hold compressed code already",
    ),
    Clause(
        "kpack-pin",
        "A device wheel pins the version of its host.",
        next_step="pin the host wheel's exact version in every device wheel",
    ),
    Clause(
        "kpack-extra",
        "The host's extras bring its device wheels.",
        next_step="let the host's extras name device wheels of the same version",
    ),
    Clause("kpack-extra-absent", "An extra names a device wheel that was not given."),
    # Against the original.
    Clause(
        "kpack-original",
        "What was split has an original to compare with.",
        next_step="give the fat library, tree or wheel that was split",
    ),
    Clause("kpack-lost", "All code of the original is there.", next_step=_AGAIN),
    Clause("kpack-invented", "There is no code that the original lacks.", next_step=_AGAIN),
    Clause("kpack-differs", "Every byte of it is as in the original.", next_step=_AGAIN),
    Clause(
        "kpack-host",
        "Apart from its device code a split library is identical to the original.",
        next_step=_AGAIN,
    ),
    Clause(
        "kpack-mode", "A file has the original's permissions.", next_step="copy the file with its permissions"
    ),
)
RULES = {clause.id: clause for clause in _CLAUSES}


class Note(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something worth knowing that breaks no rule."""

    rule: str
    file: str
    text: str

    def __str__(self) -> str:
        return f"note [{self.rule}] {self.file}: {self.text}"


class KpackReport(HasFindings, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
        next_step = "split again from the original; do not ship what was verified"
        raise refusal(self.findings, "split device code", next_step)


def _printable(text: str) -> str:
    """Text for any terminal and JSON: bytes of a path that are no UTF-8 appear as `\\xNN`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class FindingLog:
    """Collects findings and notes while everything is looked at."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.notes: list[Note] = []
        self.seen: Counter[tuple[str, str]] = Counter()

    def add(self, rule: str, file: str, cause: str) -> None:
        """Record that `file` breaks `rule`; or note it, as the rule says."""
        file, cause = _printable(file), _printable(cause)
        if rule in NOTES:
            self.notes.append(Note(rule, file, cause))
            return
        self.seen[rule, file] += 1
        if self.seen[rule, file] <= _MOST:
            self.findings.append(RULES[rule].broken(file, cause))

    def all(self) -> tuple[tuple[Finding, ...], tuple[Note, ...]]:
        """Everything recorded, with one line for what was left out of a long list."""
        more = tuple(
            RULES[rule].broken(file, f"and {seen - _MOST} more of this kind")
            for (rule, file), seen in self.seen.items()
            if seen > _MOST
        )
        return (*self.findings, *more), tuple(self.notes)
