"""Set a single split library back, with the archives beside it or in other parts of its split."""

from __future__ import annotations

import stat
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import msgspec

from rocwright.device_code.kpack import read_archive
from rocwright.device_code.origin import require_named, unlike_beside
from rocwright.device_code.source import find_sources, not_beside, open_path
from rocwright.device_code.split_file import read_split
from rocwright.device_code.unsplit import FatPlan, TargetChoice, plan_fat, prove_fat
from rocwright.errors import InvalidInput, UsageError
from rocwright.system.files import atomic_write


class LibraryUnsplit(msgspec.Struct, frozen=True):
    """What became of a split library; sizes in bytes.

    `objects` counts code objects as the runtime does, once for each wrapper and target; `identical` those
    that were read back from the fat library and equal the archives', none where nothing was written.
    """

    name: str
    split_size: int
    fat_size: int
    targets: tuple[str, ...]
    objects: int
    identical: int


def told(plan: FatPlan, identical: int) -> LibraryUnsplit:
    """What a plan makes of its library."""
    split = plan.split
    return LibraryUnsplit(split.name, split.file.size, plan.size, plan.targets, plan.objects, identical)


def unsplit_library(
    path: Path, dest: Path, *, targets: Collection[str] = (), dry_run: bool = False
) -> LibraryUnsplit:
    """Write the fat library to `dest`, with the code of its archives for these targets (none: all).

    An earlier one is replaced. With `dry_run` everything is read and decided, and nothing written. Raises
    `InvalidInput` and its children for a file that is not split, without archives or without those for a
    target, and for archives that are damaged or of another build; `UsageError` when the output would
    overwrite the input; `NoSpace`. Nothing is written then.
    """
    target = dest / path.name
    if target.exists() and target.samefile(path):
        raise UsageError(f"{target} would be overwritten", next_step="choose another --output-dir")
    with ExitStack() as stack:
        (source,) = find_sources([path], stack)
        split = read_split(source.name, source.open())
        if split is None:
            raise not_split(source.name, path)
        given = source.archives(split.marker)
        archives = [read_archive(one.open()) for one in given]
    if not archives:
        raise not_beside(source.name)
    choice = TargetChoice(targets)
    plan = plan_fat(split, archives, choice)
    choice.require_all(source.name)
    for one, archive in zip(given, archives, strict=True):
        if any(map(choice.wants, archive.targets)):
            require_named(one.name, one.path, unlike_beside(one))
    if dry_run:
        return told(plan, 0)
    with atomic_write(target) as stream:
        stream.writelines(plan.pieces())
        stream.flush()
        proven = prove_fat(plan, open_path(Path(stream.name)))
        Path(stream.name).chmod(stat.S_IMODE(path.stat().st_mode))
    return told(plan, proven)


def not_split(name: str, path: Path) -> InvalidInput:
    """The error for an input without a split library."""
    return InvalidInput(
        f"{name} is not split",
        where=path,
        next_step="give what `rocwright kpack split` wrote; `rocwright kpack list` shows what a file is",
    )
