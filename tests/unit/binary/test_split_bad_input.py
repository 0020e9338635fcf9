"""Damaged and forged libraries: each has its named error with the file, and nothing is written."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from needs import needs
from oracle import splitting
from oracle.elf_image import read_image
from oracle.fat_library import build_library, bundle, ccob, code_object
from rocwright.binary.view import mapped
from rocwright.device_code.archives import split_library
from rocwright.device_code.split import Kept
from rocwright.errors import InvalidBundle, InvalidElf, InvalidInput, RocwrightError

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
TRIPLE = b"hipv4-amdgcn-amd-amdhsa--gfx942"
CODE = code_object(0x4C, b"\xa5" * 6000)
GOOD = bundle([("gfx942", CODE), ("gfx1100", CODE)])


def build(directory: Path, *bundles: bytes, **how: object) -> Path:
    chosen = bundles or (GOOD, GOOD)
    return build_library(directory / "in", bundles=chosen, with_tail=False, **how)


def refused(library: Path, tmp_path: Path, kind: type[RocwrightError]) -> str:
    """The error's text; it names the file, and there is no output."""
    with pytest.raises(kind) as caught:
        splitting.split(library, tmp_path / "out")
    assert library.name in caught.value.what or str(library) == caught.value.where
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    return str(caught.value)


# -- bundles -----------------------------------------------------------------------------------------------


def raw(*entries: tuple[int, int, bytes], count: int | None = None, body: bytes = bytes(200)) -> bytes:
    """A bundle with this header, whether or not it is true."""
    head = MAGIC + struct.pack("<Q", len(entries) if count is None else count)
    return head + b"".join(struct.pack("<QQQ", o, s, len(n)) + n for o, s, n in entries) + body


HUGE = (1 << 64) - 1


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (raw((4096, 1 << 40, TRIPLE)), "ends beyond the end of the data"),
        (raw((HUGE - 10, 100, TRIPLE)), "ends beyond the end of the data"),
        (raw((100, HUGE, TRIPLE)), "ends beyond the end of the data"),
        (raw((200, 100, TRIPLE), (250, 50, TRIPLE + b"x")), "overlaps hipv4"),
        (raw((40, 100, TRIPLE)), "overlaps the header"),
        (raw(count=HUGE), "claims 18446744073709551615 entries"),
        (raw(count=4097), "claims 4097 entries"),
        (raw(count=9, body=b""), "ends inside its header"),
        (MAGIC + struct.pack("<QQQQ", 1, 0, 0, HUGE) + bytes(200), "id of 18446744073709551615 bytes"),
        (MAGIC + struct.pack("<QQQQ", 1, 0, 0, 1 << 20) + bytes(200), "id of 1048576 bytes"),
        (raw((0, 0, b"\xff\xfe")), "not ASCII"),
        (MAGIC + b"\1", "ends inside its header"),
        (b"garbage " * 40, "neither a bundle nor padding"),
        (GOOD + b"garbage", "neither a bundle nor padding"),
        (bytes(100) + b"\1", "neither a bundle nor padding"),
        (MAGIC[:-1] + bytes(100), "neither a bundle nor padding"),
    ],
)
def test_a_damaged_bundle(tmp_path: Path, data: bytes, what: str) -> None:
    text = refused(build(tmp_path, GOOD, data), tmp_path, InvalidBundle)
    assert what in text and "at offset 0x" in text


def packed(stream: bytes, *, version: int = 2, method: int = 1, total: int = 0, size: int = 0) -> bytes:
    """A compressed bundle around any stream; `total` and `size` are added to the true numbers."""
    digest = 0
    if version == 1:
        numbers = struct.pack("<IQ", size, digest)
    elif version == 3:
        numbers = struct.pack("<QQQ", 32 + len(stream) + total, size, digest)
    else:
        numbers = struct.pack("<IIQ", 24 + len(stream) + total, size, digest)
    return b"CCOB" + struct.pack("<HH", version, method) + numbers + stream


