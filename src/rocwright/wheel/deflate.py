"""Compress members on several threads, in order and in bounded memory.

A member of up to `WHOLE` bytes is compressed in one go by libdeflate. A larger one is cut; each block starts
from the last 32 KiB before it as its dictionary and ends on a byte boundary (Z_SYNC_FLUSH), so the blocks
joined are one ordinary deflate stream; libdeflate has no dictionaries, so zlib-ng packs them. The bytes do
not depend on the number of threads.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from importlib import metadata
from types import MappingProxyType
from typing import Any

import msgspec

from rocwright.errors import InvalidInput, UsageError
from rocwright.wheel.source import Buffers, Source, read_into

BLOCK = 4 << 20
_MOST_WHOLE = 64 << 20
_DICTIONARY = 32 << 10
_SAMPLE = 128 << 10
_SAMPLE_LEVEL = 1
_PAYS = 0.97  # below this ratio of compressed to raw bytes compression is worth an installer's time
_MARGIN = 1.25  # a member may compress this much worse than its samples before the window is too small

_codec: Any
try:
    from zlib_ng import zlib_ng as _codec

    _BLOCKS_BY = f"zlib-ng (zlib-ng {metadata.version('zlib-ng')})"
except ImportError:
    _codec = zlib
    _BLOCKS_BY = f"zlib {zlib.ZLIB_RUNTIME_VERSION}"

_libdeflate: Any
try:
    import deflate as _libdeflate

    # How large a compressed member may be that is packed in one go.
    WHOLE = _MOST_WHOLE
    COMPRESSOR = f"libdeflate (deflate {metadata.version('deflate')}), above {WHOLE >> 20} MiB {_BLOCKS_BY}"
except ImportError:
    _libdeflate = None
    WHOLE = BLOCK
    COMPRESSOR = _BLOCKS_BY


# What a damaged stream raises; the faster compressor has an error of its own.
INFLATE_ERRORS: tuple[type[Exception], ...] = (zlib.error, _codec.error)


class Levels(msgspec.Struct, frozen=True):
    """How hard to compress.

    libdeflate's level (1 to 12) for members of up to one block and for larger ones, and the level of zlib-ng
    or zlib (1 to 9) for what is cut into blocks.
    """

    short: int
    whole: int
    blocks: int


# Seconds and bytes of a 63 MB library: fast 0.3, 22.0 MB; balanced 0.6, 20.2 MB; small 4.3, 19.6 MB. In
# blocks, level 5 takes zlib-ng as long as libdeflate's 6, for 1 % more than zlib's 6 gives; its own 6 takes a
# quarter longer for 0.5 % less. Short members, a tenth of ROCm's bytes, make up for that at the next level.
COMPRESSIONS: Mapping[str, Levels | None] = MappingProxyType(
    {"fast": Levels(1, 1, 2), "balanced": Levels(7, 6, 5), "small": Levels(10, 10, 9), "none": None}
)


class Block(msgspec.Struct, frozen=True):
    """A member, or a piece of one, to read and perhaps compress; `levels` None stores it.

    `weight` is how many bytes work on it holds at once: those read and those compressed.
    """

    name: str
    source: Source
    offset: int
    length: int
    last: bool
    levels: Levels | None
    weight: int

    @property
    def whole(self) -> bool:
        """Whether it is all of the member."""
        return self.offset == 0 and self.last


class Packed(msgspec.Struct, frozen=True):
    """A block's outcome: what goes into the file, and what its digests are made from.

    `raw` is kept for blocks of a larger member, whose digests run over all of them; a member of one block
    brings its own `sha256` (hex) and `crc`.
    """

    data: bytes | bytearray
    raw: bytes
    deflated: bool
    sha256: str | None = None
    crc: int = 0

    @property
    def weight(self) -> int:
        """Bytes it holds."""
        return len(self.data) + (0 if self.raw is self.data else len(self.raw))


def levels_of(compression: str) -> Levels | None:
    """The levels that a named compression stands for, None to store; raises `UsageError` for other names."""
    try:
        return COMPRESSIONS[compression]
    except KeyError:
        raise UsageError(
            f"{compression!r} is not a compression of wheels",
            next_step=f"choose one of {', '.join(COMPRESSIONS)}",
        ) from None


def crc32(data: bytes | memoryview, value: int = 0) -> int:
    """CRC-32 as zip archives use it, continued from `value`."""
    result: int = _codec.crc32(data, value)
    return result


def inflater() -> Any:
    """A decompressor of raw deflate streams like `zlib.decompressobj`; raises one of `INFLATE_ERRORS`."""
    return _codec.decompressobj(-15)


def sampled_ratio(name: str, source: Source, size: int) -> float:
    """About how many bytes of each byte remain once a large member is compressed, from three samples."""
    raw = packed = 0
    for offset in (0, size // 2, max(0, size - _SAMPLE)):
        data = _read(name, source, offset, min(_SAMPLE, size - offset))
        raw += len(data)
        packed += len(_codec.compress(data, _SAMPLE_LEVEL))
    return packed / raw


def blocks_of(name: str, source: Source, levels: Levels | None) -> Iterator[Block]:
    """A member as one block, or cut into blocks of 4 MiB; one empty block for an empty member."""
    size = source.size
    ratio = 1.0
    if levels is not None and size > BLOCK:
        ratio = sampled_ratio(name, source, size)
        if ratio >= _PAYS:
            levels = None
    share = 0.0 if levels is None else min(1.0, ratio * _MARGIN)
    step = max(size, 1) if size <= (_MOST_WHOLE if levels is None else WHOLE) else BLOCK
    for offset in range(0, max(size, 1), step):
        length = min(step, size - offset)
        yield Block(name, source, offset, length, offset + length == size, levels, int(length * (1 + share)))


def pack(block: Block, buffers: Buffers) -> Packed:
    """Read one block and compress it; runs on any thread."""
    if block.whole and block.levels is not None and block.length and _libdeflate is not None:
        level = block.levels.short if block.length <= BLOCK else block.levels.whole
        with buffers.lend(block.length) as view:
            _fill(block, view)
            return _finished(view, _libdeflate.deflate_compress(view, level))
    raw = _read(block.name, block.source, block.offset, block.length)
    if block.levels is None or not raw:
        return _finished(raw, None) if block.whole else Packed(raw, raw, False)
    packed = _deflate(block, raw, block.levels.blocks)
    return _finished(raw, packed) if block.whole else Packed(packed, raw, True)


def _finished(raw: bytes | memoryview, packed: bytes | bytearray | None) -> Packed:
    """A member of one block; stored where compressing it gains nothing."""
    deflated = packed is not None and len(packed) < len(raw)
    data = packed if packed is not None and deflated else bytes(raw)
    return Packed(data, b"", deflated, hashlib.sha256(raw).hexdigest(), crc32(raw))


def _deflate(block: Block, raw: bytes, level: int) -> bytes:
    options: tuple[Any, ...] = (level, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY)
    if block.offset:
        start = max(0, block.offset - _DICTIONARY)
        options += (_read(block.name, block.source, start, block.offset - start),)
    stream = _codec.compressobj(*options)
    body: bytes = stream.compress(raw)
    body += stream.flush(zlib.Z_FINISH if block.last else zlib.Z_SYNC_FLUSH)
    return body


def _fill(block: Block, view: memoryview) -> None:
    try:
        count = read_into(block.source, block.offset, view)
    except OSError as error:
        raise _unreadable(block.name, error) from error
    if count != len(view):
        raise _shorter(block.name)


def _read(name: str, source: Source, offset: int, length: int) -> bytes:
    try:
        data = source.read_at(offset, length)
    except OSError as error:
        raise _unreadable(name, error) from error
    if len(data) != length:
        raise _shorter(name)
    return data


def _unreadable(name: str, error: OSError) -> InvalidInput:
    return InvalidInput(f"cannot read the bytes of {name}: {error}", where=error.filename)


def _shorter(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} became shorter while the wheel was being written",
        next_step="make sure that nothing writes to the inputs and run again",
    )
