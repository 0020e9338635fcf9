"""Members read where they lie, out of archives that zipfile wrote and that were changed by hand."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import msgspec
import pytest

from rocwright.errors import InvalidWheel
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.read import Wheel, WheelMember, open_wheel
from rocwright.wheel.stream import opened

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

INFO = "demo-1.0.dist-info"
TEXT = b"".join(b"line %d of a text that compresses\n" % i for i in range(300_000))  # 11 MB
METADATA = Metadata("demo", "1.0")
NOISE = zlib.compress(TEXT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo/text", TEXT)
        archive.writestr("demo/noise", NOISE, zipfile.ZIP_STORED)
        archive.writestr("demo/empty", b"")
        archive.writestr("demo/grüße.txt", b"g")
        archive.writestr("demo/bzip2", TEXT, zipfile.ZIP_BZIP2)
        archive.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        archive.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{INFO}/RECORD", "")
    return path


def inflate(wheel: Wheel, member: WheelMember) -> list[bytes]:
    with opened(wheel) as stream:
        return list(stream.inflated(member))


def test_members_are_inflated_in_pieces(path: Path) -> None:
    wheel = open_wheel(path)
    for name, data in [
        ("demo/text", TEXT),
        ("demo/noise", NOISE),
        ("demo/empty", b""),
        ("demo/grüße.txt", b"g"),
    ]:
        pieces = inflate(wheel, wheel.member[name])
        assert b"".join(pieces) == data
        assert max(map(len, pieces), default=0) <= 4 << 20


def test_the_bytes_as_stored(path: Path) -> None:
    wheel = open_wheel(path)
    with opened(wheel) as stream:
        packed = stream.packed(wheel.member["demo/text"])
        assert zlib.decompress(packed.read_at(0, packed.size), -15) == TEXT
        assert packed.read_at(packed.size - 3, 100) == packed.read_at(0, packed.size)[-3:]
        assert packed.read_at(packed.size, 100) == b""


def test_a_member_longer_than_recorded_is_not_inflated_to_its_end(path: Path) -> None:
    wheel = open_wheel(path)
    member = msgspec.structs.replace(wheel.member["demo/text"], size=5 << 20)
    with opened(wheel) as stream:
        pieces = stream.inflated(member)
        assert len(next(pieces)) <= 5 << 20
        with pytest.raises(
            InvalidWheel, match=r"demo/text in demo-1.0.*: it is longer than the 5242880 bytes"
        ):
            list(pieces)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"size": len(TEXT) + 1}, "not what the archive records"),
        ({"crc": 1}, "not what the archive records"),
        ({"packed": 1000}, "do not end where they should"),
        ({"packed": 1 << 40}, "do not end where they should|ends inside"),
        ({"flags": 1}, "it is encrypted"),
        ({"method": 12}, "compression method 12"),
        ({"method": 0}, "longer than|not what the archive records"),
        ({"offset": 7}, "no header at offset 0x7"),
        ({"offset": 1 << 40}, "no header"),
        ({"name": "demo/other"}, "names another file"),
    ],
)
def test_a_directory_that_does_not_fit(change: dict[str, object], text: str, path: Path) -> None:
    wheel = open_wheel(path)
    member = msgspec.structs.replace(wheel.member["demo/text"], **change)
    with pytest.raises(InvalidWheel, match=text) as caught:
        inflate(wheel, member)
    assert member.name in str(caught.value) and path.name in str(caught.value)


def test_a_flipped_bit(path: Path) -> None:
    wheel = open_wheel(path)
    # The first bits of a deflate stream say how it goes on: without them it cannot be inflated at all.
    for name, where in (("demo/text", 0.5), ("demo/text", 0), ("demo/noise", 0.5)):
        member = wheel.member[name]
        data = bytearray(path.read_bytes())
        data[member.offset + 30 + len(name) + int(member.packed * where)] ^= 6
        changed = path.with_name(f"{name[-4:]}.whl")
        changed.write_bytes(data)
        with pytest.raises(InvalidWheel, match=rf"{name} in .* is damaged"):
            inflate(msgspec.structs.replace(wheel, path=changed), member)


@pytest.mark.parametrize("first", [1000, 1 << 20])
def test_more_bytes_behind_a_whole_stream(first: int, tmp_path: Path) -> None:
    # Where reading is cut into pieces of 1 MiB, the end of the stream may be the end of one.
    packer = zlib.compressobj(0, zlib.DEFLATED, -15)
    data = bytes(first - (5 if first == 1000 else 85))
    stream = packer.compress(data) + packer.flush()
    if first != 1000:
        data = data[: len(data) - (len(stream) - first)]
        packer = zlib.compressobj(0, zlib.DEFLATED, -15)
        stream = packer.compress(data) + packer.flush()
    assert len(stream) == first
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    header = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 8, 0, 0, 0, 0, 0, 1, 0)
    path.write_bytes(header + b"m" + stream + b"behind it" * 100)
    member = WheelMember("m", len(data), len(stream) + 900, zlib.crc32(data), 0, 8, 0, 0)
    wheel = Wheel(path, "demo", "1.0", None, frozenset(), "", (member,), METADATA, frozenset(), True, ())
    with pytest.raises(InvalidWheel, match="do not end where they should"):
        inflate(wheel, member)
    assert b"".join(inflate(wheel, msgspec.structs.replace(member, packed=len(stream)))) == data


def test_bytes_behind_the_compressed_ones(path: Path) -> None:
    data = bytearray(path.read_bytes())
    wheel = open_wheel(path)
    member = wheel.member["demo/text"]
    start = member.offset + 30 + len(member.name)
    # Shorter content in the same room: the stream ends before the member does.
    short = zlib.compressobj(9, zlib.DEFLATED, -15)
    stream = short.compress(TEXT[:1000]) + short.flush()
    data[start : start + len(stream)] = stream
    path.write_bytes(data)
    smaller = msgspec.structs.replace(member, size=1000, crc=zlib.crc32(TEXT[:1000]))
    with pytest.raises(InvalidWheel, match="do not end where they should"):
        inflate(wheel, smaller)


def test_names_as_older_tools_wrote_them(path: Path) -> None:
    # Without the flag for UTF-8 a name is in code page 437.
    data = bytearray(path.read_bytes())
    for magic, flags_at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        name_at = 30 if magic == b"PK\3\4" else 46
        at = data.find(magic)
        while at >= 0:
            if data[at + name_at :].startswith("demo/grüße".encode()):
                struct.pack_into("<H", data, at + flags_at, 0)
            at = data.find(magic, at + 4)
    path.write_bytes(data)
    wheel = open_wheel(path)
    (name,) = (name for name in wheel.member if name.startswith("demo/gr"))
    assert name == "demo/gr├╝├ƒe.txt"
    assert inflate(wheel, wheel.member[name]) == [b"g"]
