"""Write a wheel from a plan: streaming, parallel, reproducible, atomic."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

from rocwright import __version__
from rocwright.errors import InvalidInput
from rocwright.system.files import atomic_write, sha256_file
from rocwright.system.parallel import in_order
from rocwright.wheel.archive import ZipWriter
from rocwright.wheel.deflate import BLOCK, COMPRESSOR, Block, Packed, blocks_of, crc32, pack
from rocwright.wheel.metadata import (
    Metadata,
    normalized_name,
    normalized_version,
    render_entry_points,
    render_metadata,
    render_wheel_file,
    wheel_filename,
    wheel_stem,
)
from rocwright.wheel.record import RecordRow, render_record
from rocwright.wheel.source import BytesSource, FileSource, Source

__all__ = ["BytesSource", "FileSource", "Member", "Source", "WheelPlan", "WrittenWheel", "write_wheel"]

_PACKED_SUFFIXES = (".xz", ".zst", ".gz", ".kpack", ".whl")
_DRIVE = re.compile(r"[A-Za-z]:")
_NONE: Mapping[str, Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True)
class Member:
    """A file in a wheel. `name` is its path with `/`, relative to the wheel's root.

    `compress` False stores it; files that are compressed by nature (`.xz`, `.zst`, `.gz`, `.kpack`, `.whl`)
    are stored in any case.
    """

    name: str
    source: Source
    executable: bool = False
    compress: bool = True


@dataclass(frozen=True)
class WheelPlan:
    """Everything a wheel will say and contain, save METADATA, WHEEL, entry_points.txt and RECORD.

    `entry_points` maps group → name → object reference. Members may lie in `dist_info`, licenses for
    example.
    """

    name: str
    version: str
    metadata: Metadata
    members: tuple[Member, ...]
    tag: str = "py3-none-linux_x86_64"
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: _NONE)
    root_is_purelib: bool = False

    @property
    def filename(self) -> str:
        """File name of the wheel."""
        return wheel_filename(self.name, self.version, self.tag)

    @property
    def dist_info(self) -> str:
        """Name of the `.dist-info` directory."""
        return f"{wheel_stem(self.name, self.version)}.dist-info"


@dataclass(frozen=True)
class WrittenWheel:
    """A wheel on disk: hex sha256, size of the file, and `stored_bytes`, what an installer unpacks.

    `compressor` belongs to the result because the same bytes come out only of the same compressor.
    """

    path: Path
    sha256: str
    size: int
    stored_bytes: int
    compressor: str = COMPRESSOR


def write_wheel(plan: WheelPlan, directory: Path, *, threads: int = 2, level: int = 6) -> WrittenWheel:
    """Write the wheel into `directory`; the same plan gives the same bytes for any number of threads.

    Holds a few blocks of 4 MiB per thread, never a whole large member. Raises `InvalidInput` for names that
    no wheel may have (absolute, `..`, backslash, drive, repeated; not for Linux: differing only by case),
    for metadata of another project, and for a source that shrinks; `NoSpace` when the disk is full. A
    failure leaves nothing behind.
    """
    _check_plan(plan)
    ordered = _ordered(plan)
    target = directory / plan.filename
    rows: list[RecordRow] = []
    with atomic_write(target) as stream:
        archive = ZipWriter(stream)
        by_name = {member.name: member for member in ordered}
        jobs = ((block, block.length) for block in _blocks(ordered, level))
        window = (max(1, threads) + 2) * BLOCK
        # Closed at once when writing fails, so that no thread goes on compressing.
        with closing(in_order(_pack_keeping_block, jobs, threads=threads, window=window)) as done:
            for name, pieces in groupby(done, key=lambda piece: piece[0].name):
                rows.append(_write_member(archive, by_name[name], pieces))
        stored = sum(row.size or 0 for row in rows)
        record = f"{plan.dist_info}/RECORD"
        data = render_record([*rows, RecordRow(record, None, None)])
        source = BytesSource(data)
        _write_member(
            archive,
            Member(record, source),
            (_pack_keeping_block(block) for block in blocks_of(record, source, level)),
        )
        archive.close()
    return WrittenWheel(target, sha256_file(target), target.stat().st_size, stored + len(data))


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
    _check_names(
        [*(member.name for member in members), f"{plan.dist_info}/RECORD"], case_matters="linux" in plan.tag
    )
    prefix = f"{plan.dist_info}/"
    return sorted(members, key=lambda member: (member.name.startswith(prefix), member.name))


def _check_names(names: list[str], *, case_matters: bool) -> None:
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
            raise InvalidInput(f"member {name!r} is there twice")
        if folded in seen:
            raise InvalidInput(
                f"members {seen[folded]!r} and {name!r} differ only by case",
                next_step="rename one; file systems of Windows and macOS hold only one of them",
            )
        seen[folded] = name
    for folded, name in seen.items():
        parent = folded
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent in seen:
                raise InvalidInput(f"member {seen[parent]!r} is a file and the directory of {name!r}")


def _blocks(members: list[Member], level: int) -> Iterator[Block]:
    for member in members:
        compressible = member.compress and not member.name.endswith(_PACKED_SUFFIXES)
        yield from blocks_of(member.name, member.source, level if compressible else None)


def _pack_keeping_block(block: Block) -> tuple[Block, Packed]:
    return block, pack(block)


def _write_member(archive: ZipWriter, member: Member, pieces: Iterator[tuple[Block, Packed]]) -> RecordRow:
    """Write one member from its blocks, which arrive in order; returns its RECORD row."""
    mode = 0o755 if member.executable else 0o644
    block, first = next(pieces)
    if first.sha256 is not None:
        archive.add(
            member.name, first.data, crc=first.crc, size=block.length, deflated=first.deflated, mode=mode
        )
        return RecordRow(member.name, first.sha256, block.length)
    entry = archive.begin(member.name, size=member.source.size, deflated=first.deflated, mode=mode)
    digest = hashlib.sha256()
    crc = packed = size = 0
    piece: Packed | None = first
    while piece is not None:
        digest.update(piece.raw)
        crc = crc32(piece.raw, crc)
        archive.stream.write(piece.data)
        packed += len(piece.data)
        size += len(piece.raw)
        piece = next((following for _, following in pieces), None)
    if size != entry.size:
        raise InvalidInput(f"{member.name} changed its size while the wheel was being written")
    archive.finish(entry, crc=crc, packed=packed)
    return RecordRow(member.name, digest.hexdigest(), size)
