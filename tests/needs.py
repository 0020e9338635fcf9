"""What a test needs of the machine beside Python, and which package brings it.

A test that lacks something skips with one line that names the package; the end of a run sums up what was
skipped for want of what.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from rocwright.sdk.intake.distribution import this_machine

# By program or header: the package of Debian that brings it; all others have the name of their program.
PACKAGES = {
    "Python.h": "python3-dev",
    "clang++-19": "clang-19",
    "clang-offload-bundler": "clang-tools-19",
    "dpkg-deb": "dpkg",
    "ld.lld": "lld",
    "lld-link": "lld",
    "llvm-dlltool": "llvm",
    "llvm-mc": "llvm",
    "llvm-readobj": "llvm",
    "llvm-strip": "llvm",
    "ninja": "ninja-build",
    "objcopy": "binutils",
    "objdump": "binutils",
    "readelf": "binutils",
    "strip": "binutils",
    "x86_64-w64-mingw32-gcc": "gcc-mingw-w64-x86-64-win32",
    "xz": "xz-utils",
}
_LLVM = ("clang-offload-bundler", "ld.lld", "lld-link", "llvm-mc", "llvm-strip")
_REASON = re.compile(r"needs (?P<programs>.+) \(Debian: (?P<packages>[^)]+)\)")


def find_llvm_tool(name: str) -> Path | None:
    """An LLVM program: from ROCWRIGHT_TEST_LLVM_BIN (a directory), PATH, or the usual places; else None."""
    places = [Path(os.environ["ROCWRIGHT_TEST_LLVM_BIN"])] if "ROCWRIGHT_TEST_LLVM_BIN" in os.environ else []
    found = shutil.which(name)
    places += [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib").glob("llvm-*/bin"), reverse=True)
    places += sorted(Path("/opt").glob("rocm*/lib/llvm/bin"), reverse=True)
    return next((place / name for place in places if (place / name).exists()), None)


def find_lld() -> Path | None:
    """The `ld.lld` program, or None."""
    return find_llvm_tool("ld.lld")


def _find(name: str) -> object:
    if name == "Python.h":
        return (Path(sysconfig.get_path("include")) / name).exists()
    return find_llvm_tool(name) if name in _LLVM else shutil.which(name)


def lacking(*programs: str) -> str:
    """Why a test that needs these programs skips here; empty where all are there."""
    missing = [name for name in programs if not _find(name)]
    packages = sorted({PACKAGES.get(name, name) for name in missing})
    return f"needs {' '.join(missing)} (Debian: {' '.join(packages)})" if missing else ""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Marks a test that skips where a program is missing."""
    reason = lacking(*programs)
    return pytest.mark.skipif(bool(reason), reason=reason or "all there")


def need(*programs: str) -> None:
    """Skips the test that runs where a program is missing; for what tests call to make their files."""
    if reason := lacking(*programs):
        pytest.skip(reason)


def need_distribution(name: str) -> None:
    """Skips the test that runs on a machine of another distribution, whose ROCm is another or none."""
    if this_machine()[0] != name:
        pytest.skip(f"only on {name}: it asks for the ROCm of its packages")


needs_lld = needs("ld.lld")


def wanting(reasons: Iterable[str]) -> list[str]:
    """The reasons of skipped tests, summed up in lines: first what could be installed, then all others."""
    found = [(reason, _REASON.search(reason)) for reason in reasons]
    packages = Counter(match["packages"] for _, match in found if match)
    others = Counter(reason for reason, match in found if not match)
    lines = [f"skipped {count:>4}  for want of {names}" for names, count in packages.most_common()]
    if packages:
        names = sorted({name for joined in packages for name in joined.split()})
        lines.append(f"              they run after: apt-get install {' '.join(names)}")
    return lines + [f"skipped {count:>4}  {reason}" for reason, count in others.most_common()]
