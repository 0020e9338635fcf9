"""How close checking a large wheel comes to inflating and digesting its members.

``python benchmarks/check.py PREFIX WORK`` makes a wheel of about 700 MB out of a ROCm prefix and keeps it
(`kept.py`): its files deflated, three large libraries stored besides, and thousands of modules in packages,
which an interpreter has to judge. Each side runs in a process of its own, in turn, with the start of Python,
whose bytecode is kept as it is where a command is installed. Ours is the whole command `rocwright check`. The
floor inflates every member with the fastest codec at hand and takes its sha256, the largest first, on two
threads; it compares nothing and looks at nothing. That modules compile is part of the contract, so `parsed`
is the floor with this done, too: a process beside it has the interpreter make the symbol table of each
module, the cheapest of its judgements, and nothing of it. `zipfile` is the standard library's own test of an
archive's CRCs.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import struct
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kept import identity, kept
from measured import ROCWRIGHT, Side, run, turns
from results import Figure, Report, Row, compared, ended, shown

from rocwright.system.files import walk_files
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.source import BytesSource, FileSource
from rocwright.wheel.write import Member, WheelPlan, write_wheel

MOST_CPU = 1.5  # of the floor, and of that which has modules judged
MOST_OF_CPU = 1.1  # wall, of CPU by threads
MOST_MEMORY = 200_000_000
THREADS = 2
SMALL_FILES, EACH = 5000, 100
STORED = 3
INPUT, PIECE = 128 << 10, 256 << 10
NAME = "benchmark"
# The code that writes the wheel.
WRITING = ("wheel", "system")
CONTRACT_BROKEN = 9  # findings are no failure of the measurement


# The wheel.


def wheel_of(prefix: Path, work: Path) -> Path:
    """The wheel to check, made unless it is there already.

    By a process of its own: what one has held counts as the peak of those that it starts.
    """

    def made(place: Path) -> None:
        run([sys.executable, __file__, prefix, place, "--side", "make"], sample=False)

    (wheel,) = kept(work, NAME, identity(WRITING, Path(__file__), prefix), made).glob("*.whl")
    return wheel


def make(prefix: Path, folder: Path) -> dict[str, object]:
    """Write the wheel."""
    folder.mkdir()
    files = [path for path in walk_files(prefix) if not path.is_symlink()]
    members = [
        Member(f"{NAME}/{path.relative_to(prefix).as_posix()}", FileSource(path), os.access(path, os.X_OK))
        for path in files
    ]
    largest = sorted(files, key=lambda path: -path.stat().st_size)
    members += [
        Member(f"{NAME}/stored/{path.name}", FileSource(path), compress=False)
        for path in largest[1 : 1 + STORED]
    ]
    members += [
        Member(f"{NAME}/modules/m{number // EACH}/m{number}.py", BytesSource(module(number)))
        for number in range(SMALL_FILES)
    ]
    # Outside of packages nothing would import the modules, so that none of them were judged.
    packages = {
        NAME,
        f"{NAME}/modules",
        *(f"{NAME}/modules/m{number}" for number in range(SMALL_FILES // EACH)),
    }
    members += [
        Member(f"{one}/__init__.py", BytesSource(b"from __future__ import annotations\n"))
        for one in sorted(packages)
    ]
    plan = WheelPlan(NAME, "1", Metadata(NAME, "1"), tuple(members))
    return {"bytes": write_wheel(plan, folder, threads=os.cpu_count() or THREADS, compression="fast").size}


def module(number: int) -> bytes:
    """A few kilobytes of Python, like no other: what modules have most of, constants and functions."""
    seeds = [(number * 2654435761 + i * 40503) % 2**32 for i in range(10 + number % 10)]
    functions = (
        f"VALUE_{seed} = {seed}\n\n\n"
        f"def scaled_{seed}(values, *, most=None):\n"
        f'    """Scale values by {seed % 97}, up to a limit."""\n'
        f"    if most is None:\n"
        f"        most = math.sqrt(VALUE_{seed})\n"
        f"    return [min(value * {seed % 97}, most) for value in values]\n\n\n"
        for seed in seeds
    )
    return "".join(('"""One of many modules."""\n\nimport math\n\n', *functions)).encode()


# The sides.


def codec() -> Any:
    """The fastest inflating module at hand."""
    for name in ("isal.isal_zlib", "zlib_ng.zlib_ng", "zlib"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise AssertionError


def floor(wheel: Path) -> dict[str, object]:
    """Inflate and digest every member."""
    library = codec()
    with zipfile.ZipFile(wheel) as archive:
        members = sorted(archive.infolist(), key=lambda info: -info.file_size)
    handle = os.open(wheel, os.O_RDONLY)

    def one(info: zipfile.ZipInfo) -> int:
        head = os.pread(handle, 30, info.header_offset)
        start = info.header_offset + 30 + sum(struct.unpack_from("<HH", head, 26))
        digest = hashlib.sha256()
        unpacker = library.decompressobj(-15) if info.compress_type else None
        for at in range(0, info.compress_size, INPUT):
            rest = os.pread(handle, min(INPUT, info.compress_size - at), start + at)
            if unpacker is None:
                digest.update(rest)
            while unpacker is not None and not unpacker.eof:
                piece = unpacker.decompress(rest, PIECE)
                digest.update(piece)
                rest = unpacker.unconsumed_tail
                if not rest and len(piece) < PIECE:
                    break
        digest.digest()
        return info.file_size

    with ThreadPoolExecutor(THREADS) as pool:
        size = sum(pool.map(one, members))
    return {"bytes": size, "codec": library.__name__}


def parsed(wheel: Path) -> dict[str, object]:
    """The floor, and beside it every module judged by the interpreter."""
    beside = subprocess.Popen(
        [sys.executable, __file__, "--wheel", str(wheel), "--side", "parse"], stdout=subprocess.DEVNULL
    )
    done = floor(wheel)
    assert beside.wait() == 0
    return done


def parse(wheel: Path) -> dict[str, object]:
    """Make the symbol table of every module, on one thread."""
    symtable = importlib.import_module("_symtable").symtable
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".py"):
                with contextlib.suppress(SyntaxError):
                    symtable(archive.read(info), "<module>", "exec")
    return {}


def plain(wheel: Path) -> dict[str, object]:
    """The standard library's test of every CRC, on one thread."""
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
    return {}


