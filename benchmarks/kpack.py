"""How close splitting a library comes to reading it once and compressing its device code.

``python benchmarks/kpack.py LIBRARY``: each side runs in a process of its own, in turn, several times;
seconds are of the work, without the start of Python. The floor reads every code object with one system call
and compresses it with the same zstd library at level 3, one after another on one thread; it writes and proves
nothing. A second floor also unpacks each frame and compares it, which shows what of our cost the proof is.
Our side is everything that `rocwright kpack split` does: relocations, host file, archives on disk, and,
unless measured without, unpacking every frame again and comparing it.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import zstandard
from measured import Side, Turns, turns
from results import Figure, Report, Row, compared, ended, row, seconds, shown

from rocwright.device_code.archives import split_library
from rocwright.device_code.fatbin import read_bundles

MOST_CPU = 1.25  # of the floor
MOST_OF_CPU = 1.1  # wall, of CPU by threads
MOST_COLD_WALL = 0.65  # of the floor, which has one thread
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


def split(library: Path, level: int, *, prove: bool) -> dict[str, object]:
    """Our side."""
    opened: list[str] = []
    started: list[str] = []

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            opened.append(str(arguments[0]))
        elif event in ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn"):
            started.append(event)

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as target:
        sys.addaudithook(audit)
        began, cpu = time.monotonic(), time.process_time()
        done = split_library(library, Path(target), level=level, threads=THREADS, prove=prove)
        wall, cpu = time.monotonic() - began, time.process_time() - cpu
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
        "temporary_files": sorted(written - results),
        "processes": started,
    }


def floor(library: Path, level: int, *, prove: bool = False) -> dict[str, object]:
    """The floor; with `prove` each frame is unpacked again and compared."""
    code = [(e.offset, e.size) for bundle in read_bundles(library) for e in bundle.entries if e.target]
    packer, unpacker, size = zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor(), 0
    began, cpu = time.monotonic(), time.process_time()
    with library.open("rb", buffering=0) as stream:
        for offset, length in code:
            stream.seek(offset)
            data = stream.read(length)
            frame = packer.compress(data)
            size += len(frame)
            assert not prove or unpacker.decompress(frame) == data
    return {
        "wall_s": time.monotonic() - began,
        "cpu_s": time.process_time() - cpu,
        "archive_bytes": size,
        "objects": len(code),
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


def compare(name: str, what: str, library: Path, runs: int, forget: bool, *options: str) -> Row:
    """Both sides in turn, the file's pages cached or forgotten before each; memory and files of ours."""
    prepare: Callable[[], object] = partial(drop_cache if forget else warm_cache, library)
    sides = {
        "ours": Side(command("split", library, 3, *options), prepare, inner=True),
        "floor": Side(command("floor", library), prepare, inner=True),
    }
    proving = not forget and not options
    if proving:
        sides["proving floor"] = Side(command("proving floor", library), prepare, inner=True)
    measured = turns(sides, runs, sample=("ours",))
    goals = {"wall": MOST_COLD_WALL} if forget else {"cpu": MOST_CPU, "of_cpu": MOST_OF_CPU}
    more = more_of(library, measured) if proving else []
    against = "reading it and one thread of zstd 3"
    return compared(name, what, measured, against=against, more=more, threads=THREADS, **goals)


def more_of(library: Path, measured: Turns) -> list[Figure]:
    """What is told of our side beside its time, and our CPU against the floor that proves."""
    first = measured.first["ours"]
    largest = max(
        max(e.offset + e.size for e in b.entries) - (0 if b.compressed else b.offset)
        for b in read_bundles(library)
    )
    proof = measured.cpu("ours") / measured.cpu("proving floor")
    return [
        Figure("CPU, the floor proving, too", "×", round(proof, 3), MOST_CPU),
        Figure("memory", "B", first.peak_anonymous, MOST_MEMORY + largest),
        Figure("temporary files", "", len(first.said["temporary_files"]), 0),
        Figure("processes", "", len(first.said["processes"]), 0),
        Figure("archives", "B", first.said["archive_bytes"]),
    ]


def linear(runs: int) -> Row:
    """CPU of one bundle in a library of 2,000 against one in a library of 250."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as directory:
        libraries = {count: synthetic(Path(directory) / str(count), count) for count in (250, 2000)}
        sides = {str(n): Side(command("split", one), inner=True) for n, one in libraries.items()}
        measured = turns(sides, runs)
    growth = measured.cpu("2000") / 2000 / (measured.cpu("250") / 250)
    figures = [Figure("CPU", "×", round(growth, 3), MOST_GROWTH)]
    figures += [
        seconds(f"CPU of one among {n}", measured.cpu(n) / int(n) * 1e3, measured.load, unit="ms")
        for n in sides
    ]
    what = "a bundle in a library of 2,000, against one in a library of 250"
    return row("linear", what, measured.load, figures, threads=THREADS, runs=runs)


def sizes(library: Path, levels: list[int]) -> list[Row]:
    """Bytes of all archives and CPU seconds at each level."""
    rows = []
    for level in levels:
        measured = turns({"ours": Side(command("split", library, level), inner=True)}, 1)
        figures = [
            Figure("archives", "B", measured.told("ours", "archive_bytes")),
            Figure("host file", "B", measured.told("ours", "host_bytes")),
            seconds("CPU", measured.cpu("ours"), measured.load),
        ]
        what = f"device code of {library.name.partition('.')[0]} at level {level} of zstd"
        rows.append(row(f"level {level}", what, measured.load, figures, threads=THREADS))
    return rows


def main() -> int:
    """Run one side, or everything."""
    report = Report("kpack", __doc__)
    parser = report.parser
    parser.add_argument("library", type=Path)
    parser.add_argument("--levels", default="3,9", help="levels whose bytes are told; 19 takes minutes")
    parser.add_argument("--side", choices=("split", "floor", "proving floor"))
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--unproven", action="store_true", help="do not unpack frames again")
    options = report.parse()
    library = options.library.resolve()
    if options.side == "split":
        print(json.dumps(split(library, options.level, prove=not options.unproven)))
        return 0
    if options.side is not None:
        print(json.dumps(floor(library, options.level, prove=options.side == "proving floor")))
        return 0
    objects = sum(bool(entry.target) for bundle in read_bundles(library) for entry in bundle.entries)
    name = library.name.partition(".")[0].removeprefix("lib")
    what = f"splitting {name} ({shown(library.stat().st_size, 'B')}, {objects:,} code objects), "
    proven, unproven = f"{what}every one compared", f"{what}frames not unpacked again"
    report.add(compare("split", proven, library, options.runs, False))
    report.add(compare("unproven", unproven, library, options.runs, False, "--unproven"))
    report.add(compare("cold", f"{proven}, the file not cached", library, options.runs, True))
    report.add(linear(options.runs))
    report.add(*sizes(library, [int(level) for level in options.levels.split(",")]))
    return report.finish()


if __name__ == "__main__":
    ended(main)