STREAM = zstandard.compress(GOOD)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (changed(ccob(GOOD, 2), 16, bytes(8)), "its hash is"),
        (changed(ccob(GOOD, 3), 24, bytes(8)), "its hash is"),
        (changed(ccob(GOOD, 1), 12, bytes(8)), "its hash is"),
        (packed(STREAM, size=len(GOOD) + 1), "bytes it claims"),
        (packed(STREAM, size=len(GOOD) - 1), "beyond the end of the data|bytes it claims"),
        (packed(STREAM, version=1, size=len(GOOD) - 1), "beyond the end of the data|bytes it claims"),
        (packed(STREAM, version=1, size=len(GOOD) + 1), "bytes it claims"),
        (packed(STREAM, version=4, size=len(GOOD)), "header version 4"),
        (packed(STREAM, version=0, size=len(GOOD)), "header version 0"),
        (packed(STREAM, method=2, size=len(GOOD)), "method 2"),
        (packed(STREAM, method=0, size=len(GOOD)), "cannot be unpacked"),
        (packed(zlib.compress(GOOD), method=1, size=len(GOOD)), "cannot be unpacked"),
        (packed(STREAM, total=1 << 30, size=len(GOOD)), "do not fit"),
        (packed(STREAM, total=-len(STREAM), size=len(GOOD)), "do not fit"),
        (packed(STREAM, total=-len(STREAM) // 2, size=len(GOOD)), "."),
        (packed(STREAM[: len(STREAM) // 2], size=len(GOOD)), "."),
        (packed(STREAM[: len(STREAM) // 2], version=1, size=len(GOOD)), "."),
        (packed(zlib.compress(GOOD)[:-9], method=0, version=3, size=len(GOOD)), "."),
        (packed(STREAM, version=3, size=HUGE), "claims to unpack to"),
        (packed(STREAM, size=(1 << 32) - 1), "claims to unpack to|bytes it claims"),
        (packed(zstandard.compress(b"no bundle" * 99), size=891), "not a bundle"),
        (packed(b"", size=100), "."),
        (b"CCOB\2\0\1\0", "."),
        (b"CCOB", "."),
        (b"CCOB\2", "."),
    ],
)
def test_a_damaged_compressed_bundle(tmp_path: Path, data: bytes, what: str) -> None:
    text = refused(build(tmp_path, data), tmp_path, InvalidBundle)
    assert any(part in text for part in what.split("|")) and "at offset 0x" in text


@pytest.mark.parametrize("version", [1, 2])
def test_a_bomb_costs_no_memory(tmp_path: Path, version: int) -> None:
    """A header that lies about a stream which unpacks to a quarter of a gigabyte of zeros."""
    bomb = zstandard.compress(GOOD.ljust(1 << 28, b"\0"), level=1)
    library = build(tmp_path, packed(bomb, size=len(GOOD), version=version))
    before = peak()
    refused(library, tmp_path, InvalidBundle)
    assert peak() - before < 100 << 20


def peak() -> int:
    """Most resident memory that this process had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_an_error_late_leaves_nothing(tmp_path: Path) -> None:
    """The damage shows only when code was written for other bundles already."""
    wrong = changed(ccob(GOOD, 3), 24, bytes(8))
    assert "its hash is" in refused(build(tmp_path, GOOD, ccob(GOOD, 3), wrong), tmp_path, InvalidBundle)


def test_without_proof_no_hash_is_compared(tmp_path: Path) -> None:
    library = build(tmp_path, changed(ccob(GOOD, 3), 24, bytes(8)))
    done = split_library(library, tmp_path / "out", prove=False)
    assert done is not None and done.archives and not done.identical


# -- ELF files ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("bad"))


def test_a_library_cut_anywhere(library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    image = read_image(library)
    fatbin = next(section for section in image.sections if section.name == ".hip_fatbin")
    ends = [4, 5, 20, 63, 64, 100, image.shoff, len(whole) - 1, fatbin.offset, fatbin.offset + 5000]
    for end in [*ends, *range(1000, len(whole), 2999)]:
        cut = tmp_path / f"cut-{end}.so"
        cut.write_bytes(whole[:end])
        refused(cut, tmp_path, InvalidElf)


def test_a_hole_in_the_code(library: Path, tmp_path: Path) -> None:
    """Section headers kept, the section's end lies behind the end of the file."""
    data = bytearray(library.read_bytes())
    image = read_image(library)
    number = [section.name for section in image.sections].index(".hip_fatbin")
    struct.pack_into("<Q", data, image.shoff + 64 * number + 32, len(data))
    bad = tmp_path / "libbad.so"
    bad.write_bytes(data)
    assert "ends beyond the end of the file" in refused(bad, tmp_path, InvalidInput)


EDITS: dict[str, tuple[Callable[[bytearray], object], str]] = {
    "32 bit": (lambda d: struct.pack_into("<B", d, 4, 1), "only 64-bit little-endian"),
    "big-endian": (lambda d: struct.pack_into("<B", d, 5, 2), "only 64-bit little-endian"),
    "type": (lambda d: struct.pack_into("<H", d, 16, 99), "unknown ELF type 99"),
    "phnum": (lambda d: struct.pack_into("<H", d, 56, 0xFFF0), "outside the file"),
    "phentsize": (lambda d: struct.pack_into("<H", d, 54, 32), "not of the 64-bit size"),
    "shentsize": (lambda d: struct.pack_into("<H", d, 58, 40), "not of the 64-bit size"),
    "phoff": (lambda d: struct.pack_into("<Q", d, 32, HUGE), "outside the file"),
    "shoff": (lambda d: struct.pack_into("<Q", d, 40, len(d)), "outside the file"),
    "shoff far": (lambda d: struct.pack_into("<Q", d, 40, HUGE), "outside the file"),
    "shnum": (lambda d: struct.pack_into("<H", d, 60, 0xFEFF), "outside the file"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_damaged_elf_header(library: Path, tmp_path: Path, name: str) -> None:
    edit, what = EDITS[name]
    data = bytearray(library.read_bytes())
    edit(data)
    (bad := tmp_path / "libbad.so").write_bytes(data)
    assert what in refused(bad, tmp_path, InvalidElf)


def test_an_extended_count_of_program_headers(library: Path, tmp_path: Path) -> None:
    """0xffff says that the first section header has the number; here that says 0."""
    data = bytearray(library.read_bytes())
    struct.pack_into("<H", data, 56, 0xFFFF)
    (bad := tmp_path / "libbad.so").write_bytes(data)
    assert isinstance(splitting.split(bad, tmp_path / "out"), Kept)
    (table,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<I", data, table + 44, 0x7FFFFFFF)
    bad.write_bytes(data)
    refused(bad, tmp_path, InvalidElf)


def test_more_program_headers_than_there_are(library: Path, tmp_path: Path) -> None:
    """The table then runs over the sections behind it, still inside the file."""
    data = bytearray(library.read_bytes())
    data[56] = 0x80
    (bad := tmp_path / "libbad.so").write_bytes(data)
    refused(bad, tmp_path, InvalidElf)


def section_edit(library: Path, name: str, field: int, value: int) -> bytes:
    """The file with 8 bytes of a section header changed."""
    image = read_image(library)
    data = bytearray(library.read_bytes())
    at = image.shoff + 64 * [section.name for section in image.sections].index(name)
    struct.pack_into("<Q", data, at + field, value)
    return bytes(data)


@pytest.mark.parametrize("name", [".hipFatBinSegment", ".hip_fatbin"])
@pytest.mark.parametrize("field", [16, 24, 32], ids=["address", "offset", "size"])
@pytest.mark.parametrize("value", [24 << 40, HUGE - 23, 1 << 62])
def test_a_forged_section_costs_nothing(
    library: Path, tmp_path: Path, name: str, field: int, value: int
) -> None:
    (bad := tmp_path / "libbad.so").write_bytes(section_edit(library, name, field, value))
    before = peak()
    try:
        assert isinstance(splitting.split(bad, tmp_path / "out"), Kept)
    except InvalidInput as error:
        assert bad.name in str(error)
    assert not (tmp_path / "out").exists()
    assert peak() - before < 100 << 20


def test_a_symbol_table_that_ends_behind_the_file(library: Path, tmp_path: Path) -> None:
    end = library.stat().st_size - 100
    (bad := tmp_path / "libbad.so").write_bytes(section_edit(library, ".dynsym", 24, end))
    refused(bad, tmp_path, InvalidElf)


def test_data_of_a_program_that_ends_behind_the_file(tmp_path: Path) -> None:
    program = build(tmp_path, kind="exec")
    data = next(section for section in read_image(program).sections if section.name == ".data")
    end = program.stat().st_size - data.size // 2
    (bad := tmp_path / "bad").write_bytes(section_edit(program, ".data", 24, end - end % 8 + 4))
    refused(bad, tmp_path, InvalidElf)


def test_wrappers_that_are_loaded_from_elsewhere(library: Path, tmp_path: Path) -> None:
    """The loader reads what its segment says; patching other bytes would split nothing."""
    image = read_image(library)
    wrappers = next(section for section in image.sections if section.name == ".hipFatBinSegment")
    bad_bytes = section_edit(library, ".hipFatBinSegment", 24, wrappers.offset - 48)
    data = bytearray(bad_bytes)
    data[wrappers.offset - 48 : wrappers.offset] = data[wrappers.offset : wrappers.offset + 48]
    (bad := tmp_path / "libbad.so").write_bytes(data)
    found = splitting.split(bad, tmp_path / "out")
    assert isinstance(found, Kept) and found.reason.startswith("it would not be sound")


@pytest.mark.parametrize("tag", [7, 8], ids=["DT_RELA", "DT_RELASZ"])
@pytest.mark.parametrize("value", [0, 25, 1 << 20, 1 << 40, HUGE])
def test_a_relocation_table_elsewhere(library: Path, tmp_path: Path, tag: int, value: int) -> None:
    image = read_image(library)
    data = bytearray(library.read_bytes())
    dynamic = next(section for section in image.sections if section.name == ".dynamic")
    for at in range(dynamic.offset, dynamic.offset + dynamic.size, 16):
        if struct.unpack_from("<q", data, at)[0] == tag:
            struct.pack_into("<Q", data, at + 8, value)
    (bad := tmp_path / "libbad.so").write_bytes(data)
    try:
        assert isinstance(splitting.split(bad, tmp_path / "out"), Kept)
    except InvalidElf as error:
        assert bad.name in str(error)
    assert not (tmp_path / "out").exists()


# -- other files -------------------------------------------------------------------------------------------


def test_a_relocatable_object_is_kept(library: Path, tmp_path: Path) -> None:
    done = splitting.split(library.parent / ".build" / "device.o", tmp_path / "out")
    assert done == Kept("only linked libraries and programs can be split")


def test_a_static_archive_is_no_library(library: Path, tmp_path: Path) -> None:
    (archive := tmp_path / "libfat.a").write_bytes(
        b"!<arch>\n" + (library.parent / ".build/device.o").read_bytes()
    )
    assert splitting.split(archive, tmp_path / "out") is None


def test_what_cannot_be_read(library: Path, tmp_path: Path) -> None:
    refused(tmp_path, tmp_path, InvalidInput)
    refused(tmp_path / "missing.so", tmp_path, InvalidInput)
    (loop := tmp_path / "loop.so").symlink_to("loop.so")
    refused(loop, tmp_path, InvalidInput)
    if os.geteuid() != 0:  # root may read everything
        (secret := tmp_path / "secret.so").write_bytes(library.read_bytes())
        secret.chmod(0)
        refused(secret, tmp_path, InvalidInput)


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    """Opening one for reading waits for a writer; here there is one, and no data."""
    os.mkfifo(fifo := tmp_path / "fifo.so")
    writer = os.open(fifo, os.O_RDWR)
    try:
        with mapped(fifo) as file:
            assert file.size == 0
    except InvalidInput as error:
        assert "fifo.so" in str(error)
    finally:
        os.close(writer)


def test_names_of_any_bytes(library: Path, tmp_path: Path) -> None:
    for name in (b"lib with space.so", "lib\nü.so".encode()):
        (named := tmp_path / os.fsdecode(name)).write_bytes(library.read_bytes())
        named.chmod(0o755)
        done = splitting.split(named, tmp_path / "out")
        assert isinstance(done, splitting.Split)
        assert splitting.findings(done) == [] and splitting.loads(done, "gfx942", tmp_path) == []
        shutil.rmtree(tmp_path / "out")
    (odd := tmp_path / os.fsdecode(b"lib\xff.so")).write_bytes(library.read_bytes())
    assert splitting.split(odd, tmp_path / "out") == Kept("its name is not UTF-8, as markers must be")
