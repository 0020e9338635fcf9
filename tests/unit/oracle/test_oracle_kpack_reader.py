"""The strict archive reader accepts hand-made archives and refuses every deviation from the format."""

from __future__ import annotations

import struct

import msgspec
import pytest
import zstandard

from oracle.kpack_reader import Marker, expand, parse_marker, read_kpack, unpack_one

# One code object b"hello", zstd frame with one raw block, written byte by byte.
FRAME = bytes.fromhex("28b52ffd 20 05 290000") + b"hello"
LITERAL = (
    b"KPAK\x01\0\0\0" + (64 + 4 + 4 + len(FRAME)).to_bytes(8, "little") + bytes(48)
    + b"\x01\0\0\0" + bytes([len(FRAME), 0, 0, 0]) + FRAME
    + b"\x88"
    + b"\xaeformat_version\x01"
    + b"\xaagroup_name\xa3lib"
    + b"\xafgfx_arch_family\xa6gfx942"
    + b"\xaagfx_arches\x91\xa6gfx942"
    + b"\xa3toc\x81\xaalib/a.so#0\x81\xa6gfx942\x83\xa4type\xa5hsaco\xa7ordinal\x00\xadoriginal_size\x05"
    + b"\xb2compression_scheme\xafzstd-per-kernel"
    + b"\xabzstd_offset\x40"
    + b"\xa9zstd_size" + bytes([4 + 4 + len(FRAME)])
)  # fmt: skip


def test_an_archive_written_byte_by_byte():
    found = read_kpack(LITERAL)
    assert (found.group_name, found.family, found.arches) == ("lib", "gfx942", ("gfx942",))
    assert found.scheme == "zstd-per-kernel"
    assert found.entries == {("lib/a.so", 0, "gfx942"): b"hello"}


def entry(ordinal: int, size: int, **more: object) -> dict[str, object]:
    return {"gfx942": {"type": "hsaco", "ordinal": ordinal, "original_size": size, **more}}


def archive(
    codes: list[bytes], *, frames: list[bytes] | None = None, head: dict | None = None, **changes: object
) -> bytes:
    """An archive of `codes`, one entry each; `changes` replace keys of the table, None removes one."""
    frames = frames or [zstandard.ZstdCompressor().compress(blob) for blob in codes]
    area = struct.pack("<I", len(frames)) + b"".join(struct.pack("<I", len(f)) + f for f in frames)
    table = {
        "format_version": 1,
        "group_name": "lib",
        "gfx_arch_family": "gfx942",
        "gfx_arches": ["gfx942"],
        "toc": {f"a.so#{i}": entry(i, len(blob)) for i, blob in enumerate(codes)},
        "compression_scheme": "zstd-per-kernel",
        "zstd_offset": 64,
        "zstd_size": len(area),
        **changes,
    }
    kept = {key: value for key, value in table.items() if value is not None}
    fields = {"magic": b"KPAK", "version": 1, "toc": 64 + len(area), "padding": bytes(48), **(head or {})}
    start = struct.pack("<4sIQ", fields["magic"], fields["version"], fields["toc"])
    return start + fields["padding"] + area + msgspec.msgpack.encode(kept)


def test_many_entries_may_share_a_frame():
    toc = {"a.so#0": entry(0, 1), "a.so#1": entry(1, 2), "b.so#0": entry(0, 1)}
    found = read_kpack(archive([b"x", b"yy"], toc=toc))
    assert found.entries == {
        ("a.so", 0, "gfx942"): b"x",
        ("a.so", 1, "gfx942"): b"yy",
        ("b.so", 0, "gfx942"): b"x",
    }
    assert len(found.frame_sizes) == 2


def test_the_uncompressed_scheme():
    blobs = [{"offset": 64, "size": 3}, {"offset": 67, "size": 2}]
    changes = {"zstd_offset": None, "zstd_size": None, "blobs": blobs, "compression_scheme": "none"}
    table = archive([b"abc", b"de"], **changes)
    start = table.index(b"\x87\xaeformat_version")
    plain = table[:8] + struct.pack("<Q", 69) + bytes(48) + b"abcde" + table[start:]
    assert set(read_kpack(plain).entries.values()) == {b"abc", b"de"}
    hole = table[:8] + struct.pack("<Q", 70) + bytes(48) + b"abcde\0" + table[start:]
    with pytest.raises(ValueError, match="blobs end at 69, the table starts at 70"):
        read_kpack(hole)


