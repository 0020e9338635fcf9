"""Inputs that are made once and kept: named by what makes them, so that other code makes others.

Any state is a good start: what an interrupt left half made or changed is removed, as is what nothing asks for
any more.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from measured import fresh

from rocwright.system.files import walk_files

__all__ = ["identity", "kept", "spoiled"]

SOURCES = Path(__file__).resolve().parents[1] / "src" / "rocwright"
_CODE = (".py", ".toml")


def identity(rooms: tuple[str, ...], *of: Path) -> str:
    """Hex digits that change with the code of these rooms, and with files and the files of directories.

    Of code the content counts, of what else there is names, sizes and times.
    """
    told = hashlib.sha256()
    for room in rooms:
        for path in sorted(one for one in (SOURCES / room).rglob("*") if one.suffix in _CODE):
            told.update(
                f"{path.relative_to(SOURCES)}\0".encode() + hashlib.sha256(path.read_bytes()).digest()
            )
    for root in of:
        for path in [root] if root.is_file() else sorted(walk_files(root)):
            facts = path.lstat()
            name = os.path.relpath(path, root.parent)
            told.update(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return told.hexdigest()[:16]


def kept(work: Path, name: str, made_of: str, make: Callable[[Path], object]) -> Path:
    """The input below `work`; `make` makes it unless it is there. Others of its name are removed."""
    place = work / f"{name}-{made_of}"
    anew = _mark(place).exists()
    for other in sorted({*work.glob(name), *work.glob(f"{name}[-.]*")}):
        if other != place or anew:
            shutil.rmtree(other) if other.is_dir() else other.unlink(missing_ok=True)
    if not place.exists():
        work.mkdir(parents=True, exist_ok=True)
        beside = fresh(place.with_name(f"{place.name}.new"))
        make(beside)
        beside.rename(place)
    return place


@contextmanager
def spoiled(place: Path) -> Iterator[None]:
    """While the input is another one on purpose: what ends within leaves nothing that counts as the input."""
    _mark(place).touch()
    yield
    _mark(place).unlink()


def _mark(place: Path) -> Path:
    return place.with_name(f"{place.name}.spoiled")
