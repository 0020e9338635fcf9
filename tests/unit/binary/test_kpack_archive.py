"""Archives as written are what a second reader reads; archives as forged are refused with file and offset."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.kpack_reader import parse_marker as oracle_marker
from oracle.kpack_reader import read_kpack
from rocwright.binary.view import Mapped
from rocwright.device_code.kpack import (
    ArchiveWriter,
    Entry,
    Marker,
    code_object,
    pack_marker,
    parse_marker,
    read_archive,
)
from rocwright.errors import InvalidArchive, InvalidInput, RocwrightError

CODES = [b"first" * 900, b"", b"third" * 2000]
PATH = Path("some/fat_gfx942.kpack")


def written(codes: list[bytes] = CODES) -> bytes:
    stream = io.BytesIO()
    archive = ArchiveWriter(stream, "fat", "gfx942")
    for index, code in enumerate(codes):
        ordinal = archive.add(zstandard.compress(code))
        archive.enter(
            Entry("lib/a.so", index, "gfx942", ordinal, len(code), "hipv4-amdgcn-amd-amdhsa--gfx942")
        )
    if codes:
        archive.enter(Entry("lib/b#1.so", 7, "gfx942", 0, len(codes[0])))
    archive.close()
    return stream.getvalue()


def read(data: bytes) -> dict[tuple[str, int, str], bytes]:
    """All code of an archive through the project's reader."""
    archive = read_archive(Mapped(PATH, data))
    return {(e.kernel, e.index, e.target): code_object(archive, e) for e in archive.entries}


def test_a_second_reader_reads_what_was_written() -> None:
    data = written()
    found = read_kpack(data)
    assert found.entries == {
        ("lib/a.so", 0, "gfx942"): CODES[0],
        ("lib/a.so", 1, "gfx942"): CODES[1],
        ("lib/a.so", 2, "gfx942"): CODES[2],
        ("lib/b#1.so", 7, "gfx942"): CODES[0],
    }
    assert found.entries == read(data)
    assert (found.group_name, found.family, found.arches) == ("fat", "gfx942", ("gfx942",))
    assert found.ordinals["lib/b#1.so", 7, "gfx942"] == 0 and len(found.frame_sizes) == 3


def test_the_header_by_hand() -> None:
    data = written([b"only"])
    frame = zstandard.compress(b"only")
    table = 64 + 4 + 4 + len(frame)
    assert data[:16] == b"KPAK\1\0\0\0" + struct.pack("<Q", table)
    assert data[16:64] == bytes(48)
    assert data[64:table] == struct.pack("<II", 1, len(frame)) + frame
    toc = msgspec.msgpack.decode(data[table:])
    assert toc["toc"]["lib/a.so#0"] == {
        "gfx942": {
            "type": "hsaco",
            "ordinal": 0,
            "original_size": 4,
            "metadata": {"target": "hipv4-amdgcn-amd-amdhsa--gfx942"},
        }
    }
    assert list(toc) == [
        "format_version",
        "group_name",
        "gfx_arch_family",
        "gfx_arches",
        "toc",
        "compression_scheme",
        "zstd_offset",
        "zstd_size",
    ]
    assert (toc["zstd_offset"], toc["zstd_size"]) == (64, 8 + len(frame))


# -- other writers' archives -------------------------------------------------------------------------------


def forged(change: Callable[[dict[str, Any]], object] = lambda toc: None, area: bytes | None = None) -> bytes:
    """An archive of two code objects whose table is changed before it is written."""
    frames = [zstandard.compress(code) for code in (b"one", b"twotwo")]
    if area is None:
        area = struct.pack("<I", 2) + b"".join(struct.pack("<I", len(f)) + f for f in frames)
    toc = {
        "format_version": 1,
        "group_name": "g",
        "gfx_arch_family": "gfx942",
        "gfx_arches": ["gfx942"],
        "toc": {
            "k#0": {"gfx942": {"type": "hsaco", "ordinal": 0, "original_size": 3}},
            "k#1": {"gfx942": {"type": "hsaco", "ordinal": 1, "original_size": 6}},
        },
        "compression_scheme": "zstd-per-kernel",
        "zstd_offset": 64,
        "zstd_size": len(area),
    }
    change(toc)
    head = struct.pack("<4sIQ", b"KPAK", 1, 64 + len(area)).ljust(64, b"\0")
    return head + area + msgspec.msgpack.encode(toc)


