"""Check archives: what their tables claim, and that all code in them unpacks and is for their target."""

from __future__ import annotations

import threading
from collections import defaultdict
from functools import cached_property

import msgspec
import zstandard

from rocwright.binary.view import Mapped
from rocwright.device_code.kernels import defined_kernels
from rocwright.device_code.kpack import PLAIN, SUFFIX, Archive, Entry, read_archive
from rocwright.device_code.source import Source
from rocwright.device_code.verify.launches import Kernels
from rocwright.device_code.verify.report import FindingLog
from rocwright.errors import InvalidInput
from rocwright.model.gpu import Target, is_target, parse_target
from rocwright.model.machines import HEADER_SIZE, Machines, mismatch

# What a thread unpacks at a time; any real code object at once.
_BUFFER = 32 << 20
_RESERVED = slice(16, 64)
_TABLE_AT = slice(8, 16)


class Shelf(msgspec.Struct, frozen=True, dict=True):
    """A readable archive: its one target, and its entries by ordinal."""

    source: Source
    archive: Archive
    target: str

    @cached_property
    def by_ordinal(self) -> dict[int, list[Entry]]:
        """Entries that share a stored code object."""
        found: defaultdict[int, list[Entry]] = defaultdict(list)
        for entry in self.archive.entries:
            found[entry.ordinal].append(entry)
        return dict(found)

    @cached_property
    def parsed(self) -> Target:
        """The target as a value."""
        return parse_target(self.target)

    @cached_property
    def by_library(self) -> dict[str, list[Entry]]:
        """Entries of each library that it has code of, by the library's name."""
        found: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self.archive.entries:
            found[entry.kernel].append(entry)
        return dict(found)


def read_shelf(source: Source, log: FindingLog) -> Shelf | None:
    """An archive with everything wrong in its table reported; None when it cannot be used."""
    try:
        archive = read_archive(source.open())
    except InvalidInput as error:
        log.add("kpack-archive", source.name, error.what)
        return None
    if len(archive.targets) != 1 or not is_target(archive.targets[0]):
        said = ", ".join(archive.targets) or "no target"
        log.add("kpack-archive", source.name, f"it must be for one target, but is for {said}")
        return None
    shelf = Shelf(source, archive, archive.targets[0])
    for rule, cause in _faults(shelf):
        log.add(rule, source.name, cause)
    return shelf


def _faults(shelf: Shelf) -> list[tuple[str, str]]:
    archive, target = shelf.archive, shelf.target
    found = []
    head = archive.file.read_at(0, _RESERVED.stop)
    if any(head[_RESERVED]):
        found.append(("kpack-archive", "bytes 16 to 64 of its header are not zero"))
    if not shelf.source.installed.endswith(f"_{target}{SUFFIX}"):
        found.append(("kpack-name", f"it is for {target}, but its name does not end in _{target}{SUFFIX}"))
    foreign = sorted({entry.target for entry in archive.entries} - {target})
    if foreign:
        found.append(("kpack-archive", f"it is for {target} and has entries for {', '.join(foreign)}"))
    unused = len(archive.blobs) - len(shelf.by_ordinal)
    if unused:
        found.append(("kpack-unused", f"{unused} of its {len(archive.blobs)} code objects have no entry"))
    keys = [(entry.kernel, entry.index, entry.target) for entry in archive.entries]
    if len(set(keys)) < len(keys):
        found.append(("kpack-archive", "its table has a key twice"))
    found += [("kpack-archive", f"{label(entry)} is empty") for entry in archive.entries if not entry.size]
    return found + _gaps(archive, int.from_bytes(head[_TABLE_AT], "little"))


def _gaps(archive: Archive, table_at: int) -> list[tuple[str, str]]:
    """Blobs must not share bytes, and nothing may lie between the last one and the table."""
    place = 0
    for offset, size in sorted(archive.blobs):
        if offset < place:
            return [("kpack-archive", f"two code objects share the bytes at {offset:#x}")]
        place = offset + size
    if archive.blobs and place != table_at:
        return [("kpack-archive", f"{table_at - place} bytes before its table belong to nothing")]
    return []


def label(entry: Entry) -> str:
    """How findings call an entry."""
    return f"{entry.kernel}#{entry.index} for {entry.target}"


# Code objects.


class UnpackJob(msgspec.Struct, frozen=True):
    """A stored code object to unpack, with the original's bytes when there is one to compare with.

    `entries` are those that are compared: all have the same size.
    """

    shelf: Shelf
    ordinal: int
    entries: tuple[Entry, ...]
    expected: memoryview | None = None


