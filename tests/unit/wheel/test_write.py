"""Written wheels, judged by zipfile, struct and hashlib."""

from __future__ import annotations

import base64
import csv
import errno
import hashlib
import io
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

import rocwright.wheel.archive as archive_module
from rocwright.errors import InvalidInput, NoSpace
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.read import open_wheel, verify_record
from rocwright.wheel.write import (
    BytesSource,
    FileSource,
    Member,
    Taken,
    WheelPlan,
    write_members,
    write_wheel,
)

NOISE = random.Random(1).randbytes(300_000)
TEXT = b"".join(b"line %d of a text that compresses\n" % i for i in range(300_000))  # 11 MB, three blocks


@dataclass(frozen=True)
class Zeros:
    """Bytes that exist only when read; remembers the largest read."""

    size: int
    largest: list[int]

    def read_at(self, offset: int, length: int) -> bytes:
        self.largest.append(length)
        return bytes(min(length, self.size - offset))


def plan(*members: Member, **fields: object) -> WheelPlan:
    fields = {"name": "Demo.Package", "version": "1.0+rocm7", **fields}
    metadata = Metadata(str(fields["name"]), str(fields["version"]), summary="A demo")
    return WheelPlan(metadata=metadata, members=members, **fields)


def usual() -> WheelPlan:
    return plan(
        Member("demo/z.txt", BytesSource(TEXT)),
        Member("demo/noise", BytesSource(NOISE)),
        Member("demo/__init__.py", BytesSource(b"")),
        Member("demo/bin/tool", BytesSource(b"#!/bin/sh\n" * 50), executable=True),
        Member("demo/a.kpack", BytesSource(b"k" * 1000)),
        Member("demo/stored.txt", BytesSource(b"s" * 1000), compress=False),
        Member("demo/grüße.txt", BytesSource("grüße".encode() * 99)),
        entry_points={"console_scripts": {"demo": "demo:main"}},
    )


def local_headers(path: Path) -> dict[str, tuple[int, ...]]:
    """name → (flags, method, time, date, crc, packed, size) of each local header, 64-bit sizes resolved."""
    data = path.read_bytes()
    found = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            magic, needed, flags, method, clock, date, crc, packed, size, name_size, extra = (
                struct.unpack_from("<4sHHHHHIIIHH", data, info.header_offset)
            )
            assert (magic, needed) == (b"PK\3\4", 45 if size == 0xFFFFFFFF else 20)
            start = info.header_offset + 30
            name = data[start : start + name_size].decode()
            if size == 0xFFFFFFFF and extra:
                kind, length, size, packed = struct.unpack_from("<HHQQ", data, start + name_size)
                assert (kind, length, extra) == (1, 16, 20)
            found[name] = (flags, method, clock, date, crc, packed, size)
    return found


def test_names_order_modes_and_content(tmp_path: Path) -> None:
    written = write_wheel(usual(), tmp_path)
    assert written.path == tmp_path / "demo_package-1.0+rocm7-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(written.path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "demo/__init__.py",
            "demo/a.kpack",
            "demo/bin/tool",
            "demo/grüße.txt",
            "demo/noise",
            "demo/stored.txt",
            "demo/z.txt",
            "demo_package-1.0+rocm7.dist-info/METADATA",
            "demo_package-1.0+rocm7.dist-info/WHEEL",
            "demo_package-1.0+rocm7.dist-info/entry_points.txt",
            "demo_package-1.0+rocm7.dist-info/RECORD",
        ]
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert modes.pop("demo/bin/tool") == 0o100755
        assert set(modes.values()) == {0o100644}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        methods = {info.filename: info.compress_type for info in archive.infolist()}
        stored = {name for name, method in methods.items() if method == 0 and "dist-info" not in name}
        assert stored == {"demo/__init__.py", "demo/a.kpack", "demo/noise", "demo/stored.txt"}
        assert archive.read("demo/z.txt") == TEXT
        assert archive.read("demo/noise") == NOISE
        assert archive.getinfo("demo/z.txt").compress_size < len(TEXT) / 5
        assert archive.read("demo_package-1.0+rocm7.dist-info/WHEEL").decode().splitlines() == [
            "Wheel-Version: 1.0",
            "Generator: rocwright 0.1.0",
            "Root-Is-Purelib: false",
            "Tag: py3-none-linux_x86_64",
        ]
        points = archive.read("demo_package-1.0+rocm7.dist-info/entry_points.txt")
        assert points == b"[console_scripts]\ndemo = demo:main\n"
    data = written.path.read_bytes()
    assert (written.sha256, written.size) == (hashlib.sha256(data).hexdigest(), len(data))
    checked = subprocess.run(
        [sys.executable, "-m", "zipfile", "-t", str(written.path)], capture_output=True, text=True
    )
    assert "Done testing" in checked.stdout and "bad" not in checked.stdout.lower()


