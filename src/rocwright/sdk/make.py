"""From any form of ROCm to its packages: a tree, split or not, artifacts, archives, Debian packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidInput, UsageError
from rocwright.sdk import stamp
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.archives import find_archives, unpack_artifacts
from rocwright.sdk.intake.artifacts import has_artifacts, read_artifacts
from rocwright.sdk.intake.deb_import import holds_packages, unpack_packages
from rocwright.sdk.intake.prefix import read_prefix
from rocwright.sdk.intake.tree import RocmTree
from rocwright.sdk.plan.release import Packaging
from rocwright.sdk.table import package_table
from rocwright.system.files import make_directory, remove_tree, require_space

# Where archives are unpacked; a killed run's is replaced by the next one.
_UNPACKED = ".rocwright-unpacked"
_LOG = ".rocwright-unpacked.log"


class Made(msgspec.Struct, frozen=True):
    """The packages, and whether they were there already, made of the same."""

    built: BuiltPackages
    unchanged: bool


def make_packages(
    sources: Sequence[Path],
    directory: Path,
    packaging: Packaging,
    *,
    version: str | None = None,
    artifacts: bool = False,
    overlay: Overlay | None = None,
    threads: int = 2,
    note: Callable[[str], None] = lambda _: None,
) -> Made:
    """Make the packages of a ROCm in `directory`, unless they lie there, made of the same by the same.

    `sources` is one installed tree (split or not), one directory of artifacts or of Debian packages, or
    archives of artifacts and directories of them; with `artifacts`, an installed tree is refused. `version`
    overrides what the ROCm says of itself; `overlay` may tell of further distributions. Raises as the readers
    and `build_packages`; `NoSpace` before anything is written.
    """
    if artifacts:
        _require_artifacts(sources)
    options: dict[str, object] = {
        "packaging": packaging,
        "version": version,
        "directory": str(directory.resolve()),
    }
    if overlay is not None and (rows := overlay.tables.get("distributions")):
        options["distributions"] = rows
    record = directory / stamp.NAME
    before = stamp.unchanged(record, options, sources, BuiltPackages)
    if before is not None:
        return Made(before, unchanged=True)
    begun = stamp.begin(record, options, sources)
    with opened(
        sources, directory, version=version, without=packaging.without, overlay=overlay, threads=threads
    ) as tree:
        require_space(directory.resolve(), tree.size // 3, purpose="the ROCm wheels")
        words = f"{len(tree.parts)} {'targets' if tree.split else 'families'}" if tree.parts else "one tree"
        note(f"ROCm {tree.version}: {len(tree.host.files)} files, {words}")
        built = build_packages(tree, directory, packaging, threads=threads, note=note)
    stamp.finish(begun, built, {Path(built.directory) / file.name: file.sha256 for file in built.files})
    return Made(built, unchanged=False)


@contextmanager
def opened(
    sources: Sequence[Path],
    scratch: Path,
    *,
    version: str | None = None,
    without: Sequence[str] = (),
    overlay: Overlay | None = None,
    threads: int = 2,
) -> Iterator[RocmTree]:
    """The ROCm that `sources` are; archives are unpacked below `scratch` for as long as it is open."""
    table = package_table()
    if not sources:
        raise UsageError("there is no ROCm to package", next_step="name its directory")
    if len(sources) == 1 and has_artifacts(sources[0]):
        yield read_artifacts(sources[0], table, version=version, without=without)
    elif all(_holds_archives(source) for source in sources):
        with _place(scratch) as place:
            unpack_artifacts(sources, place, threads=threads)
            yield read_artifacts(place, table, version=version, without=without)
    elif len(sources) == 1 and holds_packages(sources[0]):
        with _place(scratch) as place:
            made = unpack_packages(sources[0], place, log=scratch / _LOG, threads=threads, overlay=overlay)
            left_out = [(name, "no package of ROCm") for name in made.left_out]
            left_out += [
                (name, f"a package of {made.origin}'s ROCm that is not there") for name in made.missing
            ]
            yield replace(read_prefix(place, version=version), left_out=tuple(left_out))
    elif len(sources) == 1:
        yield read_prefix(sources[0], version=version)
    else:
        raise UsageError(
            "several inputs must all be archives of artifacts",
            next_step="name one ROCm installation, one directory of artifacts, or archives",
        )


@contextmanager
def _place(scratch: Path) -> Iterator[Path]:
    """Where to unpack to; nothing of it stays, and what a killed run left is replaced."""
    place = scratch / _UNPACKED
    make_directory(scratch)
    try:
        yield place
    finally:
        remove_tree(place)
        (scratch / _LOG).unlink(missing_ok=True)
        with suppress(OSError):
            scratch.rmdir()  # unless something was made in it


def _require_artifacts(sources: Sequence[Path]) -> None:
    for source in sources:
        if not has_artifacts(source):
            find_archives([source])  # says what is wrong with it


def _holds_archives(source: Path) -> bool:
    try:
        find_archives([source])
    except InvalidInput:
        return False
    return True