class UnpackOutcome(msgspec.Struct):
    """What came of a job: rule, file and cause of what is wrong; bytes unpacked; entries proven identical.

    `kernels` are told where the archive does not name the build that its code is of.
    """

    faults: list[tuple[str, str, str]] = msgspec.field(default_factory=list)
    unpacked: int = 0
    identical: int = 0
    kernels: Kernels = msgspec.field(default_factory=dict)


class Unpacker:
    """Unpacks and judges one code object; runs on any thread, in a buffer that each uses again."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.tools = threading.local()

    def __call__(self, job: UnpackJob | None) -> UnpackOutcome:
        """The outcome of a job; of None, nothing."""
        outcome = UnpackOutcome()
        if job is None:
            return outcome
        entry = job.entries[0]

        def fault(rule: str, cause: str) -> None:
            outcome.faults.append((rule, job.shelf.source.name, f"{label(entry)} {cause}"))

        try:
            head, same, outcome.kernels = self._read(job, entry.size)
        except _Damaged as damage:
            fault("kpack-code", str(damage))
            return outcome
        outcome.unpacked = entry.size
        wrong = self._wrong(head, job.shelf.parsed, entry)
        if wrong is not None:
            fault("kpack-machine", f"is code for another target: {wrong}")
        if job.expected is not None and same:
            outcome.identical = len(job.entries)
        elif job.expected is not None:
            fault("kpack-differs", "is not the original's code object")
        return outcome

    def _wrong(self, head: bytes, target: Target, entry: Entry) -> str | None:
        """Why code with this header is not for an archive's target, or for the one that it was built for.

        Code for fewer features may be repeated in a more specific archive; its entry says where it is from.
        """
        origin = (entry.id or "").rpartition("--")[2]
        built = parse_target(origin) if is_target(origin) else target
        if built.base != target.base or not set(built.features) <= set(target.features):
            return f"it was built for {origin}"
        return mismatch(head, built, self.machines)

    def _read(self, job: UnpackJob, size: int) -> tuple[bytes, bool, Kernels]:
        """The first bytes of a code object, whether all of it equals what is expected, and its kernels."""
        offset, packed = job.shelf.archive.blobs[job.ordinal]
        blob = job.shelf.archive.file.slice(offset, packed)
        expected = job.expected
        same = expected is None or len(expected) == size
        if job.shelf.archive.scheme == PLAIN:
            if packed != size:
                raise _Damaged(f"has {packed} bytes, its entry says {size}")
            same = same and (expected is None or bytes(blob) == expected)
            return bytes(blob[:HEADER_SIZE]), same, _kernels(job, blob)
        try:
            head, same = self._unpack(blob, size, expected if same else None, same)
        except (zstandard.ZstdError, MemoryError) as error:
            raise _Damaged(f"cannot be unpacked: {error}") from error
        return head, same, _kernels(job, memoryview(self.tools.buffer)[:size] if size <= _BUFFER else None)

    def _unpack(
        self, blob: memoryview, size: int, expected: memoryview | None, same: bool
    ) -> tuple[bytes, bool]:
        buffer = self._room(min(size, _BUFFER))
        head, done = b"", 0
        # The runtime takes several frames in a row for one.
        with zstandard.ZstdDecompressor().stream_reader(blob, read_across_frames=True) as stream:
            while done < size:
                got = stream.readinto(memoryview(buffer)[: min(size - done, len(buffer))])
                if not got:
                    raise _Damaged(f"unpacks to {done} bytes, its entry says {size}")
                if len(head) < HEADER_SIZE:
                    head += bytes(buffer[: min(got, HEADER_SIZE - len(head))])
                # startswith compares any buffer without copying it.
                same = same and (expected is None or buffer.startswith(expected[done : done + got]))
                done += got
            if stream.read(1):
                raise _Damaged(f"unpacks to more than the {size} bytes that its entry says")
        return head, same

    def _room(self, size: int) -> bytearray:
        if not hasattr(self.tools, "buffer") or len(self.tools.buffer) < size:
            self.tools.buffer = bytearray(size)
        buffer: bytearray = self.tools.buffer
        return buffer


def _kernels(job: UnpackJob, code: memoryview | None) -> Kernels:
    """What the code of libraries defines whose build the archive does not name."""
    shelf = job.shelf
    unnamed = [entry for entry in job.entries if entry.kernel not in shelf.archive.builds]
    if not unnamed:
        return {}
    names = defined_kernels(Mapped(shelf.source.path, bytes(code))) if code is not None else None
    return {(shelf.source.name, entry.kernel, entry.index): names or None for entry in unnamed}


class _Damaged(Exception):
    """A code object that cannot be had; the text says why."""
