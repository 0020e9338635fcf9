"""Take a wheel apart, change one thing, put it together again: a second writer of the format.

What is not touched keeps its packed bytes. RECORD is made anew on saving, so that a change breaks nothing but
what it is meant to break; who wants RECORD itself wrong sets `rows`.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import struct
import subprocess
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

STORED, DEFLATED = 0, 8
ENCRYPTED, DESCRIPTOR, UTF8 = 0x1, 0x8, 0x800
FILE, LINK = 0o100000, 0o120000
_LOCAL, _CENTRAL, _END = "<4s5H3I2H", "<4s6H3I5H2I", "<4s4H2IH"
_UNIX = 3 << 8


@dataclass
class Part:
    """A member as it will be written: packed bytes, and what both headers say of them.

    One that `shares` is an entry of the directory alone, over the bytes of another member before it.
    """

    name: str | bytes
    method: int
    crc: int
    size: int
    packed: bytes
    flags: int = 0
    mode: int = FILE | 0o644
    offset: int = 0
    shares: Part | None = None

    @property
    def raw_name(self) -> bytes:
        return self.name if isinstance(self.name, bytes) else self.name.encode()

    @property
    def text_name(self) -> str:
        return self.name.decode("utf-8", "replace") if isinstance(self.name, bytes) else self.name

    @property
    def data(self) -> bytes:
        """Its bytes, inflated."""
        return self.packed if self.method == STORED else zlib.decompress(self.packed, -15)


def pack(name: str | bytes, data: bytes, method: int = DEFLATED, mode: int = FILE | 0o644) -> Part:
    """A member with these bytes."""
    squeezer = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = squeezer.compress(data) + squeezer.flush() if method == DEFLATED else data
    return Part(name, method, zlib.crc32(data), len(data), packed, mode=mode)


@dataclass
class WheelEdit:
    """A wheel in memory; `parts` in the order of its directory. Save it once."""

    path: Path
    parts: list[Part]
    info: str
    name: str = ""
    rows: list[list[str]] | None = None
    changed: dict[str, bytes | None] = field(default_factory=dict)

    # -- looking

    def part(self, name: str) -> Part:
        """The first member of that name; `{info}` stands for the dist-info directory."""
        wanted = name.format(info=self.info)
        return next(part for part in self.parts if part.name == wanted)

    def names(self) -> list[str]:
        return [part.text_name for part in self.parts]

    def read(self, name: str) -> bytes:
        return self.part(name).data

    # -- changing

    def put(self, name: str | bytes, data: bytes | str, *, method: int | None = None, mode: int = 0) -> Part:
        """Replace a member, keeping method and mode, or add one."""
        data = data.encode() if isinstance(data, str) else data
        if isinstance(name, str):
            name = name.format(info=self.info)
        old = next((part for part in self.parts if part.name == name), None)
        if old is None:
            new = pack(name, data, DEFLATED if method is None else method, mode or FILE | 0o644)
            # RECORD is the last member, by custom.
            self.parts.insert(len(self.parts) - 1, new)
        else:
            new = pack(name, data, old.method if method is None else method, mode or old.mode)
            self.parts[self.parts.index(old)] = new
        self.changed[new.text_name] = data
        return new

    def substitute(self, name: str, old: str, new: str, count: int = -1) -> None:
        """Replace text in a member; the text must be there."""
        text = self.read(name).decode()
        assert old in text, f"{name} does not contain {old!r}"
        self.put(name, text.replace(old, new, count))

    def add_lines(self, name: str, lines: str) -> None:
        """Put header lines in front of the empty line that ends the headers, or at the end."""
        head, gap, body = self.read(name).decode().partition("\n\n")
        self.put(name, head.rstrip("\n") + "\n" + lines.strip("\n") + (gap + body if gap else "\n"))

    def drop_lines(self, name: str, start: str) -> None:
        """Remove the lines that begin so; there must be one."""
        lines = self.read(name).decode().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(start)]
        assert len(kept) < len(lines), f"no line of {name} starts with {start!r}"
        self.put(name, "".join(kept))

    def remove(self, *names: str) -> None:
        for name in names:
            part = self.part(name)
            self.parts.remove(part)
            self.changed[part.text_name] = None

    def remove_below(self, prefix: str) -> None:
        """Remove all members whose name starts so; there must be one."""
        found = [name for name in self.names() if name.startswith(prefix.format(info=self.info))]
        assert found, f"nothing below {prefix}"
        self.remove(*found)

    def rename(self, old: str, new: str) -> None:
        part = self.part(old)
        data, self.changed[part.text_name] = part.data, None
        part.name = new.format(info=self.info)
        self.changed[part.text_name] = data

    def rename_below(self, old: str, new: str) -> None:
        """Move a whole directory."""
        for name in self.names():
            if name.startswith(old):
                self.rename(name, new + name[len(old) :])

    def run(self, name: str, *words: str) -> None:
        """Let a program change a member in place: its path is the last argument."""
        part = self.part(name)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / Path(name).name
            path.write_bytes(part.data)
            subprocess.run([*words, str(path)], check=True, capture_output=True)
            assert path.read_bytes() != part.data, f"{words} changed nothing in {name}"
            self.put(name, path.read_bytes())

    def retag(self, old: str, new: str) -> None:
        """Another tag, in the file's name and in WHEEL."""
        self.substitute("{info}/WHEEL", old, new)
        assert old in self.name
        self.name = self.name.replace(old, new)

    # -- writing

    def record(self) -> list[list[str]]:
        """RECORD's rows: the old ones, with those of changed members made anew."""
        if self.rows is None:
            listed = f"{self.info}/RECORD"
            old = list(csv.reader(self.read(listed).decode().splitlines()))
            kept = [row for row in old if row[0] != listed and row[0] not in self.changed]
            new = [row_of(name, data) for name, data in self.changed.items() if data is not None]
            self.rows = [*kept, *(row for row in new if row[0] != listed), [listed, "", ""]]
        return self.rows

    def save(self, folder: Path) -> Path:
        """Write the wheel below `folder`, which is made; gives its path."""
        rows = "".join(",".join(quoted(row)) + "\n" for row in self.record())
        if any(part.name == f"{self.info}/RECORD" for part in self.parts):
            self.put("{info}/RECORD", rows)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.name
        path.write_bytes(zip_of(self.parts))
        return path


