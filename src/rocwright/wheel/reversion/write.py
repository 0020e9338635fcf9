"""Write what was planned: all files or none."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import IO, Any

import msgspec

from rocwright.errors import IntegrityError, InvalidWheel, UsageError
from rocwright.system.files import (
    CHUNK,
    PARTIAL,
    atomic_write,
    disk_error,
    link_or_copy,
    make_directory,
    pread,
    remove_tree,
    require_space,
    sha256_file,
)
from rocwright.system.progress import each
from rocwright.wheel.metadata import RecordRow
from rocwright.wheel.read import Wheel, WheelMember, open_wheel
from rocwright.wheel.reversion.directory import DirectoryEntry, WheelArchive, damaged
from rocwright.wheel.reversion.members import mentions
from rocwright.wheel.reversion.sdists import write_sdist
from rocwright.wheel.reversion.values import FileChange, ReversionPlan, WheelEdits
from rocwright.wheel.stream import WheelStream, opened
from rocwright.wheel.zipformat import (
    CENTRAL,
    DESCRIPTOR,
    DESCRIPTOR_MARK,
    DESCRIPTORS,
    EXTRA_LENGTH,
    FULL32,
    LOCAL,
    LOCAL_MARK,
    NAME_LENGTH,
    PACKED,
    SHARED,
    wide_values,
)

_BUFFERS = 4


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that was written: hex sha256 and size in bytes.

    `left` are members that mention the old ROCm; of those that nobody looked into, it says nothing.
    """

    path: Path
    sha256: str
    size: int
    left: tuple[str, ...] = ()


def write_reversion(
    plan: ReversionPlan, directory: Path, *, verify: bool = False, threads: int = 2
) -> tuple[WrittenFile, ...]:
    """Write every file of the set into `directory`, or none: what stays as it is, is linked or copied.

    With `verify` every member of each new wheel is inflated and compared with RECORD, and searched for the
    old version, before any file gets its place. Raises `UsageError` when a file would replace one of the set,
    `NoSpace`, `InvalidWheel` for a wheel that is not what it seemed, `IntegrityError` where RECORD is wrong.
    """
    for change in plan.files:
        if (directory / change.name).resolve() == change.source.resolve():
            raise UsageError(
                f"{change.name} would be written onto itself", next_step="choose another --output-dir"
            )
    make_directory(directory)
    require_space(
        directory, sum(change.source.stat().st_size for change in plan.files), purpose="the new files"
    )
    partial = directory / f"reversion{PARTIAL}"
    try:
        remove_tree(partial)
        changes = each("writing", plan.files, size=lambda change: change.source.stat().st_size)
        written = [_write(change, partial / change.name) for change in changes]
        if verify:
            files = each("verifying", written, size=lambda file: file.size)
            written = [_verified(file, plan.old, threads) for file in files]
        for file in written:
            file.path.replace(directory / file.path.name)
    except OSError as error:
        raise disk_error(error, directory) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return tuple(msgspec.structs.replace(file, path=directory / file.path.name) for file in written)


def _verified(file: WrittenFile, old: str, threads: int) -> WrittenFile:
    if file.path.suffix != ".whl":
        return file
    return msgspec.structs.replace(file, left=verify_wheel(file.path, old, threads=threads))


def _write(change: FileChange, path: Path) -> WrittenFile:
    if isinstance(change.work, WheelEdits):
        with atomic_write(path) as stream:
            sha256, size = write_wheel(change.work, stream)
        return WrittenFile(path, sha256, size, change.left)
    if change.work is None:
        link_or_copy(change.source, path)
    else:
        with atomic_write(path) as stream:
            write_sdist(change.source, change.work, stream)
    return WrittenFile(path, sha256_file(path), path.stat().st_size, change.left)


def write_wheel(edits: WheelEdits, stream: IO[bytes]) -> tuple[str, int]:
    """Write the pieces of a wheel one after another; hex sha256 and size.

    Bytes are read once: what is in a buffer is written, its headers are looked at, and a second thread takes
    its digest meanwhile. That takes less of a processor than letting the system copy and reading the copy.
    Raises `InvalidWheel` for a header that is not what the directory says.
    """
    source, size = edits.archive.path, 0
    digest = hashlib.sha256()
    with source.open("rb", buffering=0) as old, ThreadPoolExecutor(1) as digesting:
        headers = Headers(edits.archive, old.fileno())
        turns = cycle(_Turn(bytearray(CHUNK)) for _ in range(_BUFFERS))
        for piece in edits.pieces:
            if isinstance(piece, bytes):
                stream.write(piece)
                digesting.submit(digest.update, piece)
                size += len(piece)
                continue
            place, end = piece
            old.seek(place)
            while place < end:
                turn = next(turns)
                turn.wait()
                view = memoryview(turn.buffer)
                count = old.readinto(view[: end - place])
                if not count:
                    raise InvalidWheel(f"{source.name} became shorter while it was read", where=source)
                turn.digested = digesting.submit(digest.update, view[:count])
                stream.write(view[:count])
                headers.seen(turn.buffer, count, place)
                place += count
                size += count
        headers.finish()
    return digest.hexdigest(), size


class _Turn(msgspec.Struct):
    """A buffer, and the digest that is still being taken of what is in it."""

    buffer: bytearray
    digested: Future[None] | None = None

    def wait(self) -> None:
        """Until the buffer may be filled again."""
        if self.digested is not None:
            self.digested.result()


# -- the headers in front of members, looked at while the bytes go by that they stand in


_LONGEST_DESCRIPTOR = len(DESCRIPTOR_MARK) + DESCRIPTORS[-1].size


