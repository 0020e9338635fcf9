"""One wheel: its directory before its members are read, and the facts once all of them were."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename
from packaging.version import InvalidVersion

from rocwright.check.facts import Facts, Fault, Member
from rocwright.check.gather.dist_info import (
    all_values,
    dist_info_of,
    is_text,
    licences,
    line_values,
    origins,
    read_headers,
    sboms,
    wanted,
)
from rocwright.check.gather.layout import layout_faults
from rocwright.check.gather.look import Look
from rocwright.check.gather.members import Batch, Reader, Seen
from rocwright.check.gather.open_file import Identity, identity_of, opened, reason
from rocwright.check.gather.variants import wheel_variant
from rocwright.errors import InvalidWheel
from rocwright.system.files import pread
from rocwright.wheel.metadata import RecordRow, parse_record
from rocwright.wheel.read import DAMAGED, WheelMember, members_of, parse_wheel
from rocwright.wheel.tags import parse_wheel_name
from rocwright.wheel.zipformat import (
    CENTRAL_MARK,
    END,
    END64,
    END64_MARK,
    END_MARK,
    FULL32,
    LOCAL,
    LOCATOR64,
    LOCATOR64_MARK,
    MOST_COMMENT,
)

CHANGED = "it changed while it was read"


class Opened(msgspec.Struct, frozen=True):
    """A wheel whose directory was read; what is wrong already stands in `facts`, `members` are to be read."""

    facts: Facts
    identity: Identity | None = None
    members: tuple[WheelMember, ...] = ()


class Gathered(msgspec.Struct):
    """What came of a wheel's members so far; `failed` says why the rest cannot be had."""

    seen: dict[WheelMember, Seen] = msgspec.field(default_factory=dict)
    failed: str | None = None

    def add(self, outcome: Sequence[Seen] | str) -> None:
        """Take in what became of one batch."""
        if isinstance(outcome, str):
            self.failed = self.failed or outcome
        else:
            self.seen.update((one.member, one) for one in outcome)


