"""How close splitting a library comes to reading it once and compressing its device code.

``python benchmarks/kpack.py LIBRARY`` prints one JSON object. Each side runs in a process of its own, in
turn, several times; ratios are of the medians. The floor reads every code object with one system call and
compresses it with the same zstd library at level 3, one after another on one thread; it writes nothing and
proves nothing. Our side is everything that `rocwright kpack split` does: relocations, host file, archives on
disk, and, unless measured without, unpacking every frame again and comparing it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import zstandard

from rocwright.device_code.archives import split_library
from rocwright.device_code.fatbin import read_bundles

MOST_WALL = 0.65  # of the floor, on two threads
MOST_CPU = 1.3
MOST_MEMORY = 64 << 20  # and the largest bundle, unpacked
MOST_GROWTH = 1.3  # cost of one bundle among 2,000 to one among 250
THREADS = 2
TESTS = Path(__file__).resolve().parents[1] / "tests"


def drop_cache(path: Path) -> None:
    """Forget the file's pages, where the system does that for whoever may read it."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def warm_cache(path: Path) -> None:
    """Read the file once."""
    with path.open("rb", buffering=0) as stream:
        while stream.read(16 << 20):
            pass


class Watch(threading.Thread):
    """Samples this process's anonymous memory, every 5 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.done = threading.Event()

    def run(self) -> None:
        """Sample until told to stop."""
        while not self.done.wait(0.005):
            self.peak = max(self.peak, anonymous_bytes())


def anonymous_bytes() -> int:
    """RssAnon of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    raise SystemExit("this kernel does not report RssAnon")


def split(library: Path, level: int, *, prove: bool, watch: bool) -> dict[str, object]:
    """Our side."""
    opened: list[str] = []
    started: list[str] = []

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            opened.append(str(arguments[0]))
        elif event in ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn"):
            started.append(event)

    watcher = Watch()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as target:
        sys.addaudithook(audit)
        if watch:
            watcher.start()
        began, cpu = time.monotonic(), time.process_time()
        done = split_library(library, Path(target), level=level, threads=THREADS, prove=prove)
        wall, cpu = time.monotonic() - began, time.process_time() - cpu
        watcher.done.set()
        assert done is not None and done.kept is None and done.identical == (done.objects if prove else 0)
        written = {name.removesuffix(".partial") for name in opened}
        results = {str(path) for path in Path(target).rglob("*") if path.is_file()}
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "fat_bytes": done.fat_size,
        "host_bytes": done.host_size,
        "archive_bytes": sum(done.archives.values()),
        "objects": done.objects,
        "peak_anonymous_bytes": watcher.peak,
        "temporary_files": sorted(written - results),
        "processes": started,
    }


def floor(library: Path, level: int) -> dict[str, object]:
    """The floor."""
    code = [(e.offset, e.size) for bundle in read_bundles(library) for e in bundle.entries if e.target]
    packer, size = zstandard.ZstdCompressor(level=level), 0
    began, cpu = time.monotonic(), time.process_time()
    with library.open("rb", buffering=0) as stream:
        for offset, length in code:
            stream.seek(offset)
            size += len(packer.compress(stream.read(length)))
    return {
        "wall_s": time.monotonic() - began,
        "cpu_s": time.process_time() - cpu,
        "archive_bytes": size,
        "objects": len(code),
        "zstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
    }


def synthetic(directory: Path, bundles: int) -> Path:
    """A small library with this many bundles of two code objects, linked by the system's compiler."""
    sys.path.insert(0, str(TESTS))
    from oracle.fat_library import build_library, bundle

    def code(number: int, size: int) -> bytes:
        return b"".join(
            struct.pack("<IHH", i * 2654435761 % 2**32, number % 65536, i % 7) for i in range(size)
        )

    targets = ("hipv4-amdgcn-amd-amdhsa--gfx90a", "hipv4-amdgcn-amd-amdhsa--gfx942")
    made = [
        bundle([("host-x86_64-unknown-linux-gnu-", b""), *((t, code(n, 1024)) for t in targets)])
        for n in range(bundles)
    ]
    return build_library(directory, bundles=made)


def command(side: str, library: Path, level: int = 3, *options: str) -> list[str]:
    """The command line of one side."""
    return [sys.executable, __file__, str(library), "--side", side, "--level", str(level), *options]


