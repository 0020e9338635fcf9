"""What building on this machine needs: programs, ROCm's source, room on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rocwright.compat.doctor.values import Finding

# Measured: prefix 1.9, packages 0.5, build environment 1.9, two test environments and uv's cache 5.6 GB.
_DEMO_SPACE = 10_000_000_000
# Program, what the demo and every build need it for, the Debian package that has it.
PROGRAMS = (
    ("git", "check out sources", "git"),
    ("cc", "compile launchers for links to programs", "gcc"),
    ("g++", "build the PyTorch family", "g++"),
)
_MAKE = ("make", "run the commands of the README", "make")
_LEADING = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")


def building(
    which: Callable[[str], str | None], work_dir: Path, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Each program, ROCm's source, the disk, and variables that lead libraries astray."""
    for program, purpose, package in (*PROGRAMS, _MAKE):
        path = which(program)
        if path:
            yield Finding(program, "ok", path)
        else:
            yield Finding(program, "missing", f"needed to {purpose}", f"apt-get install {package}")
    if which("apt-get") and which("dpkg-deb"):
        yield Finding("rocm-source", "ok", "ROCm can be fetched from the distribution, without root")
    else:
        yield Finding("rocm-source", "missing", "no apt here to fetch ROCm with", "use --rocm-prefix DIR")
    yield _disk(work_dir)
    leading = [name for name in _LEADING if environ.get(name)]
    if leading:
        detail = f"{', '.join(leading)} set: libraries from there may be loaded first"
        yield Finding("environment", "note", detail, f"unset {' '.join(leading)}")


def _disk(directory: Path) -> Finding:
    existing = directory.resolve()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1e9:.1f} GB free, the demo needs about {_DEMO_SPACE / 1e9:.0f} GB"
    if free > _DEMO_SPACE:
        return Finding("disk", "ok", detail)
    return Finding("disk", "missing", detail, "free some space, or choose another --work-dir")
