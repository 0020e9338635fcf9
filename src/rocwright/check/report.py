"""What a check found, as a value: readable by people and, as JSON, by the next step.

Sizes of files and of the device code in them are part of it, so that the next check can say how they changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal

import msgspec
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
)

from rocwright.check.facts import Facts
from rocwright.errors import InvalidData, InvalidInput, see_who_may_read
from rocwright.model.findings import Finding, HasFindings, Override, Waiver, Weighed, refusal, weigh
from rocwright.model.sets import SetManifest
from rocwright.model.variants import InvalidVariant
from rocwright.wheel.tags import parse_wheel_name

_MOST_DOCUMENT = 256 << 20
REPORT_SCHEMA = "rocwright.report/2"


class FileSizes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of one file, and by target those of the device code in it, unpacked (archives as they are)."""

    size: int
    targets: dict[str, int] | None = None


class SizeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes by what stays from one build to the next: project and tags, without the version.

    `targets` of a file are None where only its name and size are known (a set's manifest).
    """

    files: dict[str, FileSizes] = {}

    @property
    def by_target(self) -> Mapping[str, int]:
        """Bytes of device code over all files, by target."""
        total: dict[str, int] = {}
        for file in self.files.values():
            for target, size in (file.targets or {}).items():
                total[target] = total.get(target, 0) + size
        return total


class SizeChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a file, or with `target` the code of one target in it, changed; None where it is not there.

    An empty `file` stands for all files together.
    """

    file: str
    target: str | None
    before: int | None
    after: int | None

    @property
    def growth(self) -> float | None:
        """How much larger, as a part of what was there before; None when it is new or gone."""
        if not self.before or self.after is None:
            return None
        return self.after / self.before - 1


def size_key(file: str) -> str:
    """What a file is compared under: `torch cp311-cp311-linux_x86_64`, `rocm sdist`; else its name."""
    try:
        if file.endswith(".whl"):
            project, _, _, tags, label = parse_wheel_name(file)
            return " ".join(filter(None, (project, ".".join(sorted(map(str, tags))), label)))
        return f"{parse_sdist_filename(file)[0]} sdist"
    except (InvalidWheelFilename, InvalidSdistFilename):
        return file


def sizes_of(files: Iterable[Facts]) -> SizeTable:
    """The table of gathered files."""
    return SizeTable({size_key(one.name): FileSizes(one.size, code_sizes(one)) for one in files})


def code_sizes(facts: Facts) -> dict[str, int]:
    """Bytes of device code in a file by target: in libraries, in archives, and in files of their own."""
    unpacked = {member.name: member.size for member in facts.members}
    found: dict[str, int] = {}

    def add(target: str, size: int) -> None:
        found[target] = found.get(target, 0) + size

    for elf in facts.elf:
        for target, size in elf.code_sizes.items():
            add(target, size)
    for archive in facts.archives:
        # An archive is for one target; the rules on device code report another.
        for target in archive.targets if len(archive.targets) == 1 else ():
            add(target, unpacked.get(archive.member, 0))
    for code in facts.code:
        if code.said is not None:
            add(code.said, unpacked.get(code.member, 0))
    return dict(sorted(found.items()))


def changes(before: SizeTable, after: SizeTable) -> tuple[SizeChange, ...]:
    """Every file that is larger, smaller, new or gone, the code in it by target, then all files by target."""
    found = []
    for key in sorted(before.files.keys() | after.files.keys()):
        old, new = before.files.get(key), after.files.get(key)
        found.append(SizeChange(key, None, old.size if old else None, new.size if new else None))
        found += _by_target(key, old.targets if old else {}, new.targets if new else {})
    known = all(file.targets is not None for table in (before, after) for file in table.files.values())
    if known:
        found += _by_target("", before.by_target, after.by_target)
    return tuple(change for change in found if change.before != change.after)


def _by_target(
    key: str, old: Mapping[str, int] | None, new: Mapping[str, int] | None
) -> Iterable[SizeChange]:
    if old is None or new is None:
        return []
    return [
        SizeChange(key, target, old.get(target), new.get(target))
        for target in sorted(old.keys() | new.keys())
    ]


class _Report(msgspec.Struct, frozen=True):
    """What is read of a report."""

    sizes: SizeTable


def parse_sizes(data: bytes, *, where: str) -> SizeTable:
    """The sizes in a set's manifest or a report as JSON; raises `InvalidData` for anything else."""
    try:
        return msgspec.json.decode(data, type=_Report).sizes
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        manifest = msgspec.json.decode(data, type=SetManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidVariant) as error:
        raise InvalidData(
            f"{where} contains no sizes: it is neither a report nor the manifest of a set",
            where=where,
            next_step="give a report (rocwright check --json), a set's manifest, or a directory of wheels",
        ) from error
    return SizeTable({size_key(entry.name): FileSizes(entry.size) for entry in manifest.files})


def read_sizes(path: Path) -> SizeTable:
    """`parse_sizes` of a file; raises `InvalidInput` when it cannot be read."""
    try:
        size = path.stat().st_size
        if size > _MOST_DOCUMENT:
            raise InvalidData(f"{path.name} is too large to be a report or manifest", where=path)
        return parse_sizes(path.read_bytes(), where=path.name)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path.name}: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error


class Looked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that was looked into: `size` in bytes, and the GPU targets that it holds code for."""

    name: str
    size: int
    targets: tuple[str, ...] = ()


class Proved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the set was installed: Python and platform, installer and version, projects, modules imported."""

    where: str
    installer: str
    version: str
    projects: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()


class Report(HasFindings, msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All findings over some files; holds file names, no folders, so it is the same on every machine.

    `targets` are those that were asked for, None where none were. `unwaivable` are the rules that no waiver
    lets pass. `sizes` are of all files, those of the set beside them included, `changes` what they differ in
    from the previous set. `stand_ins` are empty wheels that stood for packages from elsewhere when the set
    was installed, `proved` says where it was. `compiled` are the Pythons (`3.11`) that its modules were
    compiled with. `overrides` are what a rocwright.toml took away of the contract for these files: a rule
    that is off for one of them is not among the `rules`. What is `lapsed` was taken away to a past day.
    The `policy` is `adopted` where some of the files were looked at as wheels that others built.
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
    proved: tuple[Proved, ...] = ()
    compiled: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    lapsed: tuple[Override, ...] = ()
    policy: Literal["", "adopted"] = ""
    schema: str = REPORT_SCHEMA

    @property
    def passed(self) -> bool:
        """Whether something was checked and no error was found; waivers do not count here."""
        return bool(self.files) and self.errors == 0

    @property
    def switched_off(self) -> tuple[str, ...]:
        """The rules that a rocwright.toml switched off for one of the files, or for more."""
        return tuple(sorted({one.rule for one in self.overrides if one.field == "off"}))

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
