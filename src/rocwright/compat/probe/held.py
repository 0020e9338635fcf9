"""What a torch's own directory holds: libraries, what they need, which targets they have device code for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rocwright.binary.elf import is_elf, read_elf
from rocwright.binary.view import mapped
from rocwright.compat.probe.values import DeviceCode, HeldLibrary
from rocwright.device_code.fatbin import targets
from rocwright.device_code.host import MARKER_SECTION
from rocwright.errors import InvalidInput

Marks = Mapping[str, Sequence[bytes]]
_NONE: Marks = {}


def look(package: Path, marks: Marks = _NONE) -> tuple[HeldLibrary, ...]:
    """The libraries of the installed package `torch` at this place, largest first.

    Reads headers only, but for `marks`: names of libraries, each with bytes that tell its templates, which
    are looked for in whole files. A file that cannot be read is told with its problem.
    """
    paths = {path for pattern in ("*.so*", "lib/*.so*") for path in package.glob(pattern) if is_elf(path)}
    found = [_look(path, path.relative_to(package).as_posix(), marks) for path in paths]
    return tuple(sorted(found, key=lambda one: (-one.size, one.file)))


def _look(path: Path, name: str, marks: Marks) -> HeldLibrary:
    try:
        size = path.stat().st_size
        elf = read_elf(path)
        code = tuple(sorted(targets(path)))
        with mapped(path) as file:
            seen = tuple(
                name for name, parts in marks.items() if any(file.data.find(part) >= 0 for part in parts)
            )
    except InvalidInput as error:
        return HeldLibrary(name, path.stat().st_size, problem=error.what)
    except OSError as error:
        return HeldLibrary(name, 0, problem=error.strerror or str(error))
    kind: DeviceCode = "inside" if code else "apart" if MARKER_SECTION in elf.sections else ""
    return HeldLibrary(name, size, needed=elf.needed, targets=code, device_code=kind, marks=seen)
