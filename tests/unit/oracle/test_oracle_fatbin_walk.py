"""The walk finds in real linked libraries the code that was put in, and refuses what does not fit."""

from __future__ import annotations

import hashlib
import struct
import zlib

import pytest

from needs import find_llvm_tool, needs
from oracle.fat_library import (
    DEVICE,
    HOST,
    Wrapper,
    build_library,
    bundle,
    ccob,
    code_object,
    linkers,
)
from oracle.fatbin_walk import bundler, code_object_machine, gaps, mismatch, read_bundle, target_of, walk

GFX906, GFX90A, GFX1030 = 0x2F, 0x3F, 0x36
FIRST = [
    ("gfx906", code_object(GFX906, b"a" * 5000, features=0x500)),
    ("gfx90a:xnack-", code_object(GFX90A, b"b" * 9000, features=0x600)),
]
SECOND = [("gfx1030", code_object(GFX1030, b"c" * 20000))]
THIRD = [("gfx1030", code_object(GFX1030, b"CCOB and __CLANG_OFFLOAD_BUNDLE__ inside"))]


def contents(found):
    return [{name: code.data for name, code in item.device.items()} for item in found]


def as_entries(*sources):
    return [{DEVICE + name: code for name, code in source} for source in sources]


@pytest.mark.parametrize("linker", linkers())
@pytest.mark.parametrize("relr", [False, True], ids=["rela", "relr"])
@pytest.mark.parametrize("kind", ["so", "pie", "exec"])
def test_every_way_of_pointing(tmp_path, kind, relr, linker):
    library = build_library(
        tmp_path,
        bundles=[bundle(FIRST), ccob(bundle(SECOND), 3), bundle(THIRD)],
        wrappers=[2, 0, 1],
        kind=kind,
        relr=relr,
        linker=linker,
    )
    found = list(walk(library))
    assert contents(found) == as_entries(THIRD, FIRST, SECOND)
    assert [item.form for item in found] == ["raw", "raw", "ccob3"]
    assert [item.index for item in found] == [0, 1, 2]
    assert all(item.pointer % 4096 == 0 for item in found)
    assert gaps(library, found) == []


