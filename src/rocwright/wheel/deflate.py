"""Compress members in blocks on several threads, in order and in bounded memory.

A member larger than one block is cut; each block starts from the last 32 KiB before it as its dictionary
and ends on a byte boundary (Z_SYNC_FLUSH), so the blocks joined are one ordinary deflate stream. The bytes
do not depend on the number of threads.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from rocwright.errors import InvalidInput
from rocwright.wheel.source import Source

BLOCK = 4 << 20
_DICTIONARY = 32 << 10
_SAMPLE = 128 << 10
_PAYS = 0.97  # below this ratio of compressed to raw bytes compression is worth an installer's time

_codec: Any
try:
    from zlib_ng import zlib_ng as _codec

    COMPRESSOR = f"zlib-ng (python-zlib-ng {metadata.version('zlib-ng')})"
except ImportError:
    _codec = zlib
    COMPRESSOR = f"zlib {zlib.ZLIB_RUNTIME_VERSION}"


# What a damaged stream raises; the faster compressor has an error of its own.
INFLATE_ERRORS: tuple[type[Exception], ...] = (zlib.error, _codec.error)


@dataclass(frozen=True)
class Block:
    """A piece of a member to read and perhaps compress; `level` None stores it."""

    name: str
    source: Source
    offset: int
    length: int
    last: bool
    level: int | None


@dataclass(frozen=True)
class Packed:
    """A block's outcome: what goes into the file, and what its digests are made from.

    `raw` is kept for blocks of a larger member, whose digests run over all of them; a member of one block
    brings its own `sha256` (hex) and `crc`.
    """

    data: bytes
    raw: bytes
    deflated: bool
    sha256: str | None = None
    crc: int = 0


def crc32(data: bytes, value: int = 0) -> int:
    """CRC-32 as zip archives use it, continued from `value`."""
    result: int = _codec.crc32(data, value)
    return result


def inflater() -> Any:
    """A decompressor of raw deflate streams like `zlib.decompressobj`; raises one of `INFLATE_ERRORS`."""
    return _codec.decompressobj(-15)


def pays(name: str, source: Source, level: int) -> bool:
    """Whether a large member compresses, judged from three samples of it."""
    size = source.size
    raw = packed = 0
    for offset in (0, size // 2, max(0, size - _SAMPLE)):
        data = _read(name, source, offset, min(_SAMPLE, size - offset))
        raw += len(data)
        packed += len(_codec.compress(data, level))
    return packed < raw * _PAYS


def blocks_of(name: str, source: Source, level: int | None) -> Iterator[Block]:
    """A member cut into blocks of 4 MiB; one empty block for an empty member."""
    size = source.size
    if level is not None and size > BLOCK and not pays(name, source, level):
        level = None
    for offset in range(0, max(size, 1), BLOCK):
        length = min(BLOCK, size - offset)
        yield Block(name, source, offset, length, offset + length == size, level)


def pack(block: Block) -> Packed:
    """Read one block and compress it; runs on any thread."""
    raw = _read(block.name, block.source, block.offset, block.length)
    whole = block.offset == 0 and block.last
    data, deflated = raw, False
    if block.level is not None and raw:
        data, deflated = _deflate(block, raw), True
        if whole and len(data) >= len(raw):
            data, deflated = raw, False
    if whole:
        return Packed(data, b"", deflated, hashlib.sha256(raw).hexdigest(), crc32(raw))
    return Packed(data, raw, deflated)


def _deflate(block: Block, raw: bytes) -> bytes:
    options: tuple[Any, ...] = (block.level, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY)
    if block.offset:
        start = max(0, block.offset - _DICTIONARY)
        options += (_read(block.name, block.source, start, block.offset - start),)
    stream = _codec.compressobj(*options)
    body: bytes = stream.compress(raw)
    body += stream.flush(zlib.Z_FINISH if block.last else zlib.Z_SYNC_FLUSH)
    return body


def _read(name: str, source: Source, offset: int, length: int) -> bytes:
    try:
        data = source.read_at(offset, length)
    except OSError as error:
        raise InvalidInput(f"cannot read the bytes of {name}: {error}", where=error.filename) from error
    if len(data) != length:
        raise InvalidInput(
            f"{name} became shorter while the wheel was being written",
            next_step="make sure that nothing writes to the inputs and run again",
        )
    return data
