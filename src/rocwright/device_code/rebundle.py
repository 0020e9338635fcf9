"""Write Clang offload bundles, raw or compressed, as the compiler lays them out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import zstandard

from rocwright.binary.dynamic import up
from rocwright.device_code.fatbin import HEADERS, PACKED_MAGIC, PREFIX, Bundle
from rocwright.device_code.unpack import COUNT, ENTRY, RAW_MAGIC

PAGE = 4096  # where bundles begin, and the code objects in them
_ZSTD = 1
_LEVEL = 3  # the compiler's own
_LARGEST_OLD = (1 << 32) - 1  # what header versions 1 and 2 can say


@dataclass(frozen=True)
class NewEntry:
    """An entry of a bundle to be written; the host's has no data."""

    id: str
    data: memoryview | bytes


def raw_bundle(entries: Sequence[NewEntry]) -> bytes:
    """A bundle with these entries in this order, each on a page of its own."""
    ids = [entry.id.encode("ascii") for entry in entries]
    header = len(RAW_MAGIC) + COUNT.size + sum(ENTRY.size + len(text) for text in ids)
    place, rows = up(header, PAGE), []
    for entry, text in zip(entries, ids, strict=True):
        place = up(place, PAGE)
        rows.append((place, ENTRY.pack(place, len(entry.data), len(text)) + text))
        place += len(entry.data)
    bundle = bytearray(max(place, header))
    bundle[:header] = RAW_MAGIC + COUNT.pack(len(entries)) + b"".join(row for _, row in rows)
    for entry, (offset, _) in zip(entries, rows, strict=True):
        bundle[offset : offset + len(entry.data)] = entry.data
    return bytes(bundle)


def packed_bundle(raw: bytes, version: int) -> bytes:
    """A raw bundle compressed by zstd, behind a header of `version`, or of 3 where the sizes need it."""
    stream = zstandard.ZstdCompressor(level=_LEVEL).compress(raw)
    digest = int.from_bytes(hashlib.md5(raw, usedforsecurity=False).digest()[:8], "little")
    if max(len(raw), len(stream) + PREFIX.size + HEADERS[version].size) > _LARGEST_OLD:
        version = 3
    layout = HEADERS[version]
    total = [] if version == 1 else [PREFIX.size + layout.size + len(stream)]
    return PREFIX.pack(PACKED_MAGIC, version, _ZSTD) + layout.pack(*total, len(raw), digest) + stream


def header_version(bundle: Bundle) -> int | None:
    """The header version of a compressed bundle; None for a raw one."""
    if bundle.packed is None:
        return None
    length = bundle.packed.start - bundle.packed.place - PREFIX.size
    return next(version for version, layout in HEADERS.items() if layout.size == length)
