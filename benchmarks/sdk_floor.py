"""The least that making wheels takes: read, hash and deflate the bytes that get deflated.

``python benchmarks/sdk_floor.py inflate DIRECTORY WHEEL...`` unpacks the deflated members of wheels, each to
a file of its own, and prints their bytes on both sides. ``floor DIRECTORY`` reads every such file into memory
that it reuses, takes its sha256 and compresses it with libdeflate 6, the largest first, on N threads; what is
above 64 MiB goes in pieces of 16 MiB, so that all threads share it. It keeps no order and writes nothing.
``zlib6 DIRECTORY`` gives the bytes of one
zlib 6 stream for each file, stored where that is larger.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import threading
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deflate as libdeflate

WHOLE = 64 << 20
PIECE = 16 << 20
LEVEL = 6


def inflate(directory: Path, wheels: list[Path], threads: int) -> dict[str, object]:
    """Deflated members of wheels as files, `<directory>/<wheel's stem>/<member>`."""

    def one(wheel: Path) -> tuple[int, int, int]:
        packed = raw = members = 0
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                if info.compress_type != zipfile.ZIP_DEFLATED:
                    continue
                target = directory / wheel.stem / info.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(info) as source, target.open("wb") as stream:
                    shutil.copyfileobj(source, stream, 1 << 20)
                packed, raw, members = packed + info.compress_size, raw + info.file_size, members + 1
        return packed, raw, members

    with ThreadPoolExecutor(threads) as pool:
        rows = list(pool.map(one, wheels))
    return dict(zip(("packed", "raw", "members"), map(sum, zip(*rows, strict=True)), strict=True))


def files_of(directory: Path) -> list[Path]:
    """Every file below but links, the largest first."""
    found = [path for path in directory.rglob("*") if path.is_file() and not path.is_symlink()]
    return sorted(found, key=lambda path: -path.stat().st_size)


def floor(directory: Path, threads: int) -> dict[str, object]:
    """Read, hash and deflate."""
    mine = threading.local()

    def one(job: tuple[Path, int, int]) -> int:
        path, offset, length = job
        if len(getattr(mine, "buffer", b"")) < length:
            mine.buffer = bytearray(length)
        view = memoryview(mine.buffer)[:length]
        with path.open("rb", buffering=0) as stream:
            stream.seek(offset)
            stream.readinto(view)
        hashlib.sha256(view).digest()
        return len(libdeflate.deflate_compress(view, LEVEL))

    jobs = []
    for path in files_of(directory):
        size = path.stat().st_size
        step = size if size <= WHOLE else PIECE
        jobs += [(path, offset, min(step, size - offset)) for offset in range(0, size, step)]
    jobs.sort(key=lambda job: -job[2])
    with ThreadPoolExecutor(threads) as pool:
        return {"packed": sum(pool.map(one, jobs))}


def zlib6(directory: Path, threads: int) -> dict[str, object]:
    """Bytes of the standard library's zlib at level 6, the same in each wheel's every member."""

    def one(path: Path) -> int:
        stream, size = zlib.compressobj(6, zlib.DEFLATED, -15), 0
        with path.open("rb") as file:
            while piece := file.read(4 << 20):
                size += len(stream.compress(piece))
        return min(size + len(stream.flush()), path.stat().st_size)

    with ThreadPoolExecutor(threads) as pool:
        return {"packed": sum(pool.map(one, files_of(directory)))}


def main() -> int:
    """Run one of the three."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("side", choices=("inflate", "floor", "zlib6"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("wheels", type=Path, nargs="*")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.side == "inflate":
        result = inflate(options.directory, options.wheels, options.threads)
    else:
        result = {"floor": floor, "zlib6": zlib6}[options.side](options.directory, options.threads)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
