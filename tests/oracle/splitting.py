"""Splits a library with the project and asks every oracle whether the result is right.

The splitting is the project's own; all judging is done by the other modules here, from the original file and
from what lies on the disk afterwards.
"""

from __future__ import annotations

import functools
import re
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oracle import elf_compare, fatbin_walk, loader
from oracle.elf_image import INTERP, read_image
from oracle.kpack_reader import Kpack, read_kpack
from rocwright.binary.view import mapped
from rocwright.device_code.archives import Stored, store
from rocwright.device_code.kpack import Marker
from rocwright.device_code.split import Kept, plan_library

GROUP = "fat"
SEARCH = "../.kpack/fat_@GFXARCH@.kpack"
UNREAD = "CCOB compressed by method 0"  # zlib: the stand-in runtime reads it as little as the real one


@dataclass(frozen=True)
class Split:
    """A library before and after: `host` is the new file, `archives` are by full target."""

    original: Path
    host: Path
    archives: Mapping[str, Path]
    kernel: str
    stored: Stored


def split(library: Path, into: Path, *, level: int = 3, threads: int = 2) -> Split | Kept | None:
    """Split into `into/lib/NAME` and `into/.kpack/fat_TARGET.kpack`, as an installation has them.

    Writes nothing for a library that is kept, or has no device code; errors are the project's.
    """
    kernel = f"lib/{library.name}"
    with mapped(library) as file:
        plan = plan_library(file, Marker((SEARCH,), kernel))
        if plan is None or isinstance(plan, Kept):
            return plan
        kpacks = into / ".kpack"
        stored = store([plan], lambda t: kpacks / f"fat_{t}.kpack", GROUP, level=level, threads=threads)
        archives = {target: kpacks / f"fat_{target}.kpack" for target in plan.targets}
        host = into / kernel
        host.parent.mkdir(parents=True, exist_ok=True)
        with host.open("wb") as stream:
            stream.writelines(plan.host.pieces())
        host.chmod(library.stat().st_mode & 0o7777)
    return Split(library, host, archives, kernel, stored)


def findings(done: Split) -> list[str]:
    """Everything the oracles have against a split; empty when it is right. Loads nothing."""
    found = elf_compare.compare(done.original, done.host, allow_moved_notes=True)
    return found + archive_findings(done)


def new_findings(done: Split) -> list[str]:
    """`findings`, without the kinds that the original, a damaged file, has itself."""
    own = {_kind(fault) for fault in elf_compare.faults(done.original)}
    return [found for found in findings(done) if _kind(found) not in own]


def _kind(finding: str) -> str:
    return re.sub(r"0x[0-9a-f]+|[0-9]+|\b[r-][w-][x-]", "#", finding)


def archive_findings(done: Split) -> list[str]:
    """What differs between the archives and the original's bundles, wrapper by wrapper."""
    wanted: dict[tuple[str, int, str], bytes] = {}
    for wrapper in fatbin_walk.walk(done.original):
        for name, code in wrapper.device.items():
            assert code.data is not None
            if code.data:
                wanted[done.kernel, wrapper.index, "gfx" + name.partition("-gfx")[2]] = code.data
    there = {file for path in done.archives.values() for file in path.parent.iterdir()}
    found = [f"unexpected file {file.name}" for file in there - set(done.archives.values())]
    wanted |= _repeated(wanted)
    got: dict[tuple[str, int, str], bytes] = {}
    for target, path in done.archives.items():
        archive: Kpack = read_kpack(path)
        if (archive.group_name, archive.arches) != (GROUP, (target,)):
            found.append(f"{path.name} is of group {archive.group_name} for {archive.arches}")
        got |= archive.entries
    found += [f"not in the archives: {key}" for key in wanted.keys() - got.keys()]
    found += [f"only in the archives: {key}" for key in got.keys() - wanted.keys()]
    found += [f"other code for {key}" for key in wanted.keys() & got.keys() if wanted[key] != got[key]]
    return found


def _repeated(wanted: Mapping[tuple[str, int, str], bytes]) -> dict[tuple[str, int, str], bytes]:
    """Code for a less specific target, once more in each more specific archive that would lack it."""
    more: dict[tuple[str, int, str], bytes] = {}
    for target in {target for _, _, target in wanted}:
        base, *features = target.split(":")
        for (kernel, index, other), data in sorted(wanted.items(), key=lambda row: row[0][2].count(":")):
            other_base, *fewer = other.split(":")
            if other_base == base and set(fewer) < set(features) and (kernel, index, target) not in wanted:
                more[kernel, index, target] = data
    return more