GOOD = zstandard.ZstdCompressor().compress(b"x" * 100)
UNSIZED = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 100)
DICTIONARY = zstandard.ZstdCompressionDict(bytes(range(256)) * 8, dict_type=zstandard.DICT_TYPE_RAWCONTENT)

BROKEN = {
    "magic": (archive([b"x"], head={"magic": b"KPAC"}), "magic"),
    "version": (archive([b"x"], head={"version": 2}), "format version 2"),
    "padding": (archive([b"x"], head={"padding": bytes(47) + b"\1"}), "not zero"),
    "table behind the end": (archive([b"x"], head={"toc": 1 << 40}), "lies outside"),
    "table in the header": (archive([b"x"], head={"toc": 16}), "lies outside"),
    "bytes behind the table": (archive([b"x"]) + b"\0", "1 bytes follow"),
    "cut table": (archive([b"x"])[:-1], "cut short"),
    "short file": (b"KPAK", "less than a header"),
    "no scheme": (archive([b"x"], compression_scheme=None), "lacks 'compression_scheme'"),
    "strange scheme": (archive([b"x"], compression_scheme="lzma"), "lzma|unknown keys"),
    "strange key": (archive([b"x"], more=1), "unknown keys"),
    "number as text": (archive([b"x"], format_version="1"), "is a str"),
    "true as number": (archive([b"x"], format_version=True), "is a bool"),
    "two arches": (archive([b"x"], gfx_arches=["gfx942", "gfx90a"]), "not one arch"),
    "other family": (archive([b"x"], gfx_arch_family="gfx94X"), "family"),
    "foreign arch": (
        archive([b"x"], toc={"a#0": {"gfx90a": entry(0, 1)["gfx942"]}}),
        "arches",
    ),
    "no index": (archive([b"x"], toc={"a.so": entry(0, 1)}), "NAME#INDEX"),
    "index with zeroes": (archive([b"x"], toc={"a.so#00": entry(0, 1)}), "NAME#INDEX"),
    "backslash": (archive([b"x"], toc={"a\\b#0": entry(0, 1)}), "backslash"),
    "ordinal too large": (archive([b"x"], toc={"a#0": entry(1, 1)}), "ordinal 1, but 1 frames"),
    "negative ordinal": (archive([b"x"], toc={"a#0": entry(-1, 1)}), "ordinal is -1"),
    "unused frame": (archive([b"x", b"y"], toc={"a#0": entry(0, 1)}), "no entry uses the frames"),
    "wrong size": (archive([b"x"], toc={"a#0": entry(0, 2)}), "decodes to 1 bytes, not 2"),
    "wrong type": (archive([b"x"], toc={"a#0": entry(0, 1, type="elf")}), "not hsaco"),
    "wrong target": (
        archive([b"x"], toc={"a#0": entry(0, 1, metadata={"target": "hip-amdgcn--gfx90a"})}),
        "target",
    ),
    "area moved": (archive([b"x"], zstd_offset=60), "zstd_offset is 60"),
    "area too small": (archive([b"x"], zstd_size=9), "the zstd area ends at 73"),
    "no frame size": (archive([b"x" * 100], frames=[UNSIZED]), "does not state its content size"),
    "two frames in one": (archive([b"x" * 100], frames=[GOOD + GOOD]), "bytes behind the frame"),
    "cut frame": (archive([b"x" * 100], frames=[GOOD[:-3]]), "cut short|no zstd frame"),
    "no frame": (archive([b"x" * 100], frames=[b"x" * 100]), "no zstd frame"),
}


@pytest.mark.parametrize(("data", "text"), BROKEN.values(), ids=BROKEN.keys())
def test_deviations_are_refused(data, text):
    with pytest.raises(ValueError, match=text):
        read_kpack(data)


