"""How close splitting a library comes to reading it once and compressing its device code.

``python benchmarks/kpack.py LIBRARY|WHEEL...``: each side runs in a process of its own, in turn, several
times; seconds are of the work, without the start of Python. Of a wheel each library with device code is
taken. The floor reads every code object with one system call and compresses it with the same zstd library at
level 3, one after another on one thread; it writes and proves nothing. A compressed bundle it reads with one
system call, unpacks once, and takes the MD5 that the header asks for; beside our side without proof it does
not. A second floor also unpacks each frame and compares it, which shows what of our cost the proof is. Our
side is everything that `rocwright kpack split` does: relocations, host file, archives on disk, and, unless
measured without, unpacking every frame again and comparing it. Of the first library there are more rows: with
the file not cached, and at other levels. ``--published DIRECTORY`` adds the libraries of two published
wheels, which it brings there once.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import zstandard
from measured import Side, Turns, give_up, turns
from results import Figure, Report, Row, compared, ended, row, seconds, shown

from rocwright.device_code.archives import split_library
from rocwright.device_code.fatbin import Bundle, read_bundles

MOST_CPU = 1.25  # of the floor
MOST_OF_CPU = 1.1  # wall, of CPU by threads
MOST_COLD_WALL = 0.65  # of the floor, which has one thread
MOST_MEMORY = 64 << 20  # and the largest bundle, unpacked
ZSTD = 1  # in the header of a compressed bundle
MOST_GROWTH = 1.3  # cost of one bundle among 2,000 to one among 250
THREADS = 2
TESTS = Path(__file__).resolve().parents[1] / "tests"
# Of the corpus of the tests: 760 raw code objects, and 45 compressed bundles.
PUBLISHED = ("onnxruntime-rocm", "jax-rocm7-pjrt")
ROWS = ("split", "unproven", "cold", "linear", "levels")
# What is told of both sides.
HOW = {
    "split": "every one compared",
    "unproven": "frames not unpacked again",
    "cold": "every one compared, the file not cached",
}
UNPACKED = {
    "split": "unpacking it, MD5, one thread of zstd 3",
    "unproven": "unpacking it, one thread of zstd 3",
    "cold": "unpacking it, MD5, one thread of zstd 3",
}


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


def floor(library: Path, level: int, *, hashed: bool = True, prove: bool = False) -> dict[str, object]:
    """The floor; with `prove` each frame is unpacked again and compared."""
    bundles = read_bundles(library)
    packer, unpacker, size, objects = (
        zstandard.ZstdCompressor(level=level),
        zstandard.ZstdDecompressor(),
        0,
        0,
    )
    began, cpu = time.monotonic(), time.process_time()
    with library.open("rb", buffering=0) as stream:
        for bundle in bundles:
            for data in code_of(stream.fileno(), bundle, hashed=hashed):
                frame = packer.compress(data)
                size, objects = size + len(frame), objects + 1
                assert not prove or unpacker.decompress(frame) == data
    return {
        "wall_s": time.monotonic() - began,
        "cpu_s": time.process_time() - cpu,
        "archive_bytes": size,
        "objects": objects,
    }


def code_of(handle: int, bundle: Bundle, *, hashed: bool) -> Iterator[bytes | memoryview]:
    """The code objects of a bundle, read with as few system calls as can be."""
    code = [(entry.offset, entry.size) for entry in bundle.entries if entry.target]
    if (packed := bundle.packed) is None:
        yield from (os.pread(handle, size, offset) for offset, size in code)
        return
    stream = os.pread(handle, packed.stop - packed.start, packed.start)
    if packed.method == ZSTD:
        data = zstandard.ZstdDecompressor().decompress(stream, packed.unpacked, allow_extra_data=True)
    else:
        data = zlib.decompressobj().decompress(stream)
    if hashed:
        digest = hashlib.md5(data, usedforsecurity=False).digest()[:8]
        assert int.from_bytes(digest, "little") == packed.digest
    whole = memoryview(data)
    yield from (whole[offset : offset + size] for offset, size in code)


def synthetic(directory: Path, bundles: int, *, compressed: bool = False) -> Path:
    """A small library with this many bundles of two code objects, linked by the system's compiler."""
    sys.path.insert(0, str(TESTS))
    from oracle.fat_library import build_library, bundle, ccob

    def code(number: int, size: int) -> bytes:
        return b"".join(
            struct.pack("<IHH", i * 2654435761 % 2**32, number % 65536, i % 7) for i in range(size)
        )

    targets = ("gfx90a", "gfx942")
    made = [bundle((target, code(number, 1024)) for target in targets) for number in range(bundles)]
    library: Path = build_library(directory, bundles=list(map(ccob, made)) if compressed else made)
    return library


# The libraries.


@dataclass(frozen=True)
class Input:
    """A library to measure."""

    path: Path
    bundles: tuple[Bundle, ...]

    @property
    def name(self) -> str:
        """As in the ids of rows."""
        return self.path.name.partition(".")[0].removeprefix("lib")

    @property
    def compressed(self) -> bool:
        """Whether its code has to be unpacked."""
        return any(bundle.compressed for bundle in self.bundles)

    def __str__(self) -> str:
        objects = sum(bool(entry.target) for bundle in self.bundles for entry in bundle.entries)
        told = f"{shown(self.path.stat().st_size, 'B')}, {objects:,} code objects"
        if packed := [bundle for bundle in self.bundles if bundle.compressed]:
            unpacked = shown(sum(bundle.memory for bundle in packed), "B")
            told += f" in {len(packed):,} compressed bundles of {unpacked}"
        return f"{self.name} ({told})"


