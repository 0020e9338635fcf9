"""Plan one wheel with another version: new names, new texts, everything else as it lies."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
)
from packaging.version import InvalidVersion, Version

from rocwright.errors import IntegrityError, InvalidWheel
from rocwright.wheel.metadata import encode_digest, header_fields, parse_metadata
from rocwright.wheel.reversion.directory import DirectoryEntry, WheelArchive, read_archive
from rocwright.wheel.reversion.members import MemberEdits, editor, require_new_name, reversion_table
from rocwright.wheel.reversion.rewrite import Edits, rewrite
from rocwright.wheel.reversion.values import Changes, FileChange, PlannedDistribution, WheelEdits
from rocwright.wheel.reversion.versions import parse_requirement
from rocwright.wheel.tags import parse_wheel_name

_DIGEST = re.compile(r"sha256=[A-Za-z0-9_-]{43}")
_DIGEST_BYTES = b"\nABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
_DIGEST_LENGTH = len("sha256=") + 43
# What the table's patterns end with.
_TEXTS = (".py", ".json")
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


class OpenWheel(msgspec.Struct, frozen=True):
    """A wheel's structure and what the set needs to know of it; `dist_info` without the slash."""

    archive: WheelArchive
    dist_info: str
    data: str | None
    about: PlannedDistribution


