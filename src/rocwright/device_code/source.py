"""Files that may hold device code, on disk or in open wheels, and the archives to which their markers lead.

`Source` is such a file wherever it lies. `find_sources` looks for them: single ones, those below directories,
members of wheels. A marker leads to archives by where both lie, as it does for the runtime: beside the
library as installed, in the directories beside `generic` that a split wrote, or in any of the wheels that are
given together.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path

import msgspec

from rocwright.binary.view import Mapped, mapped, spooled, window
from rocwright.device_code.kpack import PLACEHOLDER, SUFFIX, Marker
from rocwright.device_code.tree.names import GENERIC, is_artifact, printable, read_artifact, served
from rocwright.errors import InvalidInput, see_who_may_read
from rocwright.model.gpu import is_target
from rocwright.system.files import walk_files
from rocwright.wheel.read import Wheel, WheelMember, installed_path, installed_together, open_wheel
from rocwright.wheel.stream import WheelStream, opened
from rocwright.wheel.zipformat import STORED

WHEEL = ".whl"
HEAD = 64


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One file.

    `name` is how people are told of it, `path` the file or the wheel that holds it, `member` its name there.
    `installed` is where it is installed (forward slashes, from the tree's root; absolute for files given one
    by one), `part` the target or group whose part holds it, None for the host, `owner` the directory or
    wheel that it is in. `size` is in bytes. `link` is where a symbolic link leads, which is never opened.
    `mode` are permission bits where they are known, `crc` a wheel's CRC-32. `open` gives all of it, `head`
    its first 64 bytes; both raise `InvalidInput` naming the file.
    """

    name: str
    path: Path
    installed: str
    size: int
    open: Callable[[], Mapped]
    head: Callable[[], bytes]
    member: str | None = None
    part: str | None = None
    owner: str = ""
    link: str | None = None
    mode: int | None = None
    crc: int | None = None

    @property
    def key(self) -> str:
        """The same for every way to the same file."""
        return str(self.path.resolve() / (self.member or ""))

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive of device code, by its name."""
        return self.installed.endswith(SUFFIX) and self.link is None


def on_disk(path: Path, name: str, installed: str, *, part: str | None = None, owner: str = "") -> Source:
    """A file, or a link, that lies there."""
    facts = path.lstat()
    link = os.readlink(path) if path.is_symlink() else None  # noqa: PTH115 - as text, not normalised
    return Source(
        name=name,
        path=path,
        installed=installed,
        size=facts.st_size,
        open=partial(open_path, path),
        head=partial(head_of, path),
        part=part,
        owner=owner,
        link=link,
        mode=facts.st_mode & 0o7777,
    )


def in_wheel(
    stream: WheelStream,
    whole: Mapped,
    member: WheelMember,
    name: str,
    installed: str,
    part: str | None = None,
) -> Source:
    """A member of an open wheel, all of which is mapped as `whole`."""
    reader = MemberReader(stream, whole, member)
    return Source(
        name=name,
        path=whole.path,
        installed=installed,
        size=member.size,
        open=reader.open,
        head=reader.head,
        member=member.name,
        part=part,
        owner=whole.path.name,
        mode=(member.mode & 0o777) or None,
        crc=member.crc,
    )


def open_path(path: Path) -> Mapped:
    """Map a file; raises `InvalidInput` naming it."""
    with mapped(path) as file:
        return file


def head_of(path: Path) -> bytes:
    """A file's first bytes; raises `InvalidInput` naming it."""
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD)
    except OSError as error:
        raise InvalidInput(
            f"cannot read {path.name}: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error


class MemberReader(msgspec.Struct, frozen=True):
    """Opens one member: in place when it is stored, else inflated into a file without a name."""

    stream: WheelStream
    whole: Mapped
    member: WheelMember

    def open(self) -> Mapped:
        """The whole member."""
        path = self.whole.path / self.member.name
        if self.member.method == STORED:
            packed = self.stream.packed(self.member)
            return window(self.whole, path, packed.start, packed.size)
        return spooled(path, self.stream.inflated(self.member))

    def head(self) -> bytes:
        """Its first bytes, without the rest."""
        if self.member.method == STORED:
            return self.open().read_at(0, HEAD)
        return next(self.stream.inflated(self.member), b"")[:HEAD]


def installed_at(library: str, search_path: str) -> str:
    """Where a search path leads from a library's own place, as text with forward slashes."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(library), search_path))


def archives_among(library: str, marker: Marker, paths: Iterable[str]) -> list[str]:
    """Those of these normal paths to which the library's search paths lead, for any target; in order."""
    patterns = [installed_at(library, path).partition(PLACEHOLDER) for path in marker.search_paths]
    return [path for path in paths if any(_fits(path, *pattern) for pattern in patterns)]


def archives_on_disk(library: Path, marker: Marker) -> list[str]:
    """Existing files to which the search paths of a library lead, for any target, in their order."""
    found: dict[str, None] = {}
    for search_path in marker.search_paths:
        if "\0" in search_path:  # no file system has such a name
            continue
        before, placeholder, after = installed_at(str(library), search_path).partition(PLACEHOLDER)
        wild = f"{glob.escape(before)}*{glob.escape(after)}" if placeholder else glob.escape(before)
        for match in sorted(glob.glob(wild)):  # noqa: PTH207 - an absolute pattern
            if _fits(match, before, placeholder, after) and os.path.isfile(match):  # noqa: PTH113
                found[match] = None
    return list(found)


def _fits(path: str, before: str, placeholder: str, after: str) -> bool:
    if not placeholder:
        return path == before
    fits = path.startswith(before) and path.endswith(after)
    return fits and is_target(path[len(before) : len(path) - len(after)])


class Given(Source, frozen=True, kw_only=True):
    """A file that is looked into.

    `inside` is its path from what was given, `given` says that it was named itself. `archives` are the
    existing files to which a marker in it can lead, `beside` those in its directory, itself among them.
    """

    inside: str
    given: bool
    archives: Callable[[Marker], list[Given]]
    beside: Callable[[], list[Given]]


def _stop(error: InvalidInput) -> None:
    raise error


def find_sources(
    paths: Iterable[Path], stack: ExitStack, damaged: Callable[[InvalidInput], None] = _stop
) -> Iterator[Given]:
    """All files that are given, lie below given directories (links are not followed) or in wheels.

    Wheels come last: they are looked at together, and stay open until `stack` is closed. `damaged` is called
    with what is wrong with a wheel as a whole; without it that is raised.
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
            raise InvalidInput(
                f"{printable(path)} is not a file",
                where=path,
                next_step="name a file that is there: `ls` shows them",
            )
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

    def beside() -> list[Given]:
        above = posixpath.dirname(inside)
        files = sorted(one for one in path.parent.iterdir() if one.is_file())
        return [_file(one, posixpath.join(above, one.name), given=False) for one in files]

    inside = printable(inside)
    source = on_disk(path, printable(path), inside)
    return Given(
        **msgspec.structs.asdict(source), inside=inside, given=given, archives=archives, beside=beside
    )


def not_beside(name: str) -> InvalidInput:
    """The error for a split file whose archives are not at hand."""
    return InvalidInput(
        f"{name} is split, but its archives are not beside it",
        next_step="give the archives, the whole directory, or the device wheels with their host wheel",
    )


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
    folders: dict[str, list[Given]] = {}

    def archives(library: str, marker: Marker) -> list[Given]:
        return list(chain.from_iterable(there[path] for path in archives_among(library, marker, there)))

    def beside(folder: str) -> list[Given]:
        return folders[folder]

    found = []
    for wheel in wheels:
        stream = stack.enter_context(opened(wheel))
        whole = open_path(wheel.path)
        for member in wheel.members:
            if member.name.startswith(f"{wheel.dist_info}/"):
                continue
            installed, inside = installed_path(wheel, member), printable(member.name)
            source = in_wheel(stream, whole, member, f"{printable(wheel.path)}: {inside}", installed)
            folder = posixpath.dirname(installed)
            given = Given(
                **msgspec.structs.asdict(source),
                inside=inside,
                given=False,
                archives=partial(archives, installed),
                beside=partial(beside, folder),
            )
            found.append(given)
            folders.setdefault(folder, []).append(given)
            if installed.endswith(SUFFIX):
                there.setdefault(installed, []).append(given)
    yield from found
