"""A strict second reader of `.kpack` archives and of the marker in a split library.

Written from the format's description alone. The project's own reader may be lenient where the runtime is;
this one refuses whatever deviates, with a `ValueError` that says where.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import zstandard

MOST_FRAMES = 1 << 20  # the runtime takes no more
GIB4 = 1 << 32
MARKER_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Kpack:
    """What one archive says and holds; `entries` maps (kernel name, index, arch) to the code object."""

    group_name: str
    family: str
    arches: tuple[str, ...]
    scheme: str
    entries: dict[tuple[str, int, str], bytes]
    metadata: dict[tuple[str, int, str], dict[str, str]]
    ordinals: dict[tuple[str, int, str], int]
    frame_sizes: tuple[int, ...]  # per ordinal: bytes as stored


@dataclass(frozen=True)
class Marker:
    """Where the runtime looks for archives, relative to the library's directory, and under which name."""

    search_paths: tuple[str, ...]
    kernel_name: str


def read_kpack(source: Path | str | bytes) -> Kpack:
    """Read and check a whole archive; `ValueError` on the first deviation from the format."""
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    _require(len(data) >= 64, f"{len(data)} bytes are less than a header")
    magic, version, toc_offset = struct.unpack_from("<4sIQ", data)
    _require(magic == b"KPAK", f"magic is {magic!r}, not KPAK")
    _require(version == 1, f"format version {version}, not 1")
    _require(not any(data[16:64]), "bytes 16 to 64 are not zero")
    _require(64 <= toc_offset < len(data), f"table at {toc_offset} lies outside 64..{len(data)}")
    toc = unpack_one(data[toc_offset:], "the table of contents")
    _require(isinstance(toc, dict), f"the table is a {type(toc).__name__}, not a map")
    arch = _check_head(toc)
    scheme = toc["compression_scheme"]
    _require(scheme in ("zstd-per-kernel", "none"), f"unknown compression_scheme {scheme!r}")
    frames = _zstd_frames if scheme == "zstd-per-kernel" else _plain_blobs
    blobs, sizes = frames(data, toc, toc_offset)
    return _gather(toc, arch, scheme, blobs, sizes)


def parse_marker(data: bytes) -> Marker:
    """Decode a marker that fills `data` exactly; `ValueError` says what is wrong with it."""
    _require(len(data) <= MARKER_LIMIT, f"the marker has {len(data)} bytes; the runtime reads {MARKER_LIMIT}")
    found = unpack_one(data, "the marker")
    _require(isinstance(found, dict), f"the marker is a {type(found).__name__}, not a map")
    keys = {"kpack_search_paths", "kernel_name"}
    own = set(found) - {"host_build"}  # ours, and passed over by AMD's readers
    _require(own == keys, f"the marker has the keys {sorted(map(str, found))}, not {sorted(keys)}")
    _require(_is_build(found.get("host_build", "0" * 32)), f"host_build is {found.get('host_build')!r}")
    paths, name = found["kpack_search_paths"], found["kernel_name"]
    _require(isinstance(paths, list) and bool(paths), f"kpack_search_paths is {paths!r}, not a list of paths")
    _require(all(isinstance(path, str) and path for path in paths), f"a search path in {paths!r} is no text")
    _require(isinstance(name, str) and bool(name), f"kernel_name is {name!r}, not text")
    return Marker(tuple(paths), name)


def expand(search_path: str, isa: str) -> list[str]:
    """The archives that the runtime tries for `search_path` on a GPU `isa`, the most specific first.

    The first `@GFXARCH@` becomes the ISA with every subset of its features, each in the ISA's order.
    """
    if "@GFXARCH@" not in search_path:
        return [search_path]
    base, *features = isa.split(":")
    subsets = [kept for count in range(len(features), -1, -1) for kept in combinations(features, count)]
    return [search_path.replace("@GFXARCH@", ":".join([base, *kept]), 1) for kept in subsets]