def open_whole(path: Path) -> OpenWheel:
    """Read a wheel; raises `InvalidWheel` for one that cannot be taken over member by member."""
    try:
        project, version, _, tags, _ = parse_wheel_name(path.name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise InvalidWheel(
            f"{path.name} is not a valid wheel name: {error}",
            where=path,
            next_step="restore its name: NAME-VERSION-PYTHON-ABI-PLATFORM.whl",
        ) from error
    archive = read_archive(path)
    by_name = {entry.name: entry for entry in archive.entries}
    marks = (".dist-info/", ".data/")
    tops = {
        entry.name.partition("/")[0]
        for entry in archive.entries
        if marks[0] in entry.name or marks[1] in entry.name
    }
    infos = sorted(top for top in tops if top.endswith(".dist-info"))
    dist_info = infos[0] if len(infos) == 1 and _belongs(infos[0], project, version) else None
    if dist_info is None:
        raise InvalidWheel(
            f"{path.name} needs exactly one .dist-info directory, of its own name and version; it has: "
            f"{', '.join(infos) or 'none'}",
            where=path,
        )
    for part in ("METADATA", "WHEEL", "RECORD"):
        if f"{dist_info}/{part}" not in by_name:
            raise InvalidWheel(f"{path.name} has no {dist_info}/{part}", where=path)
    text = archive.read(by_name[f"{dist_info}/METADATA"])
    about = described(path, text, project, version, tuple(sorted(map(str, tags))))
    return OpenWheel(archive, dist_info, _data_of(path, tops, project, version), about)


def described(
    path: Path, metadata: bytes, project: str, version: Version, tags: tuple[str, ...]
) -> PlannedDistribution:
    """What METADATA or PKG-INFO says; raises `InvalidWheel` when it is of something else than the name."""
    try:
        parsed = parse_metadata(metadata)
    except InvalidWheel as error:
        raise InvalidWheel(f"{path.name}: {error.what}", where=path) from error
    if (canonicalize_name(parsed.name), Version(parsed.version)) != (project, version):
        raise InvalidWheel(f"{path.name} calls itself {parsed.name} {parsed.version} inside", where=path)
    versions = [text for key, text in header_fields(metadata) if key == "version"]
    if len(versions) != 1:
        raise InvalidWheel(f"{path.name}: its metadata names {len(versions)} versions", where=path)
    requires = tuple(" ".join(line.split()) for line in parsed.requires_dist)
    return PlannedDistribution(
        path=path,
        project=project,
        version=version,
        own=reversion_table().is_own(project),
        spelled=versions[0].partition(":")[2].strip(),
        requires=requires,
        parsed=tuple(parse_requirement(text, path.name) for text in requires),
        extras=parsed.provides_extra,
        tags=tags,
    )


def _belongs(folder: str, project: str, version: Version) -> bool:
    stem, _, its_version = folder.rpartition(".")[0].rpartition("-")
    try:
        return canonicalize_name(stem) == project and Version(its_version.replace("_", "-")) == version
    except InvalidVersion:
        return False


def _data_of(path: Path, tops: set[str], project: str, version: Version) -> str | None:
    """The folder for files that go elsewhere; None without one."""
    found = sorted(top for top in tops if top.endswith(".data") and "-" in top)
    mine = [top for top in found if _belongs(top, project, version)]
    if len(mine) > 1 or len(mine) < len(found):
        raise InvalidWheel(f"{path.name} contains {', '.join(found)}, of another version", where=path)
    return mine[0] if mine else None


def plan_wheel(wheel: OpenWheel, new: Version, changes: Changes) -> FileChange:
    """What becomes of a wheel. Raises `InvalidWheel` for a RECORD that does not tell of every member,
    `IntegrityError` where a member that is edited is not what RECORD says.
    """
    about, archive, table = wheel.about, wheel.archive, reversion_table()
    edits = MemberEdits(about.path, str(new), changes)
    record_name, metadata_name = f"{wheel.dist_info}/RECORD", f"{wheel.dist_info}/METADATA"
    changed: dict[str, bytes] = {}
    digests: dict[str, str] = {}
    for entry in archive.entries:
        # Most members have no text that could say a version.
        if not entry.name.endswith(_TEXTS) and entry.name != metadata_name:
            continue
        edit = edits.headers if entry.name == metadata_name else editor(edits, table, entry.name)
        if edit is not None:
            before = archive.read(entry)
            after = edits.edit(entry.name, before, edit)
            if after != before:
                changed[entry.name] = after
                digests[entry.name] = _digest(before)
    if new == about.version:
        require_new_name(about, bool(changed))
        name = about.path.name
        return FileChange(about.path, name, about.project, str(new), str(new), left=tuple(edits.left))
    file, renamed = _names(wheel, new)
    dropped = [f"{wheel.dist_info}/{name}" for name in _SIGNATURES]
    dropped = [entry.name for entry in archive.entries if entry.name in dropped]
    record = next(entry for entry in archive.entries if entry.name == record_name)
    lines = _lines(archive, record, dropped)
    _require_digests(about.path, lines, digests)
    edited = tuple(changed)
    changed[record_name] = _new_record(lines, renamed, changed, dropped)
    work = WheelEdits(archive, rewrite(archive, Edits(renamed, changed, dropped)))
    return FileChange(
        source=about.path,
        name=file,
        project=about.project,
        old=str(about.version),
        new=str(new),
        edited=edited,
        requirements=tuple(edits.requirements.items()),
        dropped=tuple(dropped),
        left=tuple(edits.left),
        work=work,
    )


def renamed_file(file: str, new: Version) -> str:
    """The name of a wheel's file with another version."""
    stem, _, rest = file.split("-", 2)
    return f"{stem}-{new}-{rest}"


def renamed_folder(folder: str, new: Version) -> str:
    """The name of a wheel's `.dist-info` or `.data` with another version."""
    base, _, kind = folder.rpartition(".")
    return f"{base.rpartition('-')[0]}-{new}.{kind}"


def _names(wheel: OpenWheel, new: Version) -> tuple[str, dict[str, str]]:
    """New name of a wheel's file, and of the members in folders that are called by the version."""
    renamed: dict[str, str] = {}
    for folder in (wheel.dist_info, wheel.data):
        if folder is not None:
            start, onto = f"{folder}/", f"{renamed_folder(folder, new)}/"
            inside = [one.name for one in wheel.archive.entries if one.name.startswith(start)]
            renamed |= {name: onto + name[len(start) :] for name in inside}
    return renamed_file(wheel.about.path.name, new), renamed


def _lines(archive: WheelArchive, record: DirectoryEntry, dropped: Sequence[str]) -> Sequence[str]:
    """The lines of RECORD, which must tell of every member, and of nothing else."""
    path = archive.path
    try:
        text = archive.read(record).decode()
        lines = io.StringIO(text, newline="\n").readlines()
        if _plainly_whole(archive, record, text):
            return lines
        _require_rows(archive, record, dropped, list(csv.reader(lines, strict=True)), len(lines))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidWheel(f"RECORD of {path.name} cannot be read: {error}", where=path) from error
    return lines


def _plainly_whole(archive: WheelArchive, record: DirectoryEntry, text: str) -> bool:
    """Whether RECORD tells of every member in the plainest form, without quotes; told by column."""
    cells = text.replace("\n", ",").split(",")
    names, digests, sizes = cells[0:-1:3], cells[1::3], cells[2::3]
    told = dict(zip(names, sizes, strict=False))
    if '"' in text or not text.endswith("\n") or len(cells) % 3 != 1 or len(told) != len(names):
        return False
    if text.count("\n") != len(names) or record.name not in told:
        return False
    # Only RECORD's own line has neither digest nor size.
    own = digests.pop(names.index(record.name))
    members = {entry.name: str(entry.size) for entry in archive.entries}
    members[record.name] = ""
    joined = "\n" + "\n".join(digests)
    rest = joined.replace("\nsha256=", "\n")
    return (
        own == ""
        and told == members
        and {*map(len, digests)} <= {_DIGEST_LENGTH}
        and len(joined) - len(rest) == len("sha256=") * len(digests)
        and rest.isascii()
        and not rest.encode().translate(None, _DIGEST_BYTES)
    )


def _require_rows(
    archive: WheelArchive,
    record: DirectoryEntry,
    dropped: Sequence[str],
    rows: Sequence[Sequence[str]],
    lines: int,
) -> None:
    wrong: list[str] = []
    found: set[str] = set()
    if len(rows) != lines or any(row and len(row) != 3 for row in rows):
        wrong.append("a line is not path,digest,size")
    sizes = {entry.name: entry.size for entry in archive.entries}
    for name, digest, size in (row for row in rows if len(row) == 3):
        if name in found:
            wrong.append(f"{name} is listed twice")
        elif name not in sizes:
            wrong.append(f"{name} is listed, but missing")
        elif name != record.name and name not in dropped:
            if _DIGEST.fullmatch(digest) is None:
                wrong.append(f"the digest of {name} is not a sha256")
            elif size != str(sizes[name]):
                wrong.append(f"{name} has {sizes[name]} bytes, not {size}")
        found.add(name)
    unlisted = [name for name in sizes if name not in found and name != record.name and name not in dropped]
    wrong += [f"{name} is not listed" for name in unlisted if not name.endswith("/")]
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise InvalidWheel(
            f"RECORD of {archive.path.name} does not match its content: {wrong[0]}{more}",
            where=archive.path,
            next_step="build the wheel again; rocwright check names everything that is wrong with it",
        )


def _require_digests(path: Path, lines: Sequence[str], digests: Mapping[str, str]) -> None:
    """Members that get new content, and with it a new digest, must have been what RECORD says."""
    wrong = next(
        (
            name
            for line in _lines_of(lines, digests)
            if (name := _named(line)) in digests and line.rsplit(",", 2)[1].strip('"') != digests[name]
        ),
        None,
    )
    if wrong is not None:
        raise IntegrityError(
            f"{wrong} in {path.name} is not what its RECORD says",
            where=path,
            next_step="download or build the wheel again",
        )


def _digest(data: bytes) -> str:
    return encode_digest(hashlib.sha256(data).hexdigest())


def _new_record(
    lines: Sequence[str], renamed: Mapping[str, str], changed: Mapping[str, bytes], dropped: Sequence[str]
) -> bytes:
    """RECORD with new names, and new digests where content changed; all other lines as they were."""
    special = {*renamed, *changed, *dropped}
    new = {
        line: _new_line(line, renamed, changed, dropped)
        for line in _lines_of(lines, special)
        if _named(line) in special
    }
    return "".join([new.get(line, line) for line in lines]).encode()


def _lines_of(lines: Sequence[str], names: Collection[str]) -> list[str]:
    """The lines that may tell of one of these members: few of thousands, and any whose path is quoted."""
    begins = (*names, '"')
    return [line for line in lines if line.startswith(begins)]


def _named(line: str) -> str:
    """The path that a line tells of; any field may be quoted."""
    return next(csv.reader([line]))[0] if '"' in line else line.rsplit(",", 2)[0]


def _new_line(
    line: str, renamed: Mapping[str, str], changed: Mapping[str, bytes], dropped: Sequence[str]
) -> str:
    name = _named(line)
    data = changed.get(name)
    if name in dropped:
        return ""
    if data is None:
        # What follows the path has no further commas.
        return f"{_quoted(renamed[name])},{','.join(line.rsplit(',', 2)[1:])}"
    return f"{_quoted(renamed.get(name, name))},{_digest(data)},{len(data)}{_end_of(line)}"


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"' if any(mark in name for mark in ',"') else name


def _end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