def test_plain_code_objects_of_another_writer() -> None:
    def plain(toc: dict[str, Any]) -> None:
        toc["compression_scheme"] = "none"
        toc["blobs"] = [{"offset": 64, "size": 3}, {"offset": 67, "size": 6}]
        del toc["zstd_offset"], toc["zstd_size"]

    wanted = {("k", 0, "gfx942"): b"one", ("k", 1, "gfx942"): b"twotwo"}
    assert read(forged()) == wanted
    assert read(forged(plain, b"onetwotwo")) == wanted


def row(toc: dict[str, Any], **fields: object) -> None:
    toc["toc"]["k#1"]["gfx942"].update(fields)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda t: row(t, ordinal=2), "ordinal 2 of 2"),
        (lambda t: row(t, ordinal=-1), "ordinal -1"),
        (lambda t: row(t, ordinal=1 << 40), "of 2"),
        (lambda t: row(t, original_size=-1), "claims -1 bytes"),
        (lambda t: row(t, original_size=1 << 40), "claims 1099511627776 bytes"),
        (lambda t: row(t, original_size=7), "not 7"),
        (lambda t: row(t, original_size=5), "not 5"),
        (lambda t: row(t, ordinal="1"), "malformed"),
        (lambda t: t["toc"]["k#1"]["gfx942"].pop("ordinal"), "malformed"),
        (lambda t: t.update(format_version=2), "format version 2"),
        (lambda t: t.update(compression_scheme="lz4"), "unknown compression scheme 'lz4'"),
        (lambda t: t.update(zstd_offset=0), "lies outside"),
        (lambda t: t.update(zstd_offset=1 << 62, zstd_size=1 << 62), "lies outside"),
        (lambda t: t.update(zstd_offset=-4), "lies outside"),
        (lambda t: t.update(zstd_size=t["zstd_size"] + 1), "lies outside"),
        (lambda t: t.update(zstd_size=t["zstd_size"] - 1), "does not fit"),
        (lambda t: t.update(zstd_size=3), "lies outside"),
        (lambda t: t.update(toc=[]), "malformed"),
        (lambda t: t["toc"].update({"k": t["toc"].pop("k#1")}), "does not end in #index"),
        (lambda t: t["toc"].update({"k#-1": t["toc"].pop("k#1")}), "does not end in #index"),
        (lambda t: t["toc"].update({"k#" + "9" * 5000: t["toc"].pop("k#1")}), "does not end in #index"),
        (lambda t: t["toc"].update({"k#²": t["toc"].pop("k#1")}), "does not end in #index"),
        (lambda t: t.update(compression_scheme="none"), "ordinal 0 of 0"),
        (lambda t: t.update(compression_scheme="none", blobs=[{"offset": 64, "size": 1 << 62}]), "outside"),
        (lambda t: t.update(compression_scheme="none", blobs=[{"offset": 8, "size": 3}]), "outside"),
        (lambda t: t.update(compression_scheme="none", blobs=[{"offset": 64}]), "outside"),
    ],
)  # fmt: skip
def test_a_forged_table(change: Callable[[dict[str, Any]], object], what: str) -> None:
    with pytest.raises(InvalidArchive, match=re.escape(what)) as caught:
        read(forged(change))
    assert re.search(r"fat_gfx942\.kpack: at offset 0x[0-9a-f]+: ", str(caught.value))
    assert caught.value.where == str(PATH)


def area(*frames: bytes, count: int | None = None) -> bytes:
    body = b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)
    return struct.pack("<I", len(frames) if count is None else count) + body


