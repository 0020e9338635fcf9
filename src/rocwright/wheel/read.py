"""Read wheels without unpacking them: what name, directory, metadata and RECORD say, and where members get.

Several may be installed together; a member's place in site-packages follows from its name.
"""

from __future__ import annotations

import hashlib
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
)
from packaging.version import InvalidVersion, Version

from rocwright.errors import InvalidWheel, see_who_may_read
from rocwright.model.variants import split_label
from rocwright.system.files import CHUNK
from rocwright.wheel.metadata import Metadata, RecordRow, parse_metadata, parse_record
from rocwright.wheel.tags import WheelName, parse_wheel_name

_LARGEST_TEXT = 64 << 20  # METADATA, WHEEL, RECORD; a bomb guard, far above any real wheel
# What zipfile raises for archives of all kinds of damage; names that are no UTF-8 are a ValueError.
DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError
)  # fmt: skip
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")
_SCHEMES = ("platlib", "purelib")


class WheelMember(msgspec.Struct, frozen=True):
    """A file in a wheel as the zip directory describes it.

    `offset` is that of its local header, `mode` the Unix mode with file type (0 when not recorded), `flags`
    the zip flags, `method` 0 stored or 8 deflated.
    """

    name: str
    size: int
    packed: int
    crc: int
    flags: int
    method: int
    offset: int
    mode: int

    @property
    def sound_mode(self) -> int:
        """Its mode in a wheel that is made of this one: what no installed file should have is put right.

        0644 where none is recorded; its owner may read it, not everybody may write it, nobody gets another's
        rights (setuid, setgid), and what pip puts on PATH can be run.
        """
        if not self.mode:
            return 0o644
        runs = 0o111 if ".data/scripts/" in self.name else 0
        return self.mode & ~(stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH) | stat.S_IRUSR | runs


class Wheel(msgspec.Struct, frozen=True, dict=True):
    """A wheel on disk.

    `name` is canonical, `tags` those of the file name, `wheel_tags` those of the WHEEL file. `members` are
    in the order of the zip directory, without directory entries.
    """

    path: Path
    name: str
    version: str
    build: str | None
    tags: frozenset[str]
    dist_info: str
    members: tuple[WheelMember, ...]
    metadata: Metadata
    wheel_tags: frozenset[str]
    root_is_purelib: bool
    record: tuple[RecordRow, ...]

    @cached_property
    def member(self) -> Mapping[str, WheelMember]:
        """Members by name."""
        return {member.name: member for member in self.members}