def begin(path: Path) -> Opened:
    """Read a wheel's directory; never raises for a bad file."""
    try:
        project, version, build, tags, label = parse_wheel_name(path.name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        return Opened(Facts(path, "wheel", unreadable=f"its name is not a wheel name: {error}"))
    facts = Facts(
        path,
        "wheel",
        project=str(project),
        version=str(version),
        tags=frozenset(map(str, tags)),
        build=build,
        label=label,
    )
    try:
        with opened(path) as stream:
            identity = identity_of(stream.fileno())
            facts = msgspec.structs.replace(facts, size=identity.size)
            if (why := too_large(stream.fileno())) is not None:
                return Opened(msgspec.structs.replace(facts, unreadable=why))
            with zipfile.ZipFile(stream) as archive:
                members = members_of(archive)
            facts = msgspec.structs.replace(facts, layout=layout_faults(stream.fileno()))
    except DAMAGED as error:
        return Opened(msgspec.structs.replace(facts, unreadable=_damage(error, facts.size)))
    except OSError as error:
        return Opened(msgspec.structs.replace(facts, unreadable=reason(error)))
    facts = msgspec.structs.replace(facts, members=tuple(map(_member, members)), bomb=bomb(members))
    return Opened(facts, identity, members if facts.bomb is None else ())


def read(
    wheel: Opened, batch: Batch, look: Look, tell: Callable[[int], None], *, several: bool = False
) -> list[Seen] | str:
    """What became of the members in a batch, or why the file cannot be read any more; on any thread.

    `tell` is told of bytes as they were read.
    """
    try:
        with opened(wheel.facts.path) as stream:
            if identity_of(stream.fileno()) != wheel.identity:
                return CHANGED
            seen = Reader(stream.fileno(), look, wanted, tell, several=several).read(batch)
            return CHANGED if identity_of(stream.fileno()) != wheel.identity else seen
    except OSError as error:
        return reason(error)


def finish(wheel: Opened, gathered: Gathered) -> Facts:
    """The facts of a wheel whose members were all read."""
    if gathered.failed is not None:
        return msgspec.structs.replace(wheel.facts, unreadable=gathered.failed)
    if not wheel.members:
        if wheel.facts.bomb:
            return wheel.facts
        return msgspec.structs.replace(wheel.facts, structure=_structure(wheel, {}))
    seen = [gathered.seen[member] for member in wheel.members]
    # Where a name is there twice, most readers find the last.
    texts = {one.member.name: one.text for one in seen if one.text is not None}
    all_names = [member.name for member in wheel.members]
    folders = _dist_infos(wheel)
    dist_info = folders[0] if folders else ""
    found = [one.found for one in seen]
    return msgspec.structs.replace(
        wheel.facts,
        structure=_structure(wheel, texts),
        dist_infos=tuple(sorted(folders)),
        wheel_tags=line_values(texts.get(f"{dist_info}/WHEEL"), "tag"),
        wheel_fields=all_values(texts.get(f"{dist_info}/WHEEL")),
        headers=read_headers(texts.get(f"{dist_info}/METADATA")),
        damaged=tuple(Fault(one.member.name, one.damage) for one in seen if one.damage is not None),
        record=_record(dist_info, texts, seen),
        texts={name: data.decode("utf-8", "replace") for name, data in texts.items() if is_text(name)},
        licences=licences(all_names),
        sboms=sboms(all_names),
        elf=tuple(one.elf for one in found if one.elf is not None),
        pe=tuple(one.pe for one in found if one.pe is not None),
        code=tuple(one.code for one in found if one.code is not None),
        origins=origins(texts),
        variant=wheel_variant(dist_info, texts),
        archives=tuple(one.archive for one in found if one.archive is not None),
        unmerged={one.member.name: one.found.unmerged for one in seen if one.found.unmerged is not None},
        shebangs={one.member.name: one.found.shebang for one in seen if one.found.shebang is not None},
        opens_globally=any(one.opens_globally for one in found),
    )


def _damage(error: Exception, size: int) -> str:
    if size == 0:
        return "it is empty"
    if isinstance(error, zipfile.BadZipFile) and "not a zip file" in str(error):
        return "it is not a zip archive, or its end is missing"
    return f"the archive is damaged: {error}"


def _member(member: WheelMember) -> Member:
    return Member(member.name, member.size, member.packed, member.method, member.flags, member.mode)


def _dist_infos(wheel: Opened) -> list[str]:
    """The `.dist-info` folders, that of the file's name first."""
    folders = {inside[0] for member in wheel.members if (inside := dist_info_of(member.name))}
    own = "-".join(wheel.facts.path.name.split("-")[:2]) + ".dist-info"
    return sorted(folders, key=lambda folder: (folder != own, folder))


def _structure(wheel: Opened, texts: Mapping[str, bytes]) -> str | None:
    """Why the strict reader refuses the wheel."""
    path = wheel.facts.path

    def text(name: str) -> bytes:
        if name not in texts:
            raise InvalidWheel(f"{path.name} has no {name} that can be read", where=path)
        return texts[name]

    try:
        parse_wheel(path, wheel.members, text)
    except InvalidWheel as error:
        return error.what
    return None


def _record(dist_info: str, texts: Mapping[str, bytes], seen: Sequence[Seen]) -> tuple[Fault, ...]:
    name = f"{dist_info}/RECORD"
    unread = any(one.member.name == name and name not in texts for one in seen)
    # Without a folder there is nothing to say, and what cannot be inflated is reported as such.
    if not dist_info or unread:
        return ()
    contents = [Content(one.member.name, one.member.size, one.sha256) for one in seen]
    return record_faults(dist_info, texts.get(name), contents)


# -- compare RECORD with what is really in a wheel


_SIGNATURES = ("RECORD.jws", "RECORD.p7s")


class Content(msgspec.Struct, frozen=True):
    """What a member was found to be: bytes, and hex sha256, None when it could not be read."""

    name: str
    size: int
    sha256: str | None


def record_faults(dist_info: str, record: bytes | None, members: Iterable[Content]) -> tuple[Fault, ...]:
    """Everything that the RECORD in `dist_info` is wrong about; causes do not name the member."""
    name = f"{dist_info}/RECORD"
    if record is None:
        return (Fault(name, "it is missing"),)
    try:
        rows = parse_record(record)
    except InvalidWheel as error:
        return (Fault(name, error.what),)
    return tuple(_faults(dist_info, rows, list(members)))


def _faults(dist_info: str, rows: tuple[RecordRow, ...], members: list[Content]) -> Iterator[Fault]:
    record = f"{dist_info}/RECORD"
    signatures = {f"{dist_info}/{name}" for name in _SIGNATURES}
    by_path = {row.path: row for row in rows}
    times = Counter(row.path for row in rows)
    yield from (Fault(path, "RECORD lists it more than once") for path, count in times.items() if count > 1)
    there = Counter(member.name for member in members)
    yield from (Fault(path, "RECORD lists it, but it is not there") for path in by_path if path not in there)
    for member in members:
        row = by_path.get(member.name)
        if row is None:
            if member.name not in signatures:
                yield Fault(member.name, "RECORD does not list it")
        # Of a member that is there twice no row could tell which it is about.
        elif member.name != record and there[member.name] == 1:
            what = _wrong(member, row)
            if what is not None and member.name not in signatures:
                yield Fault(member.name, what)


def _wrong(member: Content, row: RecordRow) -> str | None:
    if row.sha256 is None:
        return "RECORD has no digest for it"
    if member.sha256 is None:
        return None
    if row.size is not None and row.size != member.size:
        return "its size is not the one in RECORD"
    return None if row.sha256 == member.sha256 else "its digest is not the one in RECORD"


# -- decide from an archive's directory alone whether its members can be inflated without harm


# Every member takes memory before anything is checked: about a kilobyte.
_MOST_DIRECTORY, _MOST_MEMBERS = 64 << 20, 200_000
_PIECE = 4 << 20
_HARMLESS, _MOST_RATIO = 1 << 30, 100
_MOST_MEMBER = 64 << 30
_MOST_TOTAL = 256 << 30


def directory_size(handle: int) -> int:
    """Bytes that the directory claims to have; 0 when there is no end of a zip archive."""
    size = os.fstat(handle).st_size
    start = max(0, size - END.size - MOST_COMMENT)
    tail = pread(handle, size - start, start)
    at = tail.rfind(END_MARK)
    if at < 0 or at + END.size > len(tail):
        return 0
    claimed: int = END.unpack_from(tail, at)[5]
    locator = pread(handle, LOCATOR64.size, max(0, start + at - LOCATOR64.size))
    if len(locator) == LOCATOR64.size and locator.startswith(LOCATOR64_MARK):
        end = pread(handle, END64.size, LOCATOR64.unpack(locator)[2] & (1 << 62) - 1)
        if len(end) == END64.size and end.startswith(END64_MARK):
            # Where this record is there, the older may tell nothing but that it is.
            large: int = END64.unpack(end)[8]
            claimed = large if claimed == FULL32 else max(claimed, large)
    return claimed


def too_large(handle: int) -> str | None:
    """Why a directory is not read at all; None for any real directory."""
    size, whole = directory_size(handle), os.fstat(handle).st_size
    if min(size, whole) > _MOST_DIRECTORY:
        return f"its zip directory has {size:,} bytes, more than that of any real wheel"
    start = max(0, whole - size - END.size - MOST_COMMENT - LOCATOR64.size - END64.size)
    entries = sum(pread(handle, _PIECE, at).count(CENTRAL_MARK) for at in range(start, whole, _PIECE))
    if entries > _MOST_MEMBERS:
        return f"its zip directory has about {entries:,} members, more than any real wheel"
    return None


def bomb(members: Sequence[WheelMember]) -> str | None:
    """Why these members must not be inflated; None for a harmless archive.

    Members that share bytes of the archive, one member above 64 GiB, or more than 1 GiB in one member or in
    all of them that is more than a hundred times what is stored for it.
    """
    ordered = sorted(members, key=lambda member: member.offset)
    for before, after in pairwise(ordered):
        name = min(len(before.name), len(before.name.encode("utf-8", "replace")))
        if before.offset + LOCAL.size + name + before.packed > after.offset:
            return f"{before.name} and {after.name} share bytes of the archive"
    for member in members:
        if member.size > _MOST_MEMBER:
            return f"{member.name} unpacks to {member.size:,} bytes"
        if _explodes(member.size, member.packed):
            return f"{member.name} has {member.packed:,} bytes and unpacks to {member.size:,}"
    size, packed = sum(member.size for member in members), sum(member.packed for member in members)
    if size > _MOST_TOTAL or _explodes(size, packed):
        return f"its members have {packed:,} bytes and unpack to {size:,}"
    return None


def _explodes(size: int, packed: int) -> bool:
    return size > _HARMLESS and size > _MOST_RATIO * packed
