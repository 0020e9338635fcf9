"""The files in which device code is looked for: single ones, those below directories, members of wheels.

Each knows where the archives are to which a marker in it leads: beside it as installed, in the directories
beside `generic` that a split wrote, or in any of the wheels that are given together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from rocwright.device_code.kpack import SUFFIX, Marker
from rocwright.device_code.search import archives_among, archives_on_disk
from rocwright.device_code.source import Source, in_wheel, on_disk, open_path
from rocwright.device_code.tree.names import GENERIC, is_artifact, printable, read_artifact, served
from rocwright.errors import InvalidInput
from rocwright.system.files import walk_files
from rocwright.wheel.read import Wheel, open_wheel
from rocwright.wheel.stream import opened
from rocwright.wheel.together import installed_path, installed_together

WHEEL = ".whl"


@dataclass(frozen=True, kw_only=True)
class Given(Source):
    """A file that is looked into.

    `inside` is its path from what was given, `given` says that it was named itself. `archives` are the
    existing files to which a marker in it can lead.
    """

    inside: str
    given: bool
    archives: Callable[[Marker], list[Given]]


def find_sources(
    paths: Iterable[Path], stack: ExitStack, damaged: Callable[[InvalidInput], None]
) -> Iterator[Given]:
    """All files that are given, lie below given directories (links are not followed) or in wheels.

    Wheels come last: they are looked at together, and stay open until `stack` is closed. `damaged` is called
    with what is wrong with a wheel as a whole.
    """
    wheels: dict[Path, None] = {}
    for path in paths:
        for source in _on_disk(path):
            if source.path.name.endswith(WHEEL):
                wheels[source.path] = None
            else:
                yield source
    usable = []
    for path in wheels:
        try:
            usable.append(open_wheel(path))
        except InvalidInput as error:
            damaged(error)
    for together in installed_together(usable):
        yield from _members(together, stack)


def _on_disk(path: Path) -> Iterator[Given]:
    if not path.is_dir():
        if not path.is_file():
            raise InvalidInput(f"{printable(path)} is no file", where=path)
        yield _file(path, path.name, given=True)
        return
    for file in walk_files(path):
        if file.is_file() and not file.is_symlink():
            yield _file(file, file.relative_to(path).as_posix(), given=False)


def _file(path: Path, inside: str, *, given: bool) -> Given:
    def archives(marker: Marker) -> list[Given]:
        real = path.resolve()  # the runtime looks from where the file is, not from a link to it
        found = (one for place in (real, *_other_parts(real)) for one in archives_on_disk(place, marker))
        return [_file(Path(one), Path(one).name, given=False) for one in dict.fromkeys(found)]

    inside = printable(inside)
    source = on_disk(path, printable(path), inside)
    return Given(**vars(source), inside=inside, given=given, archives=archives)


def _other_parts(library: Path) -> Iterator[Path]:
    """Where a library of `generic` or `<name>_<component>_generic` would be in the parts beside that."""
    root = next((up for up in library.parents if up.name.rpartition("_")[2] == GENERIC), None)
    if root is None:
        return
    lead = root.name.removesuffix(GENERIC)
    inside = library.relative_to(root).as_posix()
    holding = [prefix for prefix in _prefixes(root) if inside.startswith(prefix)]
    installed = inside[len(max(holding, key=len, default="")) :]
    with suppress(OSError):
        for part in sorted(root.parent.iterdir()):
            own = part.name[len(lead) :] if part.name.startswith(lead) else ""
            if part == root or (served(own) and part.is_dir()):
                yield from (part / prefix / installed for prefix in _prefixes(part))


def _prefixes(root: Path) -> list[str]:
    """What an artifact's installation leaves out of paths, each with its slash; nothing for other trees."""
    with suppress(InvalidInput, OSError):
        if is_artifact(root):
            return [prefix and f"{prefix}/" for prefix in read_artifact(root).prefixes]
    return [""]


def _members(wheels: list[Wheel], stack: ExitStack) -> Iterator[Given]:
    """The files that wheels install together, but for their `.dist-info`."""
    there: dict[str, list[Given]] = {}

    def archives(library: str, marker: Marker) -> list[Given]:
        return list(chain.from_iterable(there[path] for path in archives_among(library, marker, there)))

    found = []
    for wheel in wheels:
        stream = stack.enter_context(opened(wheel))
        whole = open_path(wheel.path)
        for member in wheel.members:
            if member.name.startswith(f"{wheel.dist_info}/"):
                continue
            installed, inside = installed_path(wheel, member), printable(member.name)
            source = in_wheel(stream, whole, member, f"{printable(wheel.path)}: {inside}", installed)
            given = Given(**vars(source), inside=inside, given=False, archives=partial(archives, installed))
            found.append(given)
            if installed.endswith(SUFFIX):
                there.setdefault(installed, []).append(given)
    yield from found
