"""Write a wheel from a plan: streaming, parallel, reproducible, atomic."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, groupby
from pathlib import Path
from types import MappingProxyType
from typing import IO

import msgspec

from rocwright import __version__
from rocwright.errors import InvalidInput
from rocwright.system.files import CHUNK, atomic_write
from rocwright.system.parallel import in_order
from rocwright.system.progress import Count, counted
from rocwright.wheel.archive import TrailingDigest, ZipWriter
from rocwright.wheel.deflate import COMPRESSOR, Block, Levels, Packed, blocks_of, crc32, levels_of, pack
from rocwright.wheel.metadata import (
    Metadata,
    RecordRow,
    normalized_name,
    normalized_version,
    render_entry_points,
    render_metadata,
    render_record,
    render_wheel_file,
    wheel_filename,
    wheel_stem,
)
from rocwright.wheel.source import Buffers, BytesSource, FileSource, Source

__all__ = [
    "BytesSource",
    "FileSource",
    "Member",
    "Source",
    "Taken",
    "WheelPlan",
    "WrittenWheel",
    "check_names",
    "write_members",
    "write_wheel",
    "write_wheels",
]

_PACKED_SUFFIXES = (".xz", ".zst", ".gz", ".kpack", ".whl")
_DRIVE = re.compile(r"[A-Za-z]:")
_NONE: Mapping[str, Mapping[str, str]] = MappingProxyType({})
# Members in flight hold at most so many bytes, and so many more for each of the first threads: two of the
# largest that are packed in one go fit, and the bound does not grow with any number of threads.
_WINDOW = _WINDOW_PER_THREAD = 64 << 20
_THREADS_THAT_COUNT = 2
_KEPT = 32 << 20  # of the memory that members were read into, so many bytes wait for the next ones


class Member(msgspec.Struct, frozen=True):
    """A file in a wheel. `name` is its path with `/`, relative to the wheel's root.

    `compress` False stores it; files that are compressed by nature (`.xz`, `.zst`, `.gz`, `.kpack`, `.whl`)
    are stored in any case. `mode` is the Unix mode where `executable` does not say enough.
    """

    name: str
    source: Source
    executable: bool = False
    compress: bool = True
    mode: int | None = None

    @property
    def unix_mode(self) -> int:
        """What the archive records."""
        return self.mode if self.mode is not None else 0o755 if self.executable else 0o644


class Taken(msgspec.Struct, frozen=True):
    """A file taken over from another wheel as it is compressed there.

    `packed` are its bytes as stored; `size`, `crc` and `sha256` (hex) are of the file itself, and whoever
    takes it over has verified them. `mode` is the Unix mode.
    """

    name: str
    packed: Source
    size: int
    crc: int
    sha256: str
    deflated: bool
    mode: int


class WheelPlan(msgspec.Struct, frozen=True):
    """Everything a wheel will say and contain, save METADATA, WHEEL, entry_points.txt and RECORD.

    `entry_points` maps group → name → object reference. Members may lie in `dist_info`, licenses for
    example.
    """

    name: str
    version: str
    metadata: Metadata
    members: tuple[Member, ...]
    tag: str = "py3-none-linux_x86_64"
    entry_points: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=lambda: _NONE)
    root_is_purelib: bool = False

    @property
    def filename(self) -> str:
        """File name of the wheel."""
        return wheel_filename(self.name, self.version, self.tag)

    @property
    def dist_info(self) -> str:
        """Name of the `.dist-info` directory."""
        return f"{wheel_stem(self.name, self.version)}.dist-info"


class WrittenWheel(msgspec.Struct, frozen=True):
    """A wheel on disk: hex sha256, size of the file, and `stored_bytes`, what an installer unpacks.

    `compressor` belongs to the result because the same bytes come out only of the same compressor.
    """

    path: Path
    sha256: str
    size: int
    stored_bytes: int
    compressor: str = COMPRESSOR


def write_wheel(
    plan: WheelPlan, directory: Path, *, threads: int = 2, compression: str = "balanced"
) -> WrittenWheel:
    """Write the wheel into `directory`; the same plan gives the same bytes for any number of threads.

    `compression` is one of `deflate.COMPRESSIONS`. Holds at most 192 MiB of members, however large they are
    and many threads there be; what the allocator keeps comes on top (`system.limits`). Raises `InvalidInput`
    for names that no wheel may have (absolute, `..`, backslash, drive, repeated; not for Linux: differing
    only by case), for metadata of another project, and for a source that shrinks; `NoSpace` when the disk is
    full. A failure leaves nothing behind.
    """
    return next(write_wheels([plan], directory, threads=threads, compression=compression))


def write_wheels(
    plans: Sequence[WheelPlan], directory: Path, *, threads: int = 2, compression: str = "balanced"
) -> Generator[WrittenWheel, None, None]:
    """Write several wheels one after another, yielding each when it is there; as `write_wheel` does.

    The threads go on with the next wheel's members while the end of one is written. All plans are checked
    before anything is written.
    """
    levels = levels_of(compression)
    for plan in plans:
        _check_plan(plan)
    ordered = [_ordered(plan) for plan in plans]
    directory.mkdir(parents=True, exist_ok=True)
    jobs = chain.from_iterable(_jobs(members, levels, number) for number, members in enumerate(ordered))
    total = sum(member.source.size for members in ordered for member in members)
    with counted("writing wheels", total) as count, closing(_prepared(jobs, threads, count)) as done:
        for number, pieces in groupby(done, key=lambda piece: piece.wheel):
            plan = plans[number]
            target = directory / plan.filename
            record = f"{plan.dist_info}/RECORD"
            with atomic_write(target) as stream, TrailingDigest(stream) as digest:
                stored = _write(stream, pieces, record, levels, digest.settled)
                sha256, size = digest.finish(), stream.tell()
            yield WrittenWheel(target, sha256, size, stored)


def write_members(
    stream: IO[bytes],
    members: Iterable[Member | Taken],
    record: str,
    *,
    threads: int = 2,
    compression: str = "balanced",
) -> int:
    """Write members to a seekable stream in the order given, then RECORD under its name `record`.

    Returns the bytes that an installer unpacks. Raises and holds what `write_wheel` does; the names must
    have been checked by `check_names`.
    """
    levels = levels_of(compression)
    with (
        counted("writing the wheel") as count,
        closing(_prepared(_jobs(members, levels), threads, count)) as pieces,
    ):
        return _write(stream, pieces, record, levels, lambda _: None)


def _prepared(
    jobs: Iterable[tuple[_Piece, int]], threads: int, count: Count
) -> Generator[_Piece, None, None]:
    """Pieces, compressed, in their order. To be closed when writing fails, so that no thread goes on."""
    window = _WINDOW + _WINDOW_PER_THREAD * min(max(1, threads), _THREADS_THAT_COUNT)
    buffers = Buffers(_KEPT)

    def prepare(piece: _Piece) -> _Piece:
        done = _prepare(buffers, piece)
        if piece.block is not None:
            count.add(piece.block.length)
        return done

    return in_order(prepare, jobs, threads=threads, window=window, weigh=_weigh)


def _write(
    stream: IO[bytes],
    pieces: Iterator[_Piece],
    record: str,
    levels: Levels | None,
    settled: Callable[[int], None],
) -> int:
    """As `write_members`; calls `settled` with how much of the stream is final so far."""
    rows: list[RecordRow] = []
    archive = ZipWriter(stream)
    for _, group in groupby(pieces, key=lambda piece: piece.member.name):
        rows.append(_write_member(archive, group))
        settled(archive.position)
    data = render_record([*rows, RecordRow(record, None, None)])
    member = Member(record, BytesSource(data))
    own = Buffers(_KEPT)
    _write_member(archive, (_prepare(own, piece) for piece, _ in _jobs([member], levels)))
    archive.close()
    return sum(row.size or 0 for row in rows) + len(data)


def _check_plan(plan: WheelPlan) -> None:
    theirs = (normalized_name(plan.metadata.name), normalized_version(plan.metadata.version))
    ours = (normalized_name(plan.name), normalized_version(plan.version))
    if theirs != ours:
        raise InvalidInput(f"metadata is of {' '.join(theirs)}, the wheel of {' '.join(ours)}")


def _ordered(plan: WheelPlan) -> list[Member]:
    """All members but RECORD: sorted, the `.dist-info` ones last (as the wheel specification advises)."""
    generator = f"rocwright {__version__}"
    own = {
        "METADATA": render_metadata(plan.metadata),
        "WHEEL": render_wheel_file(plan.tag, root_is_purelib=plan.root_is_purelib, generator=generator),
    }
    if plan.entry_points:
        own["entry_points.txt"] = render_entry_points(plan.entry_points)
    members = [
        *plan.members,
        *(Member(f"{plan.dist_info}/{name}", BytesSource(data)) for name, data in own.items()),
    ]
    check_names(
        [*(member.name for member in members), f"{plan.dist_info}/RECORD"], case_matters="linux" in plan.tag
    )
    prefix = f"{plan.dist_info}/"
    return sorted(members, key=lambda member: (member.name.startswith(prefix), member.name))


def check_names(names: list[str], *, case_matters: bool) -> None:
    """Refuse names no wheel may have; differing only by case is fine where `case_matters` (Linux)."""
    seen: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        if name.startswith("/") or "\\" in name or _DRIVE.match(name) or {"", ".", ".."} & set(parts):
            raise InvalidInput(f"member name {name!r} is not a plain relative path with '/'")
        if not name.isprintable():
            raise InvalidInput(f"member name {name!r} contains a control character")
        folded = name if case_matters else name.casefold()
        if seen.get(folded) == name:
            raise InvalidInput(f"member {name!r} appears twice")
        if folded in seen:
            raise InvalidInput(
                f"members {seen[folded]!r} and {name!r} differ only by case",
                next_step="rename one; file systems of Windows and macOS keep only one of them",
            )
        seen[folded] = name
    for folded, name in seen.items():
        parent = folded
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent in seen:
                raise InvalidInput(f"member {seen[parent]!r} is both a file and the directory of {name!r}")


class _Piece(msgspec.Struct, frozen=True):
    """A member of a wheel (by its number), or a block of it, before and after compression."""

    member: Member | Taken
    wheel: int
    block: Block | None = None
    packed: Packed | None = None


def _jobs(
    members: Iterable[Member | Taken], levels: Levels | None, wheel: int = 0
) -> Iterator[tuple[_Piece, int]]:
    for member in members:
        if isinstance(member, Taken):
            yield _Piece(member, wheel), 0
            continue
        compressible = member.compress and not member.name.endswith(_PACKED_SUFFIXES)
        for block in blocks_of(member.name, member.source, levels if compressible else None):
            yield _Piece(member, wheel, block), block.weight


def _prepare(buffers: Buffers, piece: _Piece) -> _Piece:
    if piece.block is None:
        return piece
    return msgspec.structs.replace(piece, packed=pack(piece.block, buffers))


def _weigh(piece: _Piece) -> int:
    return 0 if piece.packed is None else piece.packed.weight


def _write_member(archive: ZipWriter, pieces: Iterator[_Piece]) -> RecordRow:
    """Write one member from its pieces, which arrive in order; returns its RECORD row."""
    piece = next(pieces)
    member, first = piece.member, piece.packed
    if isinstance(member, Taken):
        return _take(archive, member)
    assert piece.block is not None and first is not None
    mode = member.unix_mode
    if first.sha256 is not None:
        size = piece.block.length
        archive.add(member.name, first.data, crc=first.crc, size=size, deflated=first.deflated, mode=mode)
        return RecordRow(member.name, first.sha256, size)
    entry = archive.begin(member.name, size=member.source.size, deflated=first.deflated, mode=mode)
    digest = hashlib.sha256()
    crc = packed = size = 0
    following: Packed | None = first
    while following is not None:
        digest.update(following.raw)
        crc = crc32(following.raw, crc)
        archive.stream.write(following.data)
        packed += len(following.data)
        size += len(following.raw)
        following = next((piece.packed for piece in pieces), None)
    if size != entry.size:
        raise InvalidInput(f"{member.name} changed its size while the wheel was being written")
    archive.finish(entry, crc=crc, packed=packed)
    return RecordRow(member.name, digest.hexdigest(), size)


def _take(archive: ZipWriter, member: Taken) -> RecordRow:
    """Copy a member's compressed bytes out of the wheel they lie in."""
    entry = archive.begin(member.name, size=member.size, deflated=member.deflated, mode=member.mode)
    for offset in range(0, member.packed.size, CHUNK):
        length = min(CHUNK, member.packed.size - offset)
        data = member.packed.read_at(offset, length)
        if len(data) != length:
            raise InvalidInput(f"the wheel with {member.name} became shorter while it was read")
        archive.stream.write(data)
    archive.finish(entry, crc=member.crc, packed=member.packed.size)
    return RecordRow(member.name, member.sha256, member.size)