def test_frames_that_overrun_or_underrun_the_area():
    good = archive([b"x"])
    length = struct.unpack_from("<I", good, 68)[0]
    with pytest.raises(ValueError, match="frame 0 has"):
        read_kpack(good[:68] + struct.pack("<I", length + 1) + good[72:])
    with pytest.raises(ValueError, match="length of frame 1 lies beyond"):
        read_kpack(good[:64] + struct.pack("<I", 2) + good[68:])
    two = archive([b"x", b"y"])
    with pytest.raises(ValueError, match="the frames end at"):
        read_kpack(two[:64] + struct.pack("<I", 1) + two[68:])
    with pytest.raises(ValueError, match="the runtime takes"):
        read_kpack(two[:64] + struct.pack("<I", (1 << 20) + 1) + two[68:])


def test_a_frame_with_a_dictionary_is_refused():
    trained = zstandard.train_dictionary(1024, [bytes([i % 7, i % 5, i % 3]) * 50 for i in range(400)])
    frame = zstandard.ZstdCompressor(dict_data=trained).compress(b"abc" * 50)
    with pytest.raises(ValueError, match="needs the dictionary"):
        read_kpack(archive([b"abc" * 50], frames=[frame]))


@pytest.mark.parametrize(
    "value",
    [0, 127, 128, 65536, 1 << 40, -1, -32, -33, -40000, "", "x" * 40, "y" * 300, "ä" * 40000, b"raw", True,
     None, 1.5, list(range(20)), {str(i): [i] for i in range(70000)}],
    ids=lambda value: f"{type(value).__name__}-{str(value)[:8]}",
)  # fmt: skip
def test_the_decoder_agrees_with_another_encoder(value):
    assert unpack_one(msgspec.msgpack.encode(value), "x") == value


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x82\xa1a\x01\xa1a\x02", "twice"),
        (b"\x81\x01\x02", "no text"),
        (b"\xdf\xff\xff\xff\xff", "announced"),
        (b"\xdd\xff\xff\xff\xff", "announced"),
        (b"\xdb\xff\xff\xff\xffx", "cut short"),
        (b"\xa1\xff", "UTF-8"),
        (b"\xc1", "starts no value"),
        (b"\xd4\x01\x02", "starts no value"),
        (b"\x91" * 100, "too deep"),
        (b"", "cut short"),
    ],
)
def test_the_decoder_refuses(data, text):
    with pytest.raises(ValueError, match=text):
        unpack_one(data, "x")


def test_marker():
    good = b"\x82\xb2kpack_search_paths\x92\xa1a\xa1b\xabkernel_name\xa4k/so"
    assert parse_marker(good) == Marker(("a", "b"), "k/so")
    for bad, text in [
        (good + b"\0", "1 bytes follow"),
        (b"\x81\xabkernel_name\xa1k", "keys"),
        (b"\x82\xb2kpack_search_paths\x90\xabkernel_name\xa1k", "not a list of paths"),
        (b"\x82\xb2kpack_search_paths\x91\xa0\xabkernel_name\xa1k", "no text"),
        (b"\x82\xb2kpack_search_paths\x91\xa1a\xabkernel_name\xa0", "kernel_name"),
        (b"\x01", "not a map"),
        (good.replace(b"\xa4k/so", b"\xdb\x00\x01\x00\x00" + b"k" * 65536), "65"),
    ]:
        with pytest.raises(ValueError, match=text):
            parse_marker(bad)


def test_search_order_of_the_runtime():
    assert expand("../.kpack/a_@GFXARCH@.kpack", "gfx942:sramecc+:xnack-") == [
        "../.kpack/a_gfx942:sramecc+:xnack-.kpack",
        "../.kpack/a_gfx942:sramecc+.kpack",
        "../.kpack/a_gfx942:xnack-.kpack",
        "../.kpack/a_gfx942.kpack",
    ]
    assert expand("@GFXARCH@/@GFXARCH@", "gfx1100") == ["gfx1100/@GFXARCH@"]
    assert expand("fixed.kpack", "gfx942:xnack-") == ["fixed.kpack"]