@pytest.mark.parametrize("method", ["zlib", "zstd"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_forms(tmp_path, version, method):
    raw = bundle(FIRST)
    library = build_library(tmp_path, bundles=[ccob(raw, version, method), ccob(raw, version, method)])
    found = list(walk(library))
    assert contents(found) == as_entries(FIRST, FIRST)
    assert {item.form for item in found} == {f"ccob{version}"}
    assert {item.bundle for item in found} == {raw}
    assert gaps(library, found) == []


def test_a_compressed_bundle_written_by_hand(tmp_path):
    raw = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 62, 4, 6) + b"a--gfx" + b"code"
    packed = zlib.compress(raw)
    check = hashlib.md5(raw).digest()[:8]
    item = b"CCOB\x01\x00\x00\x00" + len(raw).to_bytes(4, "little") + check + packed
    (found,) = walk(build_library(tmp_path, bundles=[item]))
    assert {name: code.data for name, code in found.entries.items()} == {"a--gfx": b"code"}
    assert found.size == len(item)


def test_digests_say_the_same(tmp_path):
    library = build_library(tmp_path, bundles=[bundle(FIRST)])
    (full,), (brief,) = walk(library), walk(library, digest=True)
    for name, code in full.entries.items():
        assert brief.entries[name].sha256 == hashlib.sha256(code.data).hexdigest()
        assert (brief.entries[name].size, brief.entries[name].data) == (len(code.data), None)
        assert brief.entries[name].header == code.data[:64]
    assert brief.bundle is None and HOST in full.entries and HOST not in full.device


def test_a_bundle_that_no_wrapper_names_is_a_gap(tmp_path):
    library = build_library(tmp_path, bundles=[bundle(FIRST), bundle(SECOND)], wrappers=[0, 0])
    found = list(walk(library))
    assert contents(found) == as_entries(FIRST, FIRST)
    ((offset, size),) = gaps(library, found)
    assert library.read_bytes()[offset : offset + size].lstrip(b"\0") == bundle(SECOND)


def broken(position: int, new: bytes, data: bytes) -> bytes:
    return data[:position] + new + data[position + len(new) :]


RAW = bundle(FIRST)
PACKED = ccob(RAW, 2)
BAD_BUNDLES = {
    "no bundle": (b"\0" * 5000, "starts no bundle"),
    "many entries": (broken(24, struct.pack("<Q", 1 << 60), RAW), "entries in"),
    "long id": (broken(48, struct.pack("<Q", 1 << 60), RAW), "cut short"),
    "entry beyond the end": (RAW[:-1000], "ends at"),
    "duplicate": (bundle([FIRST[0], FIRST[0]]), "twice"),
    "hash": (broken(16, b"12345678", PACKED), "hash"),
    "size": (broken(12, struct.pack("<I", 5), PACKED), "header says 5"),
    "total too large": (broken(8, struct.pack("<I", 1 << 30), PACKED), "ends at"),
    "total too small": (broken(8, struct.pack("<I", len(PACKED) - 5), PACKED), "cut short"),
    "version": (broken(4, b"\x09", PACKED), "CCOB version 9"),
    "method": (broken(6, b"\x07", PACKED), "CCOB method 7"),
    "bytes behind": (ccob(RAW + b"x" * 9, 2), "9 bytes behind"),
}


@pytest.mark.parametrize(("data", "text"), BAD_BUNDLES.values(), ids=BAD_BUNDLES.keys())
def test_bad_bundles(tmp_path, data, text):
    library = build_library(tmp_path, bundles=[data])
    with pytest.raises(ValueError, match=text):
        list(walk(library))


BAD_WRAPPERS = {
    "into the middle": (Wrapper(0, offset=64), "starts no bundle"),
    "elsewhere": (Wrapper(pointer="fat_wrappers"), "outside .hip_fatbin"),
    "null": (Wrapper(pointer="0"), "no relocation"),
    "magic": (Wrapper(0, magic=0x4B504948), "magic 0x4b504948"),
    "version": (Wrapper(0, version=3), "version 3"),
}


@pytest.mark.parametrize(("wrapper", "text"), BAD_WRAPPERS.values(), ids=BAD_WRAPPERS.keys())
def test_bad_wrappers(tmp_path, wrapper, text):
    library = build_library(tmp_path, bundles=[RAW], wrappers=[wrapper])
    with pytest.raises(ValueError, match=text):
        list(walk(library))


def test_overlapping_entries_are_refused():
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2)
    head += struct.pack("<QQQ", 100, 50, 1) + b"a" + struct.pack("<QQQ", 149, 50, 1) + b"b"
    with pytest.raises(ValueError, match="overlap"):
        read_bundle(head.ljust(300, b"x"))


@pytest.mark.parametrize(
    ("mach", "features", "abi", "target"),
    [
        (0x2F, 0x000, 2, "gfx906"),
        (0x2F, 0x500, 3, "gfx906"),
        (0x3F, 0x600, 3, "gfx90a:xnack-"),
        (0x3F, 0x700, 3, "gfx90a:xnack+"),
        (0x4C, 0xE00, 4, "gfx942:sramecc+:xnack-"),
        (0x30, 0x900, 2, "gfx908:sramecc-"),
        (0x30, 0x300, 1, "gfx908:sramecc+:xnack+"),
        (0x5F, 0x500, 4, "gfx9-4-generic"),
    ],
)
def test_target_of_a_code_object(mach, features, abi, target):
    code = code_object(mach, features=features, abi=abi)
    assert code_object_machine(code) == mach
    assert target_of(code) == target
    assert mismatch(DEVICE + target, code) is None


def test_mismatches_between_entry_and_code():
    code = code_object(0x3F, features=0x600)
    assert "gfx90a:xnack-" in mismatch(DEVICE + "gfx90a", code)
    assert mismatch(DEVICE + "gfx90a:xnack+", code)
    assert mismatch(DEVICE + "gfx90a:sramecc+:xnack-", code)
    assert "gfx90a" in mismatch(DEVICE + "gfx906:xnack-", code)
    with pytest.raises(ValueError, match="no ELF"):
        mismatch(DEVICE + "gfx906", b"x" * 64)
    with pytest.raises(ValueError, match="not in the table"):
        target_of(code_object(0xFE))


@needs("clang-offload-bundler")
def test_the_reference_tool_sees_the_same(tmp_path):
    (found,) = walk(build_library(tmp_path, bundles=[RAW]))
    tool = find_llvm_tool("clang-offload-bundler")
    for name, code in found.device.items():
        assert bundler(tool, found.bundle, name) == code.data
    with pytest.raises(ValueError, match="failed"):
        bundler(tool, found.bundle, DEVICE + "gfx803")