@contextmanager
def inputs_of(path: Path, scratch: Path | None = None) -> Iterator[list[Input]]:
    """A library, or those of a wheel, laid out below `scratch` as long as this is open."""
    if path.suffix != ".whl":
        yield with_code([path])
        return
    with tempfile.TemporaryDirectory(dir=scratch or os.environ.get("TMPDIR")) as place:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if ".so" in Path(name).name]
            archive.extractall(place, members)
        yield with_code([Path(place, name) for name in members])


def with_code(paths: list[Path]) -> list[Input]:
    """Those that have device code; one at least."""
    found = [Input(path, bundles) for path in paths if (bundles := read_bundles(path))]
    return found or give_up(f"no device code in {', '.join(path.name for path in paths) or 'no library'}")


def published(directory: Path) -> list[Path]:
    """The published wheels, as they are frozen for the tests."""
    sys.path.insert(0, str(TESTS))
    from real import corpus

    return [corpus.fetch(corpus.item(name), directory) for name in PUBLISHED]


# The rows.


def command(side: str, library: Path, level: int = 3, *options: str) -> list[str]:
    """The command line of one side."""
    return [sys.executable, __file__, str(library), "--side", side, "--level", str(level), *options]


def compare(one: Input, kind: str, runs: int) -> Row:
    """Both sides in turn, the file's pages cached or forgotten before each; memory and files of ours."""
    prepare: Callable[[], object] = partial(drop_cache if kind == "cold" else warm_cache, one.path)

    def side(name: str, *options: str) -> Side:
        return Side(command(name, one.path, 3, *options), prepare, inner=True)

    if kind == "unproven":
        sides = {"ours": side("split", "--unproven"), "floor": side("unhashed floor")}
    else:
        sides = {"ours": side("split"), "floor": side("floor")}
    if kind == "split":
        sides["proving floor"] = side("proving floor")
    measured = turns(sides, runs, sample=("ours",))
    goals = {"wall": MOST_COLD_WALL} if kind == "cold" else {"cpu": MOST_CPU, "of_cpu": MOST_OF_CPU}
    return compared(
        f"{kind} {one.name}",
        f"splitting {one}, {HOW[kind]}",
        measured,
        against=UNPACKED[kind] if one.compressed else "reading it and one thread of zstd 3",
        more=more_of(one, measured) if kind == "split" else [],
        threads=THREADS,
        **goals,
    )


def more_of(one: Input, measured: Turns) -> list[Figure]:
    """What is told of our side beside its time, and our CPU against the floor that proves."""
    first = measured.first["ours"]
    largest = max(
        max(e.offset + e.size for e in b.entries) - (0 if b.compressed else b.offset) for b in one.bundles
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


def sizes(one: Input, levels: list[int]) -> list[Row]:
    """Bytes of all archives and CPU seconds at each level."""
    rows = []
    for level in levels:
        measured = turns({"ours": Side(command("split", one.path, level), inner=True)}, 1)
        figures = [
            Figure("archives", "B", measured.told("ours", "archive_bytes")),
            Figure("host file", "B", measured.told("ours", "host_bytes")),
            seconds("CPU", measured.cpu("ours"), measured.load),
        ]
        what = f"device code of {one.name} at level {level} of zstd"
        rows.append(row(f"level {level} {one.name}", what, measured.load, figures, threads=THREADS))
    return rows


def measure(report: Report, one: Input, rows: tuple[str, ...], runs: int, levels: list[int]) -> None:
    """These rows of a library."""
    for kind in rows:
        if kind == "linear":
            report.add(linear(runs))
        elif kind == "levels":
            report.add(*sizes(one, levels))
        else:
            report.add(compare(one, kind, runs))


def main() -> int:
    """Run one side, or everything."""
    report = Report("kpack", __doc__)
    parser = report.parser
    parser.add_argument("inputs", type=Path, nargs="+", metavar="library", help="a library or a wheel")
    parser.add_argument(
        "--published", type=Path, metavar="DIRECTORY", help="published wheels, too, kept here"
    )
    parser.add_argument("--only", choices=ROWS, action="append", help="measure these rows only")
    parser.add_argument("--levels", default="3,9", help="levels whose bytes are told; 19 takes minutes")
    parser.add_argument("--side", choices=("split", "floor", "unhashed floor", "proving floor"))
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--unproven", action="store_true", help="do not unpack frames again")
    options = report.parse()
    paths = [path.resolve() for path in options.inputs]
    if options.side == "split":
        print(json.dumps(split(paths[0], options.level, prove=not options.unproven)))
        return 0
    if options.side is not None:
        kind = {"unhashed floor": {"hashed": False}, "proving floor": {"prove": True}}.get(options.side, {})
        print(json.dumps(floor(paths[0], options.level, **kind)))
        return 0
    rows = tuple(row for row in ROWS if row in (options.only or ROWS))
    levels = [int(level) for level in options.levels.split(",")]
    if options.published:
        paths += published(options.published.resolve())
    for path in paths:
        with inputs_of(path, options.published) as found:
            for one in found:
                measure(report, one, rows, options.runs, levels)
                # What is told of the first library alone.
                rows = tuple(row for row in rows if row in ("split", "unproven"))
    return report.finish()


if __name__ == "__main__":
    ended(main)