def test_record_lists_every_member_with_its_digest(tmp_path: Path) -> None:
    written = write_wheel(usual(), tmp_path)
    with zipfile.ZipFile(written.path) as archive:
        record = archive.read("demo_package-1.0+rocm7.dist-info/RECORD").decode()
        rows = list(csv.reader(io.StringIO(record)))
        assert [row[0] for row in rows] == archive.namelist()
        assert rows[-1][1:] == ["", ""]
        for name, digest, size in rows[:-1]:
            content = archive.read(name)
            assert int(size) == len(content)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert digest == f"sha256={expected}"
        assert written.stored_bytes == sum(info.file_size for info in archive.infolist())


def test_local_headers_say_what_the_directory_says(tmp_path: Path) -> None:
    path = write_wheel(usual(), tmp_path).path
    local = local_headers(path)
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            flags, method, clock, date, crc, packed, size = local[info.filename]
            assert not flags & 0x8, "a data descriptor"
            assert bool(flags & 0x800) == (not info.filename.isascii())
            assert (flags, method, crc, packed, size) == (
                info.flag_bits, info.compress_type, info.CRC, info.compress_size, info.file_size,
            )  # fmt: skip
            assert (clock, date) == (0, 0x21)


def test_the_bytes_depend_neither_on_threads_nor_on_the_order_of_members(tmp_path: Path) -> None:
    first = usual()
    other = plan(*reversed(first.members), entry_points=first.entry_points)
    digests = {
        write_wheel(one, tmp_path / str(number), threads=threads).sha256
        for number, (one, threads) in enumerate([(first, 1), (first, 2), (first, 7), (other, 3)])
    }
    assert len(digests) == 1


def test_large_members_are_read_in_blocks(tmp_path: Path) -> None:
    source = Zeros(200 << 20, [])
    written = write_wheel(plan(Member("demo/zeros", source)), tmp_path, compression="fast")
    assert max(source.largest) == 4 << 20
    assert written.size < 2 << 20
    with zipfile.ZipFile(written.path) as archive:
        assert archive.testzip() is None


def test_a_large_member_that_does_not_compress_is_stored(tmp_path: Path) -> None:
    noise = random.Random(2).randbytes(9 << 20)
    path = write_wheel(plan(Member("demo/noise.bin", BytesSource(noise))), tmp_path).path
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("demo/noise.bin")
        assert (info.compress_type, info.compress_size) == (zipfile.ZIP_STORED, len(noise))
        assert archive.read(info) == noise


