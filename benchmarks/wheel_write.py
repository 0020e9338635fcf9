"""How close writing a wheel comes to reading, hashing and compressing the same bytes.

``python benchmarks/wheel_write.py DIRECTORY`` prints one JSON object. Each side runs in a process of its own,
so that CPU seconds and peak memory are its own; the file cache is warmed first. The floor reads every file in
blocks of 4 MiB, compresses each block for itself with the same library and level and hashes it, on as many
threads; it writes nothing. The last figure compares the size with one zlib 6 stream for each file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rocwright.system.files import walk_files
from rocwright.wheel import deflate
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.write import FileSource, Member, WheelPlan, write_wheel

MOST_WALL = 1.3  # of the floor
MOST_BYTES = 1.1  # of zlib 6
MOST_MEMORY = 300_000_000


def files_of(directory: Path) -> list[Path]:
    """Regular files, links left out; or the one file given."""
    return (
        [path for path in walk_files(directory) if not path.is_symlink()]
        if directory.is_dir()
        else [directory]
    )


def write(directory: Path, threads: int, level: int) -> dict[str, object]:
    """Our side: a whole wheel, on disk."""
    root = directory if directory.is_dir() else directory.parent
    members = tuple(
        Member(f"benchmark/{path.relative_to(root).as_posix()}", FileSource(path), os.access(path, os.X_OK))
        for path in files_of(directory)
    )
    plan = WheelPlan("benchmark", "1", Metadata("benchmark", "1"), members)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as target:
        began = time.monotonic()
        written = write_wheel(plan, Path(target), threads=threads, level=level)
        wall = time.monotonic() - began
    return {
        "wall_s": wall,
        "bytes": written.size,
        "input_bytes": written.stored_bytes,
        "with": written.compressor,
    }


def floor(directory: Path, threads: int, level: int) -> dict[str, object]:
    """The floor: read, compress and hash; no order, no dictionary, no file."""

    def block(job: tuple[Path, int]) -> int:
        data = FileSource(job[0]).read_at(job[1], deflate.BLOCK)
        hashlib.sha256(data).digest()
        return len(deflate._codec.compress(data, level))

    jobs = [
        (path, offset)
        for path in files_of(directory)
        for offset in range(0, path.stat().st_size, deflate.BLOCK)
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        size = sum(pool.map(block, jobs))
    return {"wall_s": time.monotonic() - began, "bytes": size}


def zlib6(directory: Path, threads: int, level: int) -> dict[str, object]:
    """Bytes of one stream of the standard library's zlib at level 6 for each file."""

    def one(path: Path) -> int:
        stream, size = zlib.compressobj(6, zlib.DEFLATED, -15), 0
        with path.open("rb") as file:
            while piece := file.read(deflate.BLOCK):
                size += len(stream.compress(piece))
        return size + len(stream.flush())

    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        size = sum(pool.map(one, files_of(directory)))
    return {"wall_s": time.monotonic() - began, "bytes": size}


SIDES = {"write": write, "floor": floor, "zlib6": zlib6}


def measure(command: list[str]) -> dict[str, object]:
    """Run one side; its own figures with CPU seconds and peak resident bytes."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    output = child.stdout.read()
    child.stdout.close()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with {child.returncode}")
    return json.loads(output) | {
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_rss_bytes": usage.ru_maxrss * 1024,
    }


def main() -> int:
    """Run all sides and print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--level", type=int, default=6)
    parser.add_argument("--side", choices=SIDES, help="run one side only, in this process")
    options = parser.parse_args()
    if options.side:
        result = SIDES[options.side](options.directory, options.threads, options.level)
        print(json.dumps(result))
        return 0

    base = [sys.executable, __file__, str(options.directory)]
    base += ["--threads", str(options.threads), "--level", str(options.level), "--side"]
    commands = {side: [*base, side] for side in SIDES}
    measure(commands["floor"])  # warms the file cache for all
    results = {side: measure(command) for side, command in commands.items()}
    ours, least, reference = results["write"], results["floor"], results["zlib6"]
    ratios = {
        "wall": round(float(str(ours["wall_s"])) / float(str(least["wall_s"])), 3),
        "bytes": round(float(str(ours["bytes"])) / float(str(reference["bytes"])), 3),
    }
    report = {
        "goal": f"wall at most {MOST_WALL} of the floor, bytes at most {MOST_BYTES} of zlib 6, "
        f"peak memory below {MOST_MEMORY // 1_000_000} MB",
        "measured": ours | {"ratios": ratios},
        "floor": least,
        "zlib6": reference,
        "met": ratios["wall"] <= MOST_WALL
        and ratios["bytes"] <= MOST_BYTES
        and int(str(ours["peak_rss_bytes"])) < MOST_MEMORY,
        "commands": {side: shlex.join(command) for side, command in commands.items()},
    }
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
