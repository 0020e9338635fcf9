"""Wheels for the tests of gathering: written with zipfile, byte for byte as asked, and damaged by hand."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from wheels import pack, record_row

INFO = "demo-1.0.dist-info"
NAME = "demo-1.0-py3-none-linux_x86_64.whl"
METADATA = b"Metadata-Version: 2.4\nName: demo\nVersion: 1.0\n"
WHEEL = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n"


def write(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    stored: Iterable[str] = (),
    modes: Mapping[str, int] | None = None,
    record: str | None = None,
    metadata: bytes = METADATA,
    name: str = NAME,
) -> Path:
    """A wheel of these members, METADATA, WHEEL and a right RECORD; `record` replaces its rows."""
    members = {**files, f"{INFO}/METADATA": metadata, f"{INFO}/WHEEL": WHEEL}
    rows = "".join(record_row(*item) for item in members.items()) if record is None else record
    members[f"{INFO}/RECORD"] = f"{rows}{INFO}/RECORD,,\n".encode()
    return pack(folder / name, members, modes=modes, stored=list(stored))


def place(path: Path, member: str) -> tuple[int, int, int]:
    """Offsets of a member's entry in the directory, of its local header and of its bytes."""
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        header = archive.getinfo(member).header_offset
        entry = archive.start_dir
    sizes = struct.unpack_from("<HH", data, header + 26)
    while data[entry + 46 : entry + 46 + struct.unpack_from("<H", data, entry + 28)[0]] != member.encode():
        entry += 46 + sum(struct.unpack_from("<HHH", data, entry + 28))
    return entry, header, header + 30 + sum(sizes)


def put(path: Path, offset: int, data: bytes) -> Path:
    """Overwrite bytes of a file."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(data)
    return path


def flip(path: Path, offset: int) -> Path:
    """Change some bits of one byte."""
    with path.open("rb") as stream:
        stream.seek(offset)
        (byte,) = stream.read(1)
    return put(path, offset, bytes([byte ^ 0x55]))