ONE, TWO = zstandard.compress(b"one"), zstandard.compress(b"twotwo")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (area(ONE, TWO, count=3), "does not fit"),
        (area(ONE, TWO, count=0xFFFFFFFF), "claims 4294967295 frames"),
        (area(ONE, TWO, count=1), "follow the last frame"),
        (area(ONE, TWO)[:-1], "does not fit"),
        (area(ONE, b"no frame at all"), "cannot be unpacked"),
        (area(ONE, b""), "cannot be unpacked"),
        (area(ONE, TWO[:-1]), "cannot be unpacked"),
        (area(ONE, TWO + b"more"), "a frame|a code object"),
        (area(ONE, zstandard.compress(bytes(1 << 28))), "unpacks to 268435456 bytes, not 6"),
        (
            area(ONE, zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 26))),
            "cannot be unpacked|not 6",
        ),
    ],
)
def test_forged_data(data: bytes, what: str) -> None:
    with pytest.raises(InvalidArchive, match=what) as caught:
        read(forged(area=data))
    assert "at offset 0x" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"KPAK",
        b"KPAK\2\0\0\0" + bytes(100),
        b"KPAQ\1\0\0\0" + struct.pack("<Q", 64) + bytes(100),
        b"KPAK\1\0\0\0" + struct.pack("<Q", 63) + bytes(100),
        b"KPAK\1\0\0\0" + struct.pack("<Q", 1 << 63) + bytes(100),
        b"KPAK\1\0\0\0" + struct.pack("<Q", 116) + bytes(100),
        b"KPAK\1\0\0\0" + struct.pack("<Q", 64) + bytes(48) + b"\x91" * 100_000,
        b"KPAK\1\0\0\0" + struct.pack("<Q", 64) + bytes(48) + b"\xdf\xff\xff\xff\xff",
        b"KPAK\1\0\0\0" + struct.pack("<Q", 64) + bytes(48) + b"\xc6\xff\xff\xff\xff",
        forged() + b"\0",
        forged()[:-1],
    ],
    ids=["empty", "cut", "version", "magic", "table in the header", "table far away", "table at the end",
         "nested", "map of 4 Gi", "bytes of 4 Gi", "more behind", "table cut"],
)  # fmt: skip
def test_no_archive(data: bytes) -> None:
    with pytest.raises(InvalidArchive, match=r"fat_gfx942\.kpack"):
        read(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_is_named_or_harmless(data: st.DataObject) -> None:
    """A changed byte either makes a named error or leaves code of the recorded length."""
    good = written()
    at = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[at : at + data.draw(st.sampled_from([1, 2, 4, 8]))] = data.draw(st.binary(min_size=1, max_size=8))
    try:
        found = read(bytes(bad))
    except RocwrightError as error:
        assert "fat_gfx942.kpack" in str(error)
    else:
        assert all(isinstance(code, bytes) for code in found.values())


# -- the marker --------------------------------------------------------------------------------------------


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.text(min_size=1))
def test_a_marker_comes_back(paths: list[str], kernel: str) -> None:
    marker = Marker(tuple(paths), kernel)
    data = pack_marker(marker)
    assert parse_marker(data) == marker
    second = oracle_marker(data)
    assert (second.search_paths, second.kernel_name) == (marker.search_paths, marker.kernel)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc0",
        b"\x80",
        msgspec.msgpack.encode({"kpack_search_paths": [], "kernel_name": "k"}),
        msgspec.msgpack.encode({"kpack_search_paths": "a", "kernel_name": "k"}),
        msgspec.msgpack.encode({"kpack_search_paths": ["a"]}),
        msgspec.msgpack.encode({"kpack_search_paths": ["a"], "kernel_name": 1}),
        b"\x91" * 100_000,
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_no_marker(data: bytes) -> None:
    with pytest.raises(InvalidArchive):
        parse_marker(data)


def test_a_marker_longer_than_the_runtime_reads() -> None:
    with pytest.raises(InvalidInput, match="longer than 65536 bytes"):
        pack_marker(Marker(("a" * 70_000,), "k"))