def open_wheel(path: Path) -> WheelEdit:
    """Read a wheel; its members stay packed."""
    parts = []
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        for entry in archive.infolist():
            file.seek(entry.header_offset)
            *_, names, extra = struct.unpack(_LOCAL, file.read(30))
            file.seek(names + extra, 1)
            packed = file.read(entry.compress_size)
            mode, flags = entry.external_attr >> 16, entry.flag_bits
            parts.append(
                Part(entry.filename, entry.compress_type, entry.CRC, entry.file_size, packed, flags, mode)
            )
    (info,) = {
        part.text_name.split("/")[0] for part in parts if part.text_name.split("/")[0].endswith(".dist-info")
    }
    return WheelEdit(path, parts, info, path.name)


def row_of(name: str, data: bytes) -> list[str]:
    """A row of RECORD: digest in urlsafe base64 without its padding, and bytes."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [name, f"sha256={digest}", str(len(data))]


def quoted(row: Iterable[str]) -> list[str]:
    """A row with the quotes of CSV where they are needed."""
    return ['"' + cell.replace('"', '""') + '"' if set(cell) & set(',"\n\r') else cell for cell in row]


def zip_of(parts: Iterable[Part]) -> bytes:
    """The archive; a member's `offset` is set as it is written."""
    out, directory, count = bytearray(), bytearray(), 0
    for part in parts:
        name, count = part.raw_name, count + 1
        part.offset = len(out) if part.shares is None else part.shares.offset
        flags = part.flags | (UTF8 if isinstance(part.name, str) and not name.isascii() else 0)
        later = bool(flags & DESCRIPTOR)
        sizes = (part.crc, len(part.packed), part.size)
        shown = (0, 0, 0) if later else sizes
        if part.shares is None:
            out += struct.pack(_LOCAL, b"PK\3\4", 20, flags, part.method, 0, 0x21, *shown, len(name), 0)
            out += name + part.packed + (struct.pack("<4s3I", b"PK\7\10", *sizes) if later else b"")
        directory += struct.pack(
            _CENTRAL, b"PK\1\2", _UNIX | 20, 20, flags, part.method, 0, 0x21, *sizes, len(name), 0, 0, 0, 0,
            part.mode << 16, part.offset,
        ) + name  # fmt: skip
    end = struct.pack(_END, b"PK\5\6", 0, 0, count, count, len(directory), len(out), 0)
    return bytes(out + directory + end)


def rewritten(sdist: bytes, name: str, change: Callable[[bytes], bytes], more: bytes = b"") -> bytes:
    """An sdist with one file below its root changed, and with a further file of the bytes `more`."""
    out, found = io.BytesIO(), False
    with tarfile.open(fileobj=io.BytesIO(sdist)) as old, tarfile.open(fileobj=out, mode="w:gz") as new:
        for entry in old:
            stream = old.extractfile(entry)
            data = stream.read() if stream else b""
            if entry.name.partition("/")[2] == name:
                data, found = change(data), True
                entry.size = len(data)
            new.addfile(entry, io.BytesIO(data))
        if more:
            further = tarfile.TarInfo(f"{entry.name.partition('/')[0]}/further.bin")
            further.size = len(more)
            new.addfile(further, io.BytesIO(more))
    assert found, f"the sdist has no {name}"
    return out.getvalue()