# -- the table ---------------------------------------------------------------------------------------------


def _check_head(toc: dict[Any, Any]) -> str:
    expected = {
        "format_version": int,
        "group_name": str,
        "gfx_arch_family": str,
        "gfx_arches": list,
        "toc": dict,
        "compression_scheme": str,
    }
    for key, kind in expected.items():
        _require(key in toc, f"the table lacks {key!r}")
        _require(type(toc[key]) is kind, f"{key!r} is a {type(toc[key]).__name__}, not {kind.__name__}")
    own = {"zstd-per-kernel": {"zstd_offset", "zstd_size"}, "none": {"blobs"}}
    allowed = expected.keys() | own.get(toc["compression_scheme"], set())
    unknown = set(toc) - allowed - {"host_builds"}  # ours, and passed over by AMD's readers
    _require(not unknown, f"unknown keys {sorted(map(str, unknown))}")
    names = {key.rpartition("#")[0] for key in toc["toc"]}
    builds = toc.get("host_builds", dict.fromkeys(names, "0" * 32))
    _require(set(builds) == names, f"host_builds is of {sorted(builds)}, the code of {sorted(names)}")
    _require(all(map(_is_build, builds.values())), f"host_builds is {builds!r}")
    _require(toc["format_version"] == 1, f"format_version {toc['format_version']}, not 1")
    arches = toc["gfx_arches"]
    _require(len(arches) == 1 and isinstance(arches[0], str), f"gfx_arches is {arches!r}, not one arch")
    arch = arches[0]
    _require(bool(arch) and "--" not in arch, f"{arch!r} is no arch")
    _require(toc["gfx_arch_family"] == arch, f"family {toc['gfx_arch_family']!r} is not the arch {arch!r}")
    _require(bool(toc["group_name"]), "group_name is empty")
    return str(arch)


