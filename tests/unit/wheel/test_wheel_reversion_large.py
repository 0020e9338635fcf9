"""Wheels beyond 4 GiB and beyond 65,535 members: offsets and sizes in their 64-bit forms, by sparse files."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from rocwright.wheel.reversion.directory import read_archive
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.rewrite import Edits, rewrite
from rocwright.wheel.reversion.values import WheelEdits
from rocwright.wheel.reversion.versions import parse_rule
from rocwright.wheel.reversion.write import write_wheel
from unit.wheel.test_wheel_reversion_files import INFO, NEW, NEW_INFO, OLD, TAG, files_of
from wheels import record_digest

GIB = 1 << 30
SIZE = 5 * GIB


def crc_of_zeros(length: int) -> int:
    """CRC of that many zeros, from that of 1 MiB at a time."""
    block, crc = bytes(1 << 20), 0
    for _ in range(length >> 20):
        crc = zlib.crc32(block, crc)
    return crc


@pytest.mark.slow
def test_a_member_of_5_gib_and_what_lies_behind_it(tmp_path: Path) -> None:
    source = tmp_path / f"torch-{OLD}-{TAG}.whl"
    crc = crc_of_zeros(SIZE)
    members = files_of("torch", OLD, {"torch/version.py": f"v = '{OLD}'\n".encode()})
    row = f"torch/lib/large.so,{record_digest(b'claimed')},{SIZE}\n".encode()
    members[f"{INFO}/RECORD"] = row + members[f"{INFO}/RECORD"]
    with source.open("wb") as stream:
        # By hand, so that its zeros are a hole: zipfile would write them.
        extra = struct.pack("<HHQQ", 1, 16, SIZE, SIZE)
        name = b"torch/lib/large.so"
        head = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 45, 0, 0, 0, 33, crc, 2**32 - 1, 2**32 - 1, 18, 20)
        stream.write(head + name + extra)
        stream.seek(SIZE, 1)
        offset = stream.tell()
        stream.truncate()
        small = tmp_path / "small.zip"
        with zipfile.ZipFile(small, "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)
            directory = archive.start_dir
        raw = small.read_bytes()
        stream.write(raw[:directory])
        records = [
            struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 0x32D, 45, 0, 0, 0, 33, crc, 2**32 - 1, 2**32 - 1,
                        18, 20, 0, 0, 0, 0o100644 << 16, 0) + name + extra
        ]  # fmt: skip
        at = directory
        while raw[at : at + 4] == b"PK\1\2":
            names = struct.unpack_from("<H", raw, at + 28)[0]
            far = offset + struct.unpack_from("<I", raw, at + 42)[0]
            record = bytearray(raw[at : at + 46 + names])
            struct.pack_into("<H", record, 30, 12)
            struct.pack_into("<I", record, 42, 2**32 - 1)
            records.append(bytes(record) + struct.pack("<HHQ", 1, 8, far))
            at += 46 + names
        start, length = stream.tell(), sum(map(len, records))
        stream.write(b"".join(records))
        stream.write(
            struct.pack(
                "<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, len(records), len(records), length, start
            )
        )
        stream.write(struct.pack("<4sIQI", b"PK\6\7", 0, start + length, 1))
        stream.write(
            struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, len(records), len(records), length, 2**32 - 1, 0)
        )
    with zipfile.ZipFile(source) as archive:
        assert archive.getinfo("torch/lib/large.so").file_size == SIZE

    plan = plan_reversion([source], parse_rule("release"))
    work = plan.files[0].work
    assert isinstance(work, WheelEdits)
    # The first piece is the large member with its header; its zeros need not be copied to see the rest.
    assert work.pieces[0] == (0, offset)
    made = tmp_path / "made.whl"
    with source.open("rb") as old, made.open("wb") as new:
        new.write(old.read(66))
        new.seek(offset)
        for piece in work.pieces[1:]:
            if isinstance(piece, tuple):
                old.seek(piece[0])
                piece = old.read(piece[1] - piece[0])
            new.write(piece)
    with zipfile.ZipFile(made) as archive:
        large = archive.getinfo("torch/lib/large.so")
        assert (large.file_size, large.compress_size, large.header_offset, large.CRC) == (SIZE, SIZE, 0, crc)
        assert archive.read("torch/version.py") == f"v = '{NEW}'\n".encode()
        assert archive.read(f"{NEW_INFO}/RECORD").startswith(row)
        assert archive.getinfo(f"{NEW_INFO}/RECORD").header_offset > SIZE
    assert len(read_archive(made).entries) == 5


@pytest.mark.slow
def test_members_beyond_65535(tmp_path: Path) -> None:
    source = tmp_path / "many.zip"
    with zipfile.ZipFile(source, "w") as archive:
        for number in range(66_000):
            archive.writestr(zipfile.ZipInfo(f"n{number}"), b"")
    old = read_archive(source)
    assert len(old.entries) == 66_000
    edits = Edits({"n7": "renamed"}, {}, ("n8",))
    made = tmp_path / "made.zip"
    with made.open("wb") as stream:
        write_wheel(WheelEdits(old, rewrite(old, edits)), stream)
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        assert (len(names), names[7], names[8]) == (65_999, "renamed", "n9")
        assert archive.testzip() is None


def test_an_offset_that_moves_beyond_4_gib_gets_its_64_bit_form(tmp_path: Path) -> None:
    """A member right below 4 GiB is pushed over it by a longer name in front."""
    source = tmp_path / "edge.zip"
    body = 2**32 - 1 - 30 - 1 - 30 - 1 - 1  # the second member then begins at 4 GiB - 2 - 30 …
    with source.open("wb") as stream:
        stream.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 33, 0, body, body, 1, 0) + b"a")
        stream.seek(body, 1)
        second = stream.tell()
        stream.write(struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 1, 0) + b"b")
        start = stream.tell()
        for name, size, offset in ((b"a", body, 0), (b"b", 0, second)):
            stream.write(
                struct.pack(
                    "<4sHHHHHHIIIHHHHHII",
                    b"PK\1\2",
                    20,
                    20,
                    0,
                    0,
                    0,
                    33,
                    0,
                    size,
                    size,
                    1,
                    0,
                    0,
                    0,
                    0,
                    0,
                    offset,
                )
                + name
            )
        stream.write(struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 2, 2, 94, start, 0))
    old = read_archive(source)
    pieces = rewrite(old, Edits({"a": "a" * 60}, {}, ()))
    assert [type(piece) for piece in pieces] == [bytes, tuple, tuple, bytes]
    directory = pieces[-1]
    assert isinstance(directory, bytes)
    at = directory.index(b"PK\1\2", 4)
    assert struct.unpack_from("<I", directory, at + 42)[0] == 2**32 - 1
    assert directory[at + 46 : at + 59] == b"b" + struct.pack("<HHQ", 1, 8, second + 59)
    assert b"PK\6\6" in directory
