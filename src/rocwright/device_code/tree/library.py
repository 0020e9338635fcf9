"""Split one library or program: the host file and its archives, in a directory of their own."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rocwright.binary.view import mapped
from rocwright.device_code.archives import DEFAULT_LEVEL, Stored, store
from rocwright.device_code.kpack import DIRECTORY, PLACEHOLDER, SUFFIX, Marker
from rocwright.device_code.split import Kept, LibraryPlan, plan_library
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import is_target
from rocwright.system.files import CHUNK, atomic_write


@dataclass(frozen=True)
class LibrarySplit:
    """What became of one file: sizes in bytes; `archives` maps a target to its archive's size.

    `kept` is why the file stays whole (it was copied), None when it was split.
    """

    name: str
    fat_size: int
    host_size: int
    archives: dict[str, int]
    objects: int
    identical: int
    kept: str | None = None


def split_library(
    path: Path, dest: Path, *, level: int = DEFAULT_LEVEL, threads: int = 2, prove: bool = True
) -> LibrarySplit | None:
    """Write the host file to `dest` and its archives to `dest/.kpack`; None for a file without device code.

    A file that cannot be split is copied. Archives of an earlier split of the same file are replaced, those
    for targets it has no code for any more are removed. `prove` as for `store`. Raises `InvalidElf`,
    `InvalidBundle`, `NoSpace`, and `UsageError` when the output would overwrite the input; then nothing is
    written.
    """
    target = dest / path.name
    if target.exists() and path.exists() and target.samefile(path):
        raise UsageError(f"{target} would be overwritten", next_step="choose another --output-dir")
    if not path.is_file():
        raise InvalidInput(f"{path} is no file", where=path)
    name = path.name
    marker = Marker((f"{DIRECTORY}/{name}_{PLACEHOLDER}{SUFFIX}",), name)
    with mapped(path) as file:
        plan = plan_library(file, marker)
        if plan is None:
            return None
        stored = Stored()
        pieces = plan.host.pieces() if isinstance(plan, LibraryPlan) else _whole(path)
        # The host file appears last: without its archives it would be useless.
        with atomic_write(target) as stream:
            for piece in pieces:
                stream.write(piece)
            Path(stream.name).chmod(stat.S_IMODE(path.stat().st_mode))
            if isinstance(plan, LibraryPlan):
                stored = store(
                    [plan],
                    lambda t: _archive(dest, name, t),
                    name,
                    level=level,
                    threads=threads,
                    prove=prove,
                )
        _remove_stale(dest, name, stored)
    return LibrarySplit(
        name=name,
        fat_size=path.stat().st_size,
        host_size=target.stat().st_size,
        archives=dict(sorted(stored.packed.items())),
        objects=plan.objects if isinstance(plan, LibraryPlan) else 0,
        identical=stored.identical,
        kept=plan.reason if isinstance(plan, Kept) else None,
    )


def _archive(dest: Path, name: str, target: str) -> Path:
    return dest / DIRECTORY / f"{name}_{target}{SUFFIX}"


def _whole(path: Path) -> Iterable[bytes]:
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            yield piece


def _remove_stale(dest: Path, name: str, stored: Stored) -> None:
    """An archive of an earlier split would hand out code that belongs to another host file."""
    if not stored.packed:
        return
    for archive in (dest / DIRECTORY).glob(f"*{SUFFIX}"):
        prefix, text = archive.name[: len(name) + 1], archive.name[len(name) + 1 : -len(SUFFIX)]
        if prefix == f"{name}_" and text not in stored.packed and is_target(text):
            archive.unlink()
