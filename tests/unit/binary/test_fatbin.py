"""Device code bundles written by hand from the format's description."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest
import zstandard

from rocwright.device_code.fatbin import Bundle, CodeObject, read_bundles, targets
from rocwright.errors import InvalidBundle

HOST = "host-x86_64-unknown-linux-gnu-"
A = "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"
B = "hipv4-amdgcn-amd-amdhsa--gfx9-4-generic"


def raw(objects: dict[str, bytes]) -> bytes:
    """A bundle: magic, count, (offset, size, length, id)…, payloads on 4096-byte boundaries."""
    head = 32 + sum(24 + len(name) for name in objects)
    at = -(-head // 4096) * 4096
    table, body = struct.pack("<24sQ", b"__CLANG_OFFLOAD_BUNDLE__", len(objects)), b""
    for name, code in objects.items():
        table += struct.pack("<QQQ", at + len(body), len(code), len(name)) + name.encode()
        body += code.ljust(-(-len(code) // 4096) * 4096, b"\0")
    last = len(next(reversed(objects.values()))) if objects else 0
    return (table.ljust(at, b"\0") + body)[: at + len(body) - (-last % 4096)]


def packed(bundle: bytes, version: int, *, zstd: bool, lie: int = 0) -> bytes:
    """A compressed bundle with a header of this version; `lie` is added to the unpacked size."""
    data = zstandard.compress(bundle) if zstd else zlib.compress(bundle)
    size, method = len(bundle) + lie, int(zstd)
    head = struct.pack("<4sHH", b"CCOB", version, method)
    if version == 1:
        return head + struct.pack("<IQ", size, 7) + data
    if version == 2:
        return head + struct.pack("<IIQ", 24 + len(data), size, 7) + data
    return head + struct.pack("<QQQ", 32 + len(data), size, 7) + data


def pages(*bundles: bytes) -> bytes:
    return b"".join(bundle.ljust(-(-len(bundle) // 4096) * 4096, b"\0") for bundle in bundles)


def elf_with(section: bytes, kind: int = 1) -> bytes:
    """An ELF object with `.hip_fatbin` at 0x1000."""
    names = b"\0.shstrtab\0.hip_fatbin\0"
    table = 0x1000 + len(section)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 1)
    head += names
    headers = bytes(64)
    headers += struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    headers += struct.pack("<IIQQQQIIQQ", 11, kind, 2, 0, 0x1000, len(section), 0, 0, 4096, 0)
    return head.ljust(0x1000, b"\0") + section + headers


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "fat"
    path.write_bytes(data)
    return path


CODE = random.Random(1).randbytes(70_000)
ONE = raw({HOST: b"", A: CODE, B: b"b" * 100})
TWO = raw({HOST: b"", A: b"short"})


def test_raw_bundles_of_a_section(tmp_path: Path) -> None:
    path = write(tmp_path, elf_with(pages(ONE, TWO)))
    second = 0x1000 + len(pages(ONE))
    assert read_bundles(path) == (
        Bundle(0x1000, len(ONE), None, (
            CodeObject(HOST, "", 0x2000, 0),
            CodeObject(A, "gfx90a:xnack-", 0x2000, 70_000),
            CodeObject(B, "gfx9-4-generic", 0x2000 + 18 * 4096, 100),
        )),
        Bundle(second, 4096 + 5, None, (
            CodeObject(HOST, "", second + 4096, 0),
            CodeObject(A, "gfx90a:xnack-", second + 4096, 5),
        )),
    )  # fmt: skip
    assert targets(path) == {"gfx90a:xnack-", "gfx9-4-generic"}


@pytest.mark.parametrize("zstd", [True, False], ids=["zstd", "zlib"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_bundles_between_raw_ones(tmp_path: Path, version: int, zstd: bool) -> None:
    middle = packed(ONE, version, zstd=zstd)
    path = write(tmp_path, elf_with(pages(TWO, middle, middle, TWO)))
    first, second, third, fourth = read_bundles(path)
    assert [first.compressed, second.compressed, third.compressed, fourth.compressed] == [
        False,
        True,
        True,
        False,
    ]
    assert (second.size, third.offset) == (len(middle), second.offset + len(pages(middle)))
    assert second.entries[1] == CodeObject(A, "gfx90a:xnack-", 4096, 70_000)


def test_magics_inside_code_objects_are_code(tmp_path: Path) -> None:
    code = b"x" * 5000 + b"CCOB" + b"\xff" * 30 + b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 30
    code += bytes(4096 - len(code) % 4096) + TWO
    path = write(tmp_path, elf_with(pages(raw({HOST: b"", A: code}), TWO)))
    assert [bundle.entries[1].size for bundle in read_bundles(path)] == [len(code), 5]


@pytest.mark.parametrize(
    ("entry", "target"),
    [
        ("hip-amdgcn-amd-amdhsa-gfx906", "gfx906"),
        ("hip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-", "gfx908:sramecc+:xnack-"),
        ("hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"),
        ("hipv4-amdgcn-amd-amdhsa-unknown-gfx9-generic", "gfx9-generic"),
        ("host-x86_64-unknown-linux", ""),
    ],
)
def test_targets_of_all_spellings(tmp_path: Path, entry: str, target: str) -> None:
    path = write(tmp_path, raw({entry: b"code"}))
    assert [e.target for e in read_bundles(path)[0].entries] == [target]


def test_files_that_are_bundles_themselves(tmp_path: Path) -> None:
    assert len(read_bundles(write(tmp_path, pages(ONE, TWO)))) == 2
    assert targets(write(tmp_path, packed(TWO, 3, zstd=True))) == {"gfx90a:xnack-"}


@pytest.mark.parametrize(
    "data", [b"", b"text", elf_with(b""), elf_with(pages(TWO), kind=8)], ids=["empty", "text", "elf", "split"]
)
def test_files_without_device_code(tmp_path: Path, data: bytes) -> None:
    assert read_bundles(write(tmp_path, data)) == ()
    assert targets(tmp_path / "fat") == frozenset()


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


V2 = packed(ONE, 2, zstd=True)
BAD = {
    "garbage-between": (pages(TWO) + b"garbage", 0x3000, "neither a bundle nor padding"),
    "cut-in-the-header": (TWO[:50], 0x1000, "ends inside its header"),
    "cut-in-the-code": (pages(TWO) + ONE[:9000], 0x3000, "ends beyond the end of the data"),
    "huge-count": (patched(TWO, 24, b"\xff" * 8), 0x1000, "claims"),
    "huge-id": (patched(TWO, 48, b"\xff" * 8), 0x1000, "does not fit"),
    "offset-overflow": (patched(TWO, 32, b"\xff" * 8), 0x1000, "ends beyond the end of the data"),
    "unknown-version": (patched(V2, 4, b"\x09"), 0x1000, "header version 9"),
    "unknown-method": (patched(V2, 6, b"\x05"), 0x1000, "compression method 5"),
    "total-behind-the-end": (patched(V2, 8, b"\xff\xff\xff\x7f"), 0x1000, "do not fit"),
    "total-inside-the-header": (patched(V2, 8, b"\x08\0\0\0"), 0x1000, "do not fit"),
    "damaged-stream": (patched(V2, 24, b"\0\0\0\0"), 0x1000, "cannot be unpacked"),
    "no-bundle-inside": (packed(b"x" * 99, 2, zstd=True), 0x1000, "not a bundle"),
    "unpacked-size-too-small": (packed(TWO, 3, zstd=True, lie=-1), 0x1000, "ends beyond the end of the data"),
    "unpacked-size-too-large": (packed(TWO, 1, zstd=False, lie=1), 0x1000, "does not unpack"),
    "cut-stream": (packed(ONE, 1, zstd=True)[:-40], 0x1000, "data ends early"),
}


@pytest.mark.parametrize("name", BAD)
def test_malformed_bundles_name_file_and_offset(tmp_path: Path, name: str) -> None:
    section, offset, message = BAD[name]
    path = write(tmp_path, elf_with(section))
    with pytest.raises(InvalidBundle, match=message) as caught:
        read_bundles(path)
    assert caught.value.where == str(path)
    assert f"offset {offset:#x}:" in caught.value.what


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    # 3 GiB of zeros behind a small header, as a library could pretend to hold.
    packer = zstandard.ZstdCompressor().compressobj()
    body = packer.compress(TWO)
    body += b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    data = struct.pack("<4sHHQQQ", b"CCOB", 3, 1, 32 + len(body), 3 << 30, 0) + body
    with pytest.raises(InvalidBundle, match="claims to unpack to 3221225472 bytes"):
        read_bundles(write(tmp_path, data))