def _is_build(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{32}", text) is not None


def _gather(toc: dict[str, Any], arch: str, scheme: str, blobs: list[bytes], sizes: list[int]) -> Kpack:
    entries, metadata, ordinals = {}, {}, {}
    for key, per_arch in toc["toc"].items():
        name, index = _split_key(key)
        _require(isinstance(per_arch, dict), f"{key!r} holds a {type(per_arch).__name__}, not a map")
        _require(list(per_arch) == [arch], f"{key!r} has arches {list(per_arch)}, not [{arch!r}]")
        found = per_arch[arch]
        ordinal = _check_entry(key, found, arch, len(blobs))
        blob, where = blobs[ordinal], (name, index, arch)
        size = found["original_size"]
        _require(len(blob) == size, f"{key!r}: frame {ordinal} decodes to {len(blob)} bytes, not {size}")
        entries[where], ordinals[where] = blob, ordinal
        metadata[where] = found.get("metadata", {})
    unused = set(range(len(blobs))) - set(ordinals.values())
    _require(not unused, f"no entry uses the frames {sorted(unused)}")
    return Kpack(
        toc["group_name"], toc["gfx_arch_family"], (arch,), scheme, entries, metadata, ordinals, tuple(sizes)
    )


def _split_key(key: object) -> tuple[str, int]:
    _require(isinstance(key, str), f"a key of toc is {key!r}, not text")
    name, mark, index = str(key).rpartition("#")
    good = bool(mark and name) and index.isascii() and index.isdigit() and str(int(index)) == index
    _require(good, f"{key!r} is not NAME#INDEX")
    _require("\\" not in name, f"{key!r} has a backslash")
    return name, int(index)


def _check_entry(key: str, found: object, arch: str, count: int) -> int:
    _require(isinstance(found, dict), f"{key!r}: the entry is a {type(found).__name__}, not a map")
    assert isinstance(found, dict)
    needed, optional = {"type", "ordinal", "original_size"}, {"metadata"}
    _require(needed <= set(found), f"{key!r} lacks {sorted(needed - set(found))}")
    _require(set(found) <= needed | optional, f"{key!r} has unknown keys {sorted(found)}")
    _require(found["type"] == "hsaco", f"{key!r}: type {found['type']!r}, not hsaco")
    for name in ("ordinal", "original_size"):
        _require(type(found[name]) is int and found[name] >= 0, f"{key!r}: {name} is {found[name]!r}")
    _require(found["ordinal"] < count, f"{key!r}: ordinal {found['ordinal']}, but {count} frames")
    about = found.get("metadata", {})
    _require(
        isinstance(about, dict) and all(isinstance(text, str) for pair in about.items() for text in pair),
        f"{key!r}: metadata is {about!r}, not texts",
    )
    if "target" in about:
        _require(_serves(about["target"], arch), f"{key!r}: target {about['target']!r}")
    return int(found["ordinal"])


def _serves(entry: str, arch: str) -> bool:
    """Whether the bundle's entry is for this arch, or for a less specific one that it also runs."""
    target, *features = entry.split(":")
    base, *all_features = arch.split(":")
    return target.endswith(f"-{base}") and set(features) <= set(all_features)


# -- the blobs ---------------------------------------------------------------------------------------------


def _zstd_frames(data: bytes, toc: dict[str, Any], toc_offset: int) -> tuple[list[bytes], list[int]]:
    for key in ("zstd_offset", "zstd_size"):
        _require(type(toc.get(key)) is int, f"{key} is {toc.get(key)!r}, not a number")
    start, size = toc["zstd_offset"], toc["zstd_size"]
    _require(start == 64, f"zstd_offset is {start}, not 64")
    _require(4 <= size <= GIB4, f"zstd_size {size} lies outside 4..4 GiB")
    _require(
        start + size == toc_offset, f"the zstd area ends at {start + size}, the table starts at {toc_offset}"
    )
    (count,) = struct.unpack_from("<I", data, start)
    _require(0 < count <= MOST_FRAMES, f"{count} frames; the runtime takes 1 to {MOST_FRAMES}")
    at, blobs, sizes = start + 4, [], []
    for ordinal in range(count):
        _require(at + 4 <= toc_offset, f"the length of frame {ordinal} lies beyond the zstd area")
        (length,) = struct.unpack_from("<I", data, at)
        at += 4
        _require(0 < length <= toc_offset - at, f"frame {ordinal} has {length} bytes, {toc_offset - at} left")
        blobs.append(_decode(data[at : at + length], ordinal))
        sizes.append(length)
        at += length
    _require(at == toc_offset, f"the frames end at {at}, the zstd area at {toc_offset}")
    return blobs, sizes


def _decode(frame: bytes, ordinal: int) -> bytes:
    try:
        header = zstandard.get_frame_parameters(frame)
        _require(header.dict_id == 0, f"frame {ordinal} needs the dictionary {header.dict_id}")
        known = header.content_size != zstandard.CONTENTSIZE_UNKNOWN
        _require(known, f"frame {ordinal} does not state its content size")
        decoder = zstandard.ZstdDecompressor().decompressobj()
        content = decoder.decompress(frame)
    except zstandard.ZstdError as error:
        raise ValueError(f"frame {ordinal} is no zstd frame: {error}") from error
    _require(decoder.eof, f"frame {ordinal} is cut short")
    _require(not decoder.unused_data, f"frame {ordinal}: {len(decoder.unused_data)} bytes behind the frame")
    _require(
        len(content) == header.content_size,
        f"frame {ordinal} has {len(content)} bytes, its header says {header.content_size}",
    )
    return content


def _plain_blobs(data: bytes, toc: dict[str, Any], toc_offset: int) -> tuple[list[bytes], list[int]]:
    places = toc.get("blobs")
    _require(isinstance(places, list), f"blobs is {places!r}, not an array")
    assert isinstance(places, list)
    at, blobs = 64, []
    for ordinal, place in enumerate(places):
        good = isinstance(place, dict) and set(place) == {"offset", "size"}
        _require(good and all(type(v) is int for v in place.values()), f"blob {ordinal} is {place!r}")
        _require(place["offset"] == at, f"blob {ordinal} starts at {place['offset']}, the last ended at {at}")
        _require(0 <= place["size"] <= toc_offset - at, f"blob {ordinal} of {place['size']} bytes is cut off")
        blobs.append(data[at : at + place["size"]])
        at += place["size"]
    _require(at == toc_offset, f"the blobs end at {at}, the table starts at {toc_offset}")
    return blobs, [len(blob) for blob in blobs]


# -- MessagePack -------------------------------------------------------------------------------------------

_FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
_FLOATS = {0xCA: "f", 0xCB: "d"}
_SIZED = {
    0xC4: ("bin", "B"),
    0xC5: ("bin", "H"),
    0xC6: ("bin", "I"),
    0xD9: ("str", "B"),
    0xDA: ("str", "H"),
    0xDB: ("str", "I"),
    0xDC: ("list", "H"),
    0xDD: ("list", "I"),
    0xDE: ("map", "H"),
    0xDF: ("map", "I"),
}


def unpack_one(data: bytes, what: str) -> Any:
    """Decode the one MessagePack value that fills `data`; map keys must be unique, extensions are refused."""
    value, end = _value(data, 0, what, 0)
    _require(end == len(data), f"{what}: {len(data) - end} bytes follow the value")
    return value


def _take(data: bytes, at: int, size: int, what: str) -> tuple[bytes, int]:
    _require(at + size <= len(data), f"{what}: cut short at {at}")
    return data[at : at + size], at + size


def _number(data: bytes, at: int, code: str, what: str) -> tuple[Any, int]:
    raw, at = _take(data, at, struct.calcsize(code), what)
    return struct.unpack(">" + code, raw)[0], at


def _value(data: bytes, at: int, what: str, depth: int) -> tuple[Any, int]:
    _require(depth < 16, f"{what}: nested too deep")
    (first,), at = _take(data, at, 1, what)
    if first <= 0x7F:
        return first, at
    if first >= 0xE0:
        return first - 256, at
    if first in _FIXED:
        return _FIXED[first], at
    if code := _NUMBERS.get(first) or _FLOATS.get(first):
        return _number(data, at, code, what)
    if first <= 0x8F:
        return _many(data, at, "map", first & 15, what, depth)
    if first <= 0x9F:
        return _many(data, at, "list", first & 15, what, depth)
    if first <= 0xBF:
        return _many(data, at, "str", first & 31, what, depth)
    _require(first in _SIZED, f"{what}: byte {first:#x} at {at - 1} starts no value of this format")
    kind, code = _SIZED[first]
    size, at = _number(data, at, code, what)
    return _many(data, at, kind, size, what, depth)


def _many(data: bytes, at: int, kind: str, size: int, what: str, depth: int) -> tuple[Any, int]:
    if kind in ("str", "bin"):
        raw, at = _take(data, at, size, what)
        try:
            return (raw.decode("utf-8") if kind == "str" else raw), at
        except UnicodeDecodeError as error:
            raise ValueError(f"{what}: text that is not UTF-8 before {at}") from error
    _require(size <= len(data) - at, f"{what}: {size} elements announced, {len(data) - at} bytes left")
    if kind == "list":
        items = []
        for _ in range(size):
            item, at = _value(data, at, what, depth + 1)
            items.append(item)
        return items, at
    pairs: dict[Any, Any] = {}
    for _ in range(size):
        key, at = _value(data, at, what, depth + 1)
        _require(isinstance(key, str), f"{what}: key {key!r} is no text")
        _require(key not in pairs, f"{what}: key {key!r} twice")
        pairs[key], at = _value(data, at, what, depth + 1)
    return pairs, at


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise ValueError(text)