def open_wheel(path: Path) -> Wheel:
    """Read a wheel's structure.

    Raises `InvalidWheel` naming the cause: no wheel name, no zip, not exactly one `.dist-info` fitting the
    name, METADATA, WHEEL or RECORD missing or malformed, a member twice.
    """
    _parsed_name(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return parse_wheel(path, members_of(archive), lambda name: _text(archive, name, path))
    except DAMAGED as error:
        raise InvalidWheel(f"{path.name} is a damaged archive: {error}", where=path) from error
    except OSError as error:
        raise InvalidWheel(
            f"cannot read {path.name}: {error.strerror or error}",
            where=path,
            next_step=see_who_may_read(path),
        ) from error


def parse_wheel(path: Path, members: tuple[WheelMember, ...], text: Callable[[str], bytes]) -> Wheel:
    """A wheel out of its directory and the bytes of METADATA, WHEEL and RECORD, asked of `text` by name.

    Raises `InvalidWheel` as `open_wheel`, and what `text` raises.
    """
    name, version, build, tags, _ = _parsed_name(path)
    _require_distinct(members, path)
    dist_info = _dist_info(members, path, name, str(version))
    texts = {part: text(f"{dist_info}/{part}") for part in ("METADATA", "WHEEL", "RECORD")}
    try:
        metadata = parse_metadata(texts["METADATA"])
        record = parse_record(texts["RECORD"])
    except InvalidWheel as error:
        raise InvalidWheel(f"{path.name}: {error.what}", where=path) from error
    if (canonicalize_name(metadata.name), Version(metadata.version)) != (name, version):
        raise InvalidWheel(f"{path.name}: METADATA is of {metadata.name} {metadata.version}", where=path)
    wheel_file = all_headers(texts["WHEEL"])
    return Wheel(
        path=path,
        name=str(name),
        version=str(version),
        build="".join(map(str, build)) or None,
        tags=frozenset(map(str, tags)),
        dist_info=dist_info,
        members=members,
        metadata=metadata,
        wheel_tags=frozenset(wheel_file.get("tag", ())),
        root_is_purelib=wheel_file.get("root-is-purelib", ("",))[0].lower() == "true",
        record=record,
    )


def _parsed_name(path: Path) -> WheelName:
    try:
        return parse_wheel_name(path.name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise InvalidWheel(
            f"{path.name} is not a valid wheel name: {error}",
            where=path,
            next_step="restore its name: NAME-VERSION-PYTHON-ABI-PLATFORM.whl",
        ) from error


def read_member(wheel: Wheel, name: str) -> bytes:
    """A small member's bytes; raises `InvalidWheel` when it is missing, damaged or above 64 MiB."""
    try:
        with zipfile.ZipFile(wheel.path) as archive:
            return _text(archive, name, wheel.path)
    except (*DAMAGED, OSError) as error:
        raise InvalidWheel(f"{name} in {wheel.path.name} is damaged: {error}", where=wheel.path) from error


def verify_record(wheel: Wheel) -> tuple[str, ...]:
    """What is wrong between RECORD and the members; empty when all agrees.

    Reads every member once, streaming, and compares size and sha256; finds members RECORD lacks and rows
    without a member.
    """
    rows = {row.path: row for row in wheel.record}
    problems = [f"RECORD lists {row.path} twice" for row in _repeated(wheel.record)]
    problems += [
        f"RECORD lists {path}, which is not in the wheel" for path in rows if path not in wheel.member
    ]
    unhashed = {f"{wheel.dist_info}/{name}" for name in _UNHASHED}
    with zipfile.ZipFile(wheel.path) as archive:
        for member in wheel.members:
            row = rows.get(member.name)
            if row is None:
                if member.name not in unhashed - {f"{wheel.dist_info}/RECORD"}:
                    problems.append(f"RECORD lacks {member.name}")
            elif row.sha256 is None:
                if member.name not in unhashed:
                    problems.append(f"RECORD has no digest for {member.name}")
            else:
                problems += _compare(archive, member, row)
    return tuple(problems)


def _repeated(rows: tuple[RecordRow, ...]) -> list[RecordRow]:
    seen: set[str] = set()
    repeated = []
    for row in rows:
        if row.path in seen:
            repeated.append(row)
        seen.add(row.path)
    return repeated


def _compare(archive: zipfile.ZipFile, member: WheelMember, row: RecordRow) -> list[str]:
    digest, size = hashlib.sha256(), 0
    try:
        with archive.open(member.name) as stream:
            while piece := stream.read(CHUNK):
                digest.update(piece)
                size += len(piece)
    except DAMAGED as error:
        return [f"{member.name} is damaged: {error}"]
    if row.size is not None and size != row.size:
        return [f"{member.name} has {size} bytes, RECORD says {row.size}"]
    if digest.hexdigest() != row.sha256:
        return [f"{member.name} has sha256 {digest.hexdigest()}, RECORD says {row.sha256}"]
    return []


def members_of(archive: zipfile.ZipFile) -> tuple[WheelMember, ...]:
    """The members in the order of the zip directory, whatever is wrong with their names.

    Entries of directories are left out, unless they claim to have content.
    """
    return tuple(
        WheelMember(
            name=info.orig_filename,
            size=info.file_size,
            packed=info.compress_size,
            crc=info.CRC,
            flags=info.flag_bits,
            method=info.compress_type,
            offset=info.header_offset,
            mode=info.external_attr >> 16 if info.create_system == 3 else 0,
        )
        for info in archive.infolist()
        if info.file_size or not info.orig_filename.endswith("/")
    )


def _require_distinct(members: tuple[WheelMember, ...], path: Path) -> None:
    seen = set()
    for member in members:
        if not member.name:
            raise InvalidWheel(f"{path.name} contains a member without a name", where=path)
        if "\0" in member.name or member.name.endswith("/"):
            raise InvalidWheel(f"{path.name} contains {member.name!r}, which names no file", where=path)
        if member.name in seen:
            raise InvalidWheel(f"{path.name} contains {member.name} twice", where=path)
        seen.add(member.name)


def _dist_info(members: tuple[WheelMember, ...], path: Path, name: str, version: str) -> str:
    tops = {member.name.split("/", 1)[0] for member in members if "/" in member.name}
    found = sorted(top for top in tops if top.endswith(".dist-info"))
    if len(found) != 1:
        listed = ", ".join(found) or "none"
        raise InvalidWheel(
            f"{path.name} needs exactly one .dist-info directory, it has: {listed}", where=path
        )
    stem, _, its_version = found[0].removesuffix(".dist-info").rpartition("-")
    try:
        fits = canonicalize_name(stem) == name and Version(its_version) == Version(version)
    except ValueError:  # also for numbers of thousands of digits
        fits = False
    if not fits:
        raise InvalidWheel(f"{path.name} contains {found[0]}, which belongs to another wheel", where=path)
    return found[0]


def _text(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError:
        raise InvalidWheel(f"{path.name} has no {name}", where=path) from None
    if info.file_size > _LARGEST_TEXT:
        raise InvalidWheel(f"{name} in {path.name} has {info.file_size} bytes", where=path)
    return archive.read(info)


def all_headers(data: bytes) -> dict[str, tuple[str, ...]]:
    """`Key: value` lines by lower-case key."""
    headers: dict[str, list[str]] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        key, found, value = line.partition(":")
        if found:
            headers.setdefault(key.strip().lower(), []).append(value.strip())
    return {key: tuple(values) for key, values in headers.items()}


def installed_together(wheels: Sequence[Wheel]) -> list[list[Wheel]]:
    """All wheels, unless a project is there several times: then those with the same tags.

    Of a project with variants, one of them or its plain wheel; variants without any content are left out.
    """
    labels = {wheel.path: split_label(wheel.path.name)[1] or "" for wheel in wheels}
    filled = [wheel for wheel in wheels if not labels[wheel.path] or _has_content(wheel)]
    several = sorted({labels[wheel.path] for wheel in filled})
    if several in ([], [""]):
        return _same_tags(filled)
    found = []
    for label in several:
        own = {wheel.name for wheel in filled if label and labels[wheel.path] == label}
        found += _same_tags(
            [wheel for wheel in filled if labels[wheel.path] == (label if wheel.name in own else "")]
        )
    return found


def _has_content(wheel: Wheel) -> bool:
    return any(not member.name.startswith(f"{wheel.dist_info}/") for member in wheel.members)


def _same_tags(wheels: Sequence[Wheel]) -> list[list[Wheel]]:
    if max(Counter(wheel.name for wheel in wheels).values(), default=1) == 1:
        return [list(wheels)] if wheels else []
    by_tags: dict[str, list[Wheel]] = {}
    for wheel in wheels:
        by_tags.setdefault(" ".join(sorted(wheel.tags)), []).append(wheel)
    return list(by_tags.values())


def installed_path(wheel: Wheel, member: WheelMember) -> str:
    """A member's path in site-packages; below `.data`, other schemes keep their path in the wheel."""
    top, _, rest = member.name.partition("/")
    scheme, _, below = rest.partition("/")
    data = wheel.dist_info.removesuffix(".dist-info") + ".data"
    return below if top == data and scheme in _SCHEMES else member.name


def place_of(name: str) -> str:
    """Where a member gets, by its name alone; `<scheme>/…` in front where it does not go to site-packages.

    `x-1.data/platlib/a` becomes `a`, `x-1.data/scripts/b` becomes `<scripts>/b`. Headers go below the
    project's name, so those of two projects never meet; their path stays.
    """
    top, _, rest = name.partition("/")
    scheme, _, below = rest.partition("/")
    if not top.endswith(".data") or not below:
        return name
    if scheme in _SCHEMES:
        return below
    return f"<{scheme}>/{below}" if scheme in ("scripts", "data") else name