def measure(argv: list[str]) -> dict[str, float]:
    """Run one side in a process of its own."""
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def compare(library: Path, runs: int, *, cold: bool, options: tuple[str, ...]) -> dict[str, object]:
    """Both sides in turn; medians and their ratios."""
    sides = {"split": command("split", library, 3, *options), "floor": command("floor", library)}
    seen: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(runs):
        for side, argv in sides.items():
            (drop_cache if cold else warm_cache)(library)
            seen[side].append(measure(argv))
    middle = {
        side: {key: statistics.median(run[key] for run in rows) for key in ("wall_s", "cpu_s")}
        for side, rows in seen.items()
    }
    ratio = {key: round(middle["split"][key] / middle["floor"][key], 3) for key in ("wall_s", "cpu_s")}
    return {
        "goal": {"wall": MOST_WALL, "cpu": MOST_CPU},
        "measured": {"wall": ratio["wall_s"], "cpu": ratio["cpu_s"]},
        "floor": middle["floor"],
        "ours": middle["split"],
        "met": ratio["wall_s"] <= MOST_WALL and ratio["cpu_s"] <= MOST_CPU,
        "runs": runs,
        "commands": {side: shlex.join(argv) for side, argv in sides.items()},
    }


def memory(library: Path) -> dict[str, object]:
    """Peak anonymous memory, temporary files and processes of one run."""
    largest = max(
        max(e.offset + e.size for e in b.entries) - (0 if b.compressed else b.offset)
        for b in read_bundles(library)
    )
    argv = command("split", library, 3, "--watch")
    run: dict[str, object] = dict(measure(argv))
    peak = run["peak_anonymous_bytes"]
    assert isinstance(peak, int)
    return {
        "goal": {"peak_anonymous_bytes": MOST_MEMORY + largest, "temporary_files": 0, "processes": 0},
        "measured": {
            "peak_anonymous_bytes": peak,
            "temporary_files": run["temporary_files"],
            "processes": run["processes"],
        },
        "met": peak <= MOST_MEMORY + largest and not run["temporary_files"] and not run["processes"],
        "commands": {"split": shlex.join(argv)},
    }


def linear(runs: int) -> dict[str, object]:
    """CPU of one bundle in a library of 2,000 against one in a library of 250."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        cost, commands = {}, {}
        for count in (250, 2000):
            argv = command("split", synthetic(Path(directory) / str(count), count))
            cost[count] = statistics.median(measure(argv)["cpu_s"] for _ in range(runs)) / count
            commands[str(count)] = shlex.join(argv)
    growth = round(cost[2000] / cost[250], 3)
    return {
        "goal": {"growth": MOST_GROWTH},
        "measured": {"growth": growth, "cpu_us_each": {str(n): round(c * 1e6) for n, c in cost.items()}},
        "met": growth <= MOST_GROWTH,
        "commands": commands,
    }


def sizes(library: Path, levels: list[int]) -> dict[str, object]:
    """Bytes of all archives and CPU seconds at each level."""
    rows = {}
    for level in levels:
        run = measure(command("split", library, level))
        rows[str(level)] = {"archive_bytes": run["archive_bytes"], "cpu_s": round(run["cpu_s"], 2)}
    return {"fat_bytes": run["fat_bytes"], "host_bytes": run["host_bytes"], "levels": rows}


def main() -> int:
    """Run one side, or everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--levels", default="3,9", help="levels whose bytes are printed; 19 takes minutes")
    parser.add_argument("--side", choices=("split", "floor"))
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--unproven", action="store_true", help="do not unpack frames again")
    parser.add_argument("--watch", action="store_true", help="sample memory")
    options = parser.parse_args()
    library = options.library.resolve()
    if options.side == "split":
        print(json.dumps(split(library, options.level, prove=not options.unproven, watch=options.watch)))
        return 0
    if options.side == "floor":
        print(json.dumps(floor(library, options.level)))
        return 0
    report = {
        "warm": compare(library, options.runs, cold=False, options=()),
        "warm, frames not unpacked again": compare(
            library, options.runs, cold=False, options=("--unproven",)
        ),
        "cold": compare(library, options.runs, cold=True, options=()),
        "memory": memory(library),
        "linear in bundles": linear(options.runs),
        "bytes": sizes(library, [int(level) for level in options.levels.split(",")]),
    }
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
