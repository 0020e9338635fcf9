"""Look through a wheel once: verify every member, set aside the libraries with device code, place databases.

Libraries with device code wait in memory, or in files without a name beside the output when they are large;
nothing else of the wheel is kept.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import msgspec

from rocwright.binary import elf as fmt
from rocwright.binary.elf import read_elf
from rocwright.binary.view import Mapped, spooled
from rocwright.data import load_table
from rocwright.device_code.fatbin import SECTION
from rocwright.device_code.host import MARKER_SECTION
from rocwright.errors import InvalidElf, InvalidWheel
from rocwright.model.device_files import DeviceFile, DeviceFiles, Unplaced, classify, known_targets
from rocwright.model.gpu import Families
from rocwright.system.parallel import in_order
from rocwright.system.progress import Count, counted
from rocwright.wheel.metadata import RecordRow
from rocwright.wheel.read import Wheel, WheelMember
from rocwright.wheel.stream import WheelStream

_IN_MEMORY = 32 << 20  # libraries with device code, all together; what is above lies in files
_WINDOW = 64 << 20
_EM_AMDGPU = 224
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")
# A PE file names its sections in its first page.
_PE_SECTION = b".hip_fat"
_PE_HEAD = 4096


class Scan(msgspec.Struct):
    """What a wheel holds.

    `digests` are the hex sha256 of all members. `fat` are libraries with device code, `further` those whose
    state only planning tells (split already, without section headers). `kept` and `unplaced` map a member to
    the reason why it stays in the host.
    """

    digests: dict[str, str] = msgspec.field(default_factory=dict)
    fat: dict[str, Mapped] = msgspec.field(default_factory=dict)
    further: dict[str, Mapped] = msgspec.field(default_factory=dict)
    databases: dict[str, DeviceFile] = msgspec.field(default_factory=dict)
    kept: dict[str, str] = msgspec.field(default_factory=dict)
    unplaced: dict[str, str] = msgspec.field(default_factory=dict)
    undigested: int = 0


def scan_wheel(source: WheelStream, directory: Path, *, threads: int = 2) -> Scan:
    """Read every member once, on several threads; files without a name go to the file system of `directory`.

    Raises `InvalidWheel` when a member is damaged, differs from its row in RECORD, or has none;
    `InvalidElf` for a damaged library with device code.
    """
    scan = Scan()
    _place(source.wheel, scan)
    rows = _rows(source.wheel)
    jobs = ((member, min(member.size, _WINDOW // 2)) for member in source.wheel.members)
    total = sum(member.size for member in source.wheel.members)
    with counted("verifying", total) as count:
        reader = _Reader(source, rows, directory, scan, count)
        with closing(in_order(reader, jobs, threads=threads, window=_WINDOW)) as done:
            for read in done:
                _sort_in(read, scan, reader)
    return scan


def _place(wheel: Wheel, scan: Scan) -> None:
    """What the names of members tell, before any is opened."""
    table = load_table("device_files", DeviceFiles)
    targets = known_targets(table, load_table("families", Families))
    for member in wheel.members:
        found = classify(member.name, table, targets)
        if isinstance(found, Unplaced):
            scan.unplaced[member.name] = f"{found.handler}: {found.word} {found.reason}"
        elif found is not None and in_data(member.name):
            scan.unplaced[member.name] = "it lies in the wheel's .data directory, which installers move"
        elif found is not None:
            scan.databases[member.name] = found


def in_data(name: str) -> bool:
    """Whether installers put a member somewhere else than its name says."""
    return name.partition("/")[0].endswith(".data")


def _rows(wheel: Wheel) -> dict[str, RecordRow]:
    """RECORD by path; raises `InvalidWheel` unless it lists exactly the members."""
    rows: dict[str, RecordRow] = {}
    for row in wheel.record:
        if row.path in rows:
            raise _wrong(wheel, row.path, "RECORD lists it twice")
        if row.path not in wheel.member and row.path != f"{wheel.dist_info}/RECORD":
            raise _wrong(wheel, row.path, "RECORD lists it, but it is not there")
        rows[row.path] = row
    unhashed = {f"{wheel.dist_info}/{name}" for name in _UNHASHED}
    for member in wheel.members:
        if member.name not in rows and member.name not in unhashed:
            raise _wrong(wheel, member.name, "RECORD does not list it")
    return rows


def _wrong(wheel: Wheel, name: str, what: str) -> InvalidWheel:
    return InvalidWheel(
        f"{name} in {wheel.path.name}: {what}",
        where=wheel.path,
        next_step="download or build the wheel again; rocwright check lists everything that is wrong",
    )


class _Read(msgspec.Struct, frozen=True):
    """A member that was read: `file` where it is a library with device code."""

    member: WheelMember
    sha256: str
    digested: bool
    file: Mapped | None
    fat: bool
    kept: str | None
    unplaced: str | None


def _sort_in(read: _Read, scan: Scan, reader: _Reader) -> None:
    name = read.member.name
    scan.digests[name] = read.sha256
    scan.undigested += not read.digested
    if read.kept is not None:
        scan.kept[name] = read.kept
    if read.unplaced is not None:
        scan.unplaced[name] = read.unplaced
    if read.file is not None:
        (scan.fat if read.fat else scan.further)[name] = read.file
        if isinstance(read.file.data, bytes):
            reader.held += read.file.size


class _Reader:
    """Inflates, digests and looks at one member; runs on any thread."""

    def __init__(
        self, source: WheelStream, rows: dict[str, RecordRow], directory: Path, scan: Scan, count: Count
    ) -> None:
        self.source, self.rows, self.directory, self.count = source, rows, directory, count
        self.whole = scan.databases.keys() | scan.unplaced.keys()
        self.held = 0

    def __call__(self, member: WheelMember) -> _Read:
        pieces = self._counted(member)
        head = next(pieces, b"")
        library = head[: len(fmt.MAGIC)] == fmt.MAGIC and member.name not in self.whole
        code = library and int.from_bytes(head[18:20], "little") == _EM_AMDGPU
        sha256, file = self._take(member, chain((head,), pieces), spool=library and not code)
        digested = self._compare(member, sha256)
        fat = None if file is None else _device_code(file)
        kept = unplaced = None
        if head[:2] == b"MZ" and _PE_SECTION in head[:_PE_HEAD]:
            kept = "device code in Windows libraries is not split"
        elif fat and in_data(member.name):
            kept, fat = "it lies in the wheel's .data directory, which installers move", None
        elif code:
            unplaced = "it is a separate file of device code, of an unknown kind"
        return _Read(member, sha256, digested, None if fat is None else file, bool(fat), kept, unplaced)

    def _counted(self, member: WheelMember) -> Iterator[bytes]:
        for piece in self.source.inflated(member):
            self.count.add(len(piece))
            yield piece

    def _take(
        self, member: WheelMember, pieces: Iterator[bytes], *, spool: bool
    ) -> tuple[str, Mapped | None]:
        """The sha256 of a member, and with `spool` its bytes."""
        digest = hashlib.sha256()
        if not spool:
            for piece in pieces:
                digest.update(piece)
            return digest.hexdigest(), None
        path = self.source.wheel.path / member.name
        seen = _seen(pieces, digest.update)
        if self.held + member.size <= _IN_MEMORY:
            memory = io.BytesIO()
            memory.writelines(seen)
            file = Mapped(path, memory.getvalue())
        else:
            file = spooled(path, seen, self.directory)
        return digest.hexdigest(), file

    def _compare(self, member: WheelMember, sha256: str) -> bool:
        """Whether RECORD has a digest for the member, which then is right."""
        row = self.rows.get(member.name)
        wheel = self.source.wheel
        if row is None or member.name == f"{wheel.dist_info}/RECORD":
            return True
        if row.size is not None and row.size != member.size:
            raise _wrong(wheel, member.name, f"it has {member.size} bytes, RECORD says {row.size}")
        if row.sha256 is not None and row.sha256 != sha256:
            raise _wrong(wheel, member.name, f"its sha256 is {sha256}, RECORD says {row.sha256}")
        return row.sha256 is not None


def _seen(pieces: Iterator[bytes], see: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        see(piece)
        yield piece


def _device_code(file: Mapped) -> bool | None:
    """True for a library with device code, None for one without, False where only planning tells.

    Raises `InvalidElf` for a damaged library, unless nothing in it speaks of device code.
    """
    try:
        elf = read_elf(file)
    except InvalidElf:
        if file.data.find(SECTION.encode()) < 0:
            return None
        raise
    if MARKER_SECTION in elf.sections or not elf.section_table:
        return False
    fat = elf.sections.get(SECTION)
    return True if fat is not None and fat.size else None