def test_64_bit_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 64-bit form, with the limits lowered: zipfile follows the markers, not the sizes."""
    monkeypatch.setattr(archive_module, "_LARGE", 100_000)
    path = write_wheel(usual(), tmp_path).path
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.read("demo/z.txt") == TEXT
        assert archive.getinfo("demo/z.txt").extract_version == 45
        local = local_headers(path)["demo/z.txt"]
        info = archive.getinfo("demo/z.txt")
        assert local[5:] == (info.compress_size, info.file_size)


def test_a_local_header_of_64_bits_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sizes stand in the extra field and not in front of it: APPNOTE.TXT 4.3.9.2, 4.4.8 and 4.5.3."""
    monkeypatch.setattr(archive_module, "_LARGE", 5)
    path = tmp_path / "a.zip"
    with path.open("wb") as stream:
        writer = archive_module.ZipWriter(stream)
        writer.add(
            "a", b"\x4b\x4c\x4a\x4e\x49\x4d\x03\x00", crc=0x4B8E39EF, size=6, deflated=True, mode=0o644
        )
        writer.add("b", b"1234", crc=0x9BE3E0A3, size=4, deflated=False, mode=0o644)
        begun = writer.begin("c", size=9, deflated=False, mode=0o644)
        stream.write(b"123456789")
        writer.finish(begun, crc=0xCBF43926, packed=9)
        writer.close()
    full = b"\xff" * 8
    deflated = (
        b"PK\x03\x04\x2d\x00\x00\x00\x08\x00\x00\x00\x21\x00\xef\x39\x8e\x4b"
        + full
        + b"\x01\x00\x14\x00a"
        + b"\x01\x00\x10\x00\x06\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00"
    )
    narrow = (
        b"PK\x03\x04\x14\x00\x00\x00\x00\x00\x00\x00\x21\x00\xa3\xe0\xe3\x9b"
        b"\x04\x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00b"
    )
    stored = (
        b"PK\x03\x04\x2d\x00\x00\x00\x00\x00\x00\x00\x21\x00\x26\x39\xf4\xcb"
        + full
        + b"\x01\x00\x14\x00c"
        + b"\x01\x00\x10\x00\x09\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00"
    )
    data = path.read_bytes()
    a, b = 0, len(deflated) + 8
    c = b + len(narrow) + 4
    assert data[a : a + len(deflated)] == deflated
    assert data[b : b + len(narrow)] == narrow
    assert data[c : c + len(stored)] == stored
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        found = [(info.header_offset, info.compress_size, info.file_size) for info in archive.infolist()]
        assert found == [(a, 8, 6), (b, 4, 4), (c, 9, 9)]


@pytest.mark.slow
def test_more_members_than_16_bits_can_count(tmp_path: Path) -> None:
    members = [Member(f"demo/{number}", BytesSource(b"")) for number in range(66_000)]
    path = write_wheel(plan(*members), tmp_path).path
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 66_003
        assert archive.read("demo_package-1.0+rocm7.dist-info/METADATA").startswith(
            b"Metadata-Version: 2.4\n"
        )


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../x", "a/../b", "a\\b", "C:/x", "c:x", "a//b", "./a", "a/", "", "a\nb", "a\0b"]
)
def test_names_that_leave_the_wheel_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        write_wheel(plan(Member(name, BytesSource(b""))), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a/b", "a/b"), "twice"),
        (("a", "a/b"), "file and the directory"),
        (("demo_package-1.0+rocm7.dist-info/METADATA",), "twice"),
        (("demo_package-1.0+rocm7.dist-info/RECORD",), "twice"),
    ],
)
def test_names_that_meet_are_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        write_wheel(plan(*(Member(name, BytesSource(b"")) for name in names)), tmp_path)


def test_names_that_differ_only_by_case_are_for_linux_alone(tmp_path: Path) -> None:
    """Terminal descriptions (`terminfo/N/NCR260`, `n/ncr260`) are real cases of it."""
    members = tuple(Member(name, BytesSource(name.encode())) for name in ("a/Makefile", "a/makefile"))
    linux = plan(*members)
    assert "linux" in linux.tag
    with zipfile.ZipFile(write_wheel(linux, tmp_path).path) as archive:
        assert [archive.read(name) for name in ("a/Makefile", "a/makefile")] == [b"a/Makefile", b"a/makefile"]
    for tag in ("py3-none-win_amd64", "py3-none-any"):
        with pytest.raises(InvalidInput, match="only by case"):
            write_wheel(msgspec.structs.replace(linux, tag=tag), tmp_path)