_ANSWER = """
import ctypes, sys
print(ctypes.CDLL(sys.argv[1]).fat_selftest())
"""


def runs(file: Path) -> str:
    """Empty when a fixture works in memory: its self test answers 42 (it unwinds the stack, too)."""
    if elf_kind(file) == "so":
        words = [sys.executable, "-S", "-E", "-c", _ANSWER, str(file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        good = done.returncode == 0 and done.stdout == "42\n"
    else:
        done = subprocess.run([str(file)], capture_output=True, text=True, check=False)
        good = done.returncode == 0
    return "" if good else f"{file.name}: status {done.returncode}: {done.stdout}{done.stderr}"


def elf_kind(file: Path) -> str:
    """ "so", "pie" or "exec", by the headers that the kernel reads."""
    data = file.read_bytes()
    kind, (table,), (count,) = (
        data[16],
        struct.unpack_from("<Q", data, 32),
        struct.unpack_from("<H", data, 56),
    )
    types = {struct.unpack_from("<I", data, table + 56 * number)[0] for number in range(count)}
    return "exec" if kind == 2 else "pie" if INTERP in types else "so"


def loads(
    done: Split, isa: str, workdir: Path, *, path: Path | None = None, fall_through: bool = False
) -> list[str]:
    """Compare what the stand-in runtime loads from the original with what it loads through the marker.

    `path` opens the split library under another name (a link to it).
    """
    opened = path or done.host
    before = _original(done.original, isa, workdir)
    if elf_kind(done.original) == "so":
        after = loader.load(opened, isa=isa, workdir=workdir, fall_through=fall_through)
        found = [error for error in (after.error, after.error_now) if error]
    else:
        after = loader.run_program(opened, isa=isa, workdir=workdir)
        found = [f"status {after.status}"] if after.status else []
    return found + _registrations(done, before, list(after))


@functools.cache
def _original(library: Path, isa: str, workdir: Path) -> list[loader.Registration]:
    if elf_kind(library) == "so":
        return list(loader.load(library, isa=isa, workdir=workdir))
    return list(loader.run_program(library, isa=isa, workdir=workdir))


def _registrations(
    done: Split, before: Sequence[loader.Registration], after: Sequence[loader.Registration]
) -> list[str]:
    found = []
    if not before or len(before) != len(after):
        found.append(f"{len(before)} registrations before, {len(after)} after")
    for old, new in zip(before, after, strict=False):
        what = f"wrapper {old.number}"
        if old.wrapper != new.wrapper or new.magic != loader.HIPK or new.kernel_name != done.kernel:
            found.append(f"{what} is registered as {new}")
        if new.low != old.number:
            found.append(f"{what} has index {new.low}")
        if old.reason == UNREAD and not new.reason:
            continue  # the archives were compared with the bundles already
        if bool(old.reason) != bool(new.reason):
            found.append(f"{what}: before {old.reason!r}, after {new.reason!r}")
        elif not old.reason and old.read() != new.read():
            found.append(f"{what}: other code is loaded")
    return found


def host_is_known(done: Split) -> bool:
    """Whether a second split leaves the host alone."""
    with mapped(done.host) as file:
        again = plan_library(file, Marker((SEARCH,), done.kernel))
    return isinstance(again, Kept) and again.already


def room(done: Split) -> str:
    """How the host got a program header for what lies behind the code, as seen from outside."""
    old, new = read_image(done.original), read_image(done.host)
    gone = [s.type for s in old.segments if s.type != 1]
    for segment in new.segments:
        if segment.type in gone:
            gone.remove(segment.type)
    if gone:
        return "slot"
    moved = [a.name for a, b in zip(old.sections, new.sections, strict=True) if a.addr != b.addr]
    if any(name.startswith((".note", ".interp")) for name in moved):
        return "notes"
    if any(a.vaddr > b.vaddr for a, b in zip(old.loads(), new.loads(), strict=False) if a.flags & 2):
        return "join"
    return "not needed"
