"""The step that decides the sources of a project that stands on torch: one archive, for all machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rocwright.builder.decide.extension import Extension
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import IntegrityError
from rocwright.model.plan import Wanted, parse_extensions
from rocwright.pipeline.define.kinds import LOCK_EXTENSION
from rocwright.pipeline.extensions.sources import find_sdist, offers_of, source_index
from rocwright.pipeline.options import RunOptions
from rocwright.sources.project import ProjectSource, ProjectTree, from_sdist
from rocwright.system.files import atomic_write, sha256_file
from rocwright.system.venv import Closed
from rocwright.wheel.tags import parse_wheel_name


class LockedExtension(msgspec.Struct, frozen=True):
    """The sdist of a project's version, and where it came from."""

    project: str
    version: str
    path: str
    sha256: str
    origin: str


def wanted_of(options: RunOptions) -> Wanted:
    """The project and version of a step."""
    (wanted,) = parse_extensions([options.extension])
    return wanted


def lock_extension_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`lock-extension-…`: which sdist is meant, taken out of the machine's index into the run's store."""
    wanted = wanted_of(options)
    folder = options.workspace.root / "extensions" / wanted.project

    def act(_: Inputs, note: Note) -> LockedExtension:
        source = ProjectSource("release", wanted.project, version=wanted.version)
        with offers_of(Closed(index_url=source_index(os.environ)), folder, note) as offers:
            one = find_sdist(source, offers)
            path = _kept(offers.path(one), folder)
        return LockedExtension(wanted.project, wanted.version, str(path), sha256_file(path), one.link.url)

    return Step(
        id=LOCK_EXTENSION + wanted.project,
        result=LockedExtension,
        act=act,
        needs=needs,
        rooms=("pipeline/extensions", "sources"),
        facts=lambda: {"wanted": str(wanted)},
        outputs=lambda value: (Path(value.path),),
        summary=lambda value: f"{Path(value.path).name}, sha256 {value.sha256[:12]}",
    )


def _kept(path: Path, folder: Path) -> Path:
    """The file in the run's directory; of an index that is a folder it lies elsewhere."""
    if path.parent == folder:
        return path
    with atomic_write(folder / path.name) as stream:
        stream.write(path.read_bytes())
    return folder / path.name


def unpacked(locked: LockedExtension, row: Extension, folder: Path, note: Note) -> ProjectTree:
    """Its sources below `folder`, changed as its row says.

    Raises `IntegrityError` where the archive is another than was locked.
    """
    path = Path(locked.path)
    source = ProjectSource("release", locked.project, version=locked.version)
    tree = from_sdist(path, source, folder, origin=locked.origin, edits=lambda _: row.edits)
    for file in tree.changed:
        note(f"{file} is changed, as its row in extensions.toml says")
    if tree.sha256 != locked.sha256:
        raise IntegrityError(
            f"{path.name} has sha256 {tree.sha256}, and {locked.sha256} was locked",
            where=path,
            next_step="run the step that locks it again",
        )
    return tree


def sources_of_extensions(inputs: Inputs, files: Sequence[Path]) -> dict[str, str]:
    """Version and digest of the sources of each extension that has a wheel among the files of a set."""
    there = {str(parse_wheel_name(path.name).project) for path in files if path.suffix == ".whl"}
    return {
        one.project: f"{one.version} sha256:{one.sha256}"
        for one in inputs.values.values()
        if isinstance(one, LockedExtension) and one.project in there
    }