def test_licenses_may_lie_in_dist_info(tmp_path: Path) -> None:
    license_name = "demo_package-1.0+rocm7.dist-info/licenses/LICENSE"
    path = write_wheel(plan(Member(license_name, BytesSource(b"MIT"))), tmp_path).path
    with zipfile.ZipFile(path) as archive:
        assert archive.read(license_name) == b"MIT"
        assert archive.namelist()[-1].endswith("/RECORD")


def test_metadata_of_another_project_is_refused(tmp_path: Path) -> None:
    other = WheelPlan("a", "1", Metadata("b", "1"), ())
    with pytest.raises(InvalidInput, match="metadata is of b 1, the wheel of a 1"):
        write_wheel(other, tmp_path)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Broken:
        size: int = 10

        def read_at(self, offset: int, length: int) -> bytes:
            raise OSError(errno.EIO, "Input/output error", "/data/lib.so")

    with pytest.raises(InvalidInput, match="demo/x") as caught:
        write_wheel(plan(Member("demo/x", Broken())), tmp_path)
    assert caught.value.where == "/data/lib.so"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_no_space_and_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / plan().filename
    target.with_name(target.name + ".partial").symlink_to("/dev/full")
    with pytest.raises(NoSpace):
        write_wheel(plan(Member("demo/noise", BytesSource(NOISE))), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_file_sources_read_like_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert [FileSource(path).size, FileSource(path).read_at(2, 3), FileSource(path).read_at(8, 9)] == [
        10,
        b"234",
        b"89",
    ]
    assert FileSource(path).read_at(20, 3) == b""


def test_a_written_wheel_reads_back(tmp_path: Path) -> None:
    wheel = open_wheel(write_wheel(usual(), tmp_path).path)
    assert verify_record(wheel) == ()
    assert (wheel.name, wheel.version, wheel.tags) == ("demo-package", "1.0+rocm7", {"py3-none-linux_x86_64"})


def test_members_are_taken_over_as_they_are_compressed(tmp_path: Path) -> None:
    packed = zlib.compress(TEXT, 1)[2:-4]
    digest = hashlib.sha256(TEXT).hexdigest()
    taken = Taken("demo/z.txt", BytesSource(packed), len(TEXT), zlib.crc32(TEXT), digest, True, 0o100775)
    abc = hashlib.sha256(b"abc").hexdigest()
    stored = Taken("demo/s", BytesSource(b"abc"), 3, zlib.crc32(b"abc"), abc, False, 0o644)
    ours = Member("demo/a", BytesSource(b"a"), mode=0o640)
    path = tmp_path / "x.whl"
    with path.open("wb") as stream:
        installed = write_members(stream, [taken, ours, stored], "demo.dist-info/RECORD")
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["demo/z.txt", "demo/a", "demo/s", "demo.dist-info/RECORD"]
        assert archive.read("demo/z.txt") == TEXT and archive.read("demo/s") == b"abc"
        info = archive.getinfo("demo/z.txt")
        assert (info.compress_size, info.external_attr >> 16) == (len(packed), 0o100775)
        assert archive.getinfo("demo/a").external_attr >> 16 == 0o100640
        record = archive.read("demo.dist-info/RECORD")
    assert installed == len(TEXT) + 1 + 3 + len(record)
    (row, *_) = csv.reader(io.StringIO(record.decode()))
    expected = base64.urlsafe_b64encode(hashlib.sha256(TEXT).digest()).decode().rstrip("=")
    assert row == ["demo/z.txt", f"sha256={expected}", str(len(TEXT))]


def test_a_wheel_that_becomes_shorter_while_a_member_is_taken_over(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Short:
        size: int = 10

        def read_at(self, offset: int, length: int) -> bytes:
            return b"12345"[offset : offset + length]

    member = Taken("demo/a", Short(), 10, 0, "00" * 32, False, 0o644)
    with (
        (tmp_path / "x.whl").open("wb") as stream,
        pytest.raises(InvalidInput, match="demo/a became shorter"),
    ):
        write_members(stream, [member], "demo.dist-info/RECORD")