class Headers:
    """Every byte of an archive belongs to a member, whose header says what the directory says.

    `seen` takes pieces of the file in the order in which they lie; those between and headers that a piece
    cuts are read from `handle`. Raises `InvalidWheel` naming the first member of which that is not so.
    """

    def __init__(self, archive: WheelArchive, handle: int) -> None:
        lying = archive.lying
        if (lying[0].offset if lying else archive.directory_at) != 0:
            raise damaged(archive.path, "something lies before its first member")
        self._archive, self._handle = archive, handle
        self._ends = [*(entry.offset for entry in lying[1:]), archive.directory_at]
        self._next = 0

    def seen(self, data: bytearray, length: int, place: int) -> None:
        """The first `length` bytes of `data`, which begin at `place` of the file."""
        directory, lying, ends, fixed = self._archive.directory, self._archive.lying, self._ends, LOCAL.size
        until, number, count, starts = place + length, self._next, len(lying), data.startswith
        while number < count:
            _, at, _, offset, _ = lying[number]
            names = directory[at + NAME_LENGTH] | directory[at + NAME_LENGTH + 1] << 8
            behind = offset + fixed + names
            if behind > until and offset >= until:
                break
            start = offset - place
            extra = start + EXTRA_LENGTH
            packed = int.from_bytes(directory[at + PACKED.start : at + PACKED.stop], "little")
            if (
                start < 0
                or behind > until
                or not starts(LOCAL_MARK + directory[at + SHARED.start : at + SHARED.stop], start)
                or not starts(directory[at + CENTRAL.size : at + CENTRAL.size + names], start + fixed)
                or behind + (data[extra] | data[extra + 1] << 8) + packed != ends[number]
            ):
                self._require(lying[number], ends[number])
            number += 1
        self._next = number

    def finish(self) -> None:
        """The members that no piece has shown."""
        lying = self._archive.lying
        for number in range(self._next, len(lying)):
            self._require(lying[number], self._ends[number])

    def _require(self, entry: DirectoryEntry, following: int) -> None:
        _require_header(self._archive, self._handle, entry, following)


def _require_header(archive: WheelArchive, handle: int, entry: DirectoryEntry, following: int) -> None:
    """As above, for a header that is not the same byte by byte."""
    record = archive.record(entry)
    head = pread(handle, LOCAL.size + record[10], entry.offset)
    if len(head) < LOCAL.size or head[:4] != LOCAL_MARK:
        raise damaged(archive.path, f"{entry.name} has no header at {entry.offset:#x}")
    _, _, flags, method, _, _, crc, packed, size, names, extras = LOCAL.unpack_from(head)
    start = entry.offset + LOCAL.size + names + extras
    end = start + record[8]
    place = entry.at + CENTRAL.size
    same = head[LOCAL.size :] == archive.directory[place : place + record[10]] and names == record[10]
    same = same and (flags, method) == (record[3], record[4])
    if flags & DESCRIPTOR:
        same = same and _described(handle, record, end, following)
    else:
        if FULL32 in (packed, size):
            size, packed, _ = wide_values(pread(handle, extras, start - extras), (size, packed, 0))
        same = same and (crc, packed, size) == (record[7], record[8], record[9]) and end == following
    if not same:
        raise damaged(archive.path, f"the header of {entry.name} and the directory contradict each other")


def _described(handle: int, record: tuple[Any, ...], end: int, following: int) -> bool:
    """Whether what stands behind a member's bytes is its descriptor, and nothing else."""
    length = following - end
    data = pread(handle, length, end) if 0 < length <= _LONGEST_DESCRIPTOR else b""
    for form in DESCRIPTORS:
        if len(data) == form.size + len(DESCRIPTOR_MARK) and data.startswith(DESCRIPTOR_MARK):
            data = data.removeprefix(DESCRIPTOR_MARK)
        if len(data) == form.size:
            return form.unpack(data) == (record[7], record[8], record[9])
    return False


# -- read a wheel that was written, all of it: does RECORD hold, and what still mentions an old version?


_OVERLAP = 256  # longer than any version


def verify_wheel(path: Path, old: str, *, threads: int = 2) -> tuple[str, ...]:
    """Members, sorted, that mention the version `old`; all of them are inflated and compared with RECORD.

    Raises `IntegrityError` naming the first member that RECORD does not tell of as it is, `InvalidWheel` for
    one that is damaged.
    """
    wheel = open_wheel(path)
    rows = {row.path: row for row in wheel.record}
    with opened(wheel) as stream, ThreadPoolExecutor(threads, thread_name_prefix="rocwright-verify") as pool:
        jobs = [pool.submit(_look, stream, member, rows, old) for member in wheel.members]
        try:
            found = [job.result() for job in jobs]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return tuple(sorted(name for name in found if name is not None))


def _look(stream: WheelStream, member: WheelMember, rows: Mapping[str, RecordRow], old: str) -> str | None:
    digest, tail, mentioned = hashlib.sha256(), b"", False
    for piece in stream.inflated(member):
        digest.update(piece)
        if not mentioned:
            mentioned = mentions(tail + piece, old)
            tail = piece[-_OVERLAP:]
    _compare(stream.wheel, member, rows.get(member.name), digest.hexdigest())
    return member.name if mentioned else None


def _compare(wheel: Wheel, member: WheelMember, row: RecordRow | None, sha256: str) -> None:
    own = member.name == f"{wheel.dist_info}/RECORD"
    if row is None or (row.sha256 != sha256 and not own):
        raise IntegrityError(
            f"{member.name} in {wheel.path.name} does not match RECORD",
            where=wheel.path,
            next_step="the given wheel was already wrong, or the disk is damaged: check the given wheel",
        )
