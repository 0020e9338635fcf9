"""Reads ninja's log: what each step of a build took, also where no launcher stands before the compiler.

Source: https://ninja-build.org/manual.html#ref_log and versions 5 to 7 of the format, which differ in how
the command is hashed, and that is not read here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

LOG_NAME = ".ninja_log"
_VERSIONS = ("5", "6", "7")
_OBJECTS = (".o", ".obj")
_LIBRARIES = (".so", ".dll", ".exe", ".a", ".lib", ".pyd")


class NinjaStep(msgspec.Struct, frozen=True):
    """One output: wall seconds of the step that made it, which may have made others too."""

    output: str
    wall_s: float
    kind: str


def read_ninja_log(path: Path) -> list[NinjaStep]:
    """The last entry of each output of a log; several outputs of one step count once, by the first.

    An absent log, one of another version and broken lines give less or nothing: it is a second source.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    if not lines or lines[0].removeprefix("# ninja log v") not in _VERSIONS:
        return []
    newest: dict[str, tuple[int, int, str]] = {}
    for line in lines[1:]:
        fields = line.split("\t")
        if len(fields) != 5 or not (fields[0].isdigit() and fields[1].isdigit()):
            continue
        newest[fields[3]] = (int(fields[0]), int(fields[1]), fields[4])
    return [
        NinjaStep(output, (end - start) / 1000, _kind(output))
        for (start, end, _), output in _steps(newest).items()
    ]


def _steps(newest: dict[str, tuple[int, int, str]]) -> dict[tuple[int, int, str], str]:
    """First output of each step: start, end and command are the same for all that one step made."""
    first: dict[tuple[int, int, str], str] = {}
    for output, step in newest.items():
        first.setdefault(step, output)
    return first


def _kind(output: str) -> str:
    name = output.rpartition("/")[2]
    if name.endswith(_OBJECTS):
        # FindHIP's and CMake's HIP objects carry the source's ending: MatMul.hip.o.
        return "hip" if ".hip." in name or ".cu." in name else "host"
    return "link" if name.endswith(_LIBRARIES) or ".so." in name else "other"


def find_ninja_logs(directory: Path) -> list[Path]:
    """Logs below a source tree's build directories: of CMake, and of setuptools' extensions."""
    found: Iterable[Path] = directory.glob(f"build*/**/{LOG_NAME}")
    return sorted([*found, *directory.glob(LOG_NAME)])