def compare(wheel: Path, runs: int) -> list[Row]:
    """All sides in turn."""
    ours = [ROCWRIGHT, "check", wheel, "--json", "--jobs", str(THREADS)]
    sides = {"ours": Side(ours, accept=(0, CONTRACT_BROKEN))}
    for side in ("floor", "parsed", "zipfile"):
        sides[side] = Side([sys.executable, __file__, "--wheel", wheel, "--side", side])
    measured = turns(sides, runs, sample=("ours",))
    with zipfile.ZipFile(wheel) as archive:
        members = len(archive.infolist())
    unpacked = measured.first["floor"].said["bytes"]
    what = f"a wheel of {shown(unpacked, 'B')} with {members:,} members checked"
    memory = Figure("memory", "B", measured.first["ours"].peak_anonymous, MOST_MEMORY)
    codec = measured.first["floor"].said["codec"]
    against = {
        "floor": f"only inflating ({codec}) and hashing it",
        "parsed": f"inflating ({codec}) and hashing it, and the symbol table of each module",
        "zipfile": "zipfile's test of its CRCs",
    }
    goals = {"floor": MOST_CPU, "parsed": MOST_CPU}
    return [
        compared(
            side,
            what,
            measured,
            against=text,
            sides=("ours", side),
            cpu=goals.get(side),
            of_cpu=MOST_OF_CPU if side == "floor" else None,
            threads=THREADS,
            more=[memory] if side == "floor" else (),
        )
        for side, text in against.items()
    ]


def main() -> int:
    """Run one side, or everything."""
    report = Report("check", __doc__)
    parser = report.parser
    parser.add_argument("prefix", type=Path, nargs="?", help="a ROCm prefix")
    parser.add_argument("work", type=Path, nargs="?", help="where the wheel is made")
    parser.add_argument("--wheel", type=Path, help="check this wheel instead")
    sides = {"floor": floor, "parsed": parsed, "parse": parse, "zipfile": plain}
    parser.add_argument("--side", choices=("make", *sides), help="run one side only, in this process")
    options = report.parse()
    if options.wheel is None and (options.prefix is None or options.work is None):
        parser.error("give a ROCm prefix and a directory to work in, or --wheel")
    if options.side == "make":
        print(json.dumps(make(options.prefix, options.work)))
        return 0
    wheel = options.wheel or wheel_of(options.prefix, options.work)
    if options.side:
        print(json.dumps(sides[options.side](wheel)))
        return 0
    report.add(*compare(wheel.resolve(), options.runs))
    return report.finish()


if __name__ == "__main__":
    ended(main)
