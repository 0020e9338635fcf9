"""How close writing a wheel comes to reading, hashing and compressing the same bytes.

``python benchmarks/wheel_write.py DIRECTORY`` prints one JSON object. Each side runs in a process of its own,
so that CPU seconds and peak memory are its own; the file cache is warmed first. The floor reads every file
into memory that it reuses, hashes it and compresses it with libdeflate (files above 64 MiB in pieces of
16 MiB, so that all threads share them), largest first, on as many threads; it keeps no order and writes
nothing. The last figure compares the size with one zlib 6 stream for each file, stored where that is larger.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import deflate as libdeflate

from rocwright.system.files import walk_files
from rocwright.wheel import deflate
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.write import FileSource, Member, WheelPlan, write_wheel

MOST_WALL = 1.25  # of the floor
MOST_BYTES = 1.0  # of zlib 6
MOST_MEMORY = 300_000_000
PIECE = 16 << 20


def files_of(options: argparse.Namespace) -> list[Path]:
    """Regular files, links and what is excluded left out; or the one file given."""
    if not options.directory.is_dir():
        return [options.directory]
    return [
        path
        for path in walk_files(options.directory)
        if not path.is_symlink() and not any(fnmatch.fnmatch(path.name, name) for name in options.exclude)
    ]


def write(options: argparse.Namespace) -> dict[str, object]:
    """Our side: a whole wheel, on disk."""
    root = options.directory if options.directory.is_dir() else options.directory.parent
    members = tuple(
        Member(f"benchmark/{path.relative_to(root).as_posix()}", FileSource(path), os.access(path, os.X_OK))
        for path in files_of(options)
    )
    plan = WheelPlan("benchmark", "1", Metadata("benchmark", "1"), members)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as target:
        began = time.monotonic()
        written = write_wheel(plan, Path(target), threads=options.threads, compression=options.compression)
        wall = time.monotonic() - began
    return {
        "wall_s": round(wall, 3),
        "bytes": written.size,
        "input_bytes": written.stored_bytes,
        "with": written.compressor,
    }


def floor(options: argparse.Namespace) -> dict[str, object]:
    """The floor: read, hash and compress; no order, no file."""
    levels = deflate.levels_of(options.compression)
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
        return min(length, len(libdeflate.deflate_compress(view, levels.whole))) if levels else length

    jobs = []
    for path in files_of(options):
        size = path.stat().st_size
        step = max(size, 1) if size <= deflate.WHOLE else PIECE
        jobs += [(path, offset, min(step, size - offset)) for offset in range(0, size, step)]
    jobs.sort(key=lambda job: -job[2])
    began = time.monotonic()
    with ThreadPoolExecutor(options.threads) as pool:
        size = sum(pool.map(one, jobs))
    return {"wall_s": round(time.monotonic() - began, 3), "bytes": size}


def zlib6(options: argparse.Namespace) -> dict[str, object]:
    """Bytes of one stream of the standard library's zlib at level 6 for each file."""

    def one(path: Path) -> int:
        stream, size = zlib.compressobj(6, zlib.DEFLATED, -15), 0
        with path.open("rb") as file:
            while piece := file.read(deflate.BLOCK):
                size += len(stream.compress(piece))
        return min(size + len(stream.flush()), path.stat().st_size)

    began = time.monotonic()
    with ThreadPoolExecutor(options.threads) as pool:
        size = sum(pool.map(one, files_of(options)))
    return {"wall_s": round(time.monotonic() - began, 3), "bytes": size}


SIDES = {"write": write, "floor": floor, "zlib6": zlib6}


def measure(command: list[str]) -> dict[str, object]:
    """Run one side; its own figures with CPU seconds and peaks of memory, looked at every 10 ms."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    anonymous = 0
    while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
        anonymous = max(anonymous, anonymous_bytes(child.pid))
        time.sleep(0.01)
    _, status, usage = ended
    child.returncode = os.waitstatus_to_exitcode(status)
    with child.stdout as stream:
        output = stream.read()
    if child.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {child.returncode}")
    return json.loads(output) | {
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_anonymous_bytes": anonymous,
        "peak_rss_bytes": usage.ru_maxrss * 1024,
    }


def anonymous_bytes(pid: int) -> int:
    """Memory of a process that no file stands behind."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def main() -> int:
    """Run all sides and print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compression", choices=deflate.COMPRESSIONS, default="balanced")
    parser.add_argument("--exclude", action="append", default=[], help="file names to leave out (pattern)")
    parser.add_argument("--side", choices=SIDES, help="run one side only, in this process")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(SIDES[options.side](options)))
        return 0

    base = [sys.executable, __file__, str(options.directory)]
    base += ["--threads", str(options.threads), "--compression", options.compression]
    base += [f"--exclude={name}" for name in options.exclude]
    commands = {side: [*base, "--side", side] for side in SIDES}
    measure(commands["floor"])  # warms the file cache for all
    results = {side: measure(command) for side, command in commands.items()}
    ours, least, reference = results["write"], results["floor"], results["zlib6"]
    ratios = {
        "wall": round(float(str(ours["wall_s"])) / float(str(least["wall_s"])), 3),
        "bytes": round(float(str(ours["bytes"])) / float(str(reference["bytes"])), 3),
    }
    report = {
        "goal": f"wall at most {MOST_WALL} of the floor, bytes at most {MOST_BYTES} of zlib 6, "
        f"anonymous memory at most {MOST_MEMORY // 1_000_000} MB",
        "measured": ours | {"ratios": ratios},
        "floor": least,
        "zlib6": reference,
        "met": ratios["wall"] <= MOST_WALL
        and ratios["bytes"] <= MOST_BYTES
        and int(str(ours["peak_anonymous_bytes"])) <= MOST_MEMORY,
        "commands": {side: shlex.join(command) for side, command in commands.items()},
    }
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
