"""What lies beside archives: the build that a split's parts are of, and the targets that there are.

The host's part has `.kpack/GROUP.json`, each other part `.kpack/GROUP_WORD.json` with the same build. No
marker can say it: host files are equal whichever targets were built, and databases of a part have none.
AMD's runtime looks for archives only, and never opens these.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from rocwright.device_code.kpack import DIRECTORY, NO_BUILD, SUFFIX
from rocwright.device_code.source import Given, Source
from rocwright.device_code.tree.names import package_of
from rocwright.errors import InvalidArchive, InvalidInput
from rocwright.model.gpu import is_target, parse_target

ORIGIN_SCHEMA = "rocwright.kpack-origin/1"
ENDING = ".json"
LARGEST_ORIGIN = 1 << 20
_SCHEMA_BYTES = b"rocwright.kpack-origin"
_AGAIN = "split again from the original"
# Of an archive the hex sha256, and the path of the file that names it.
Named = tuple[str, str]


class SplitOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a part of a split says of itself.

    `group` begins the names of its archives, `build` is the identity of all host files together, `part` the
    target or group that it serves ("" for the host). `targets` are full ones: of the host all that it was
    split into, of another part those with an archive in it, each with its hex sha256 in `archives`: builds
    that differ in device code alone are one by their host's identity.
    """

    group: str
    build: str
    part: str = ""
    targets: tuple[str, ...] = ()
    archives: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    schema: str = ORIGIN_SCHEMA

    @property
    def name(self) -> str:
        """Its file's name."""
        return f"{self.group}{'_' * bool(self.part)}{self.part}{ENDING}"

    def of_part(self, part: str, archives: Mapping[str, str]) -> SplitOrigin:
        """What the part for a target or group says; `archives` are the hex sha256 of its own by target."""
        return msgspec.structs.replace(self, part=part, targets=tuple(archives), archives=dict(archives))

    def archive(self, target: str) -> str:
        """The file name of the archive for a target."""
        return f"{self.group}_{target}{SUFFIX}"


def joint_build(builds: Mapping[str, str]) -> str:
    """The identity of host files together, from that of each by its name in archives; "" of none."""
    digest = hashlib.sha256()
    for kernel, build in sorted(builds.items()):
        digest.update(f"{build} {kernel}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[: len(NO_BUILD)] if builds else ""


def pack_origin(origin: SplitOrigin) -> bytes:
    """Its text: the same for the same value."""
    return msgspec.json.encode(origin) + b"\n"


def parse_origin(data: bytes, name: str) -> SplitOrigin:
    """What such a file says; raises `InvalidArchive` naming the file where it says nothing of the kind."""
    try:
        origin = msgspec.json.decode(data, type=SplitOrigin)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArchive(
            f"{name} does not say what it was split from: {error}", next_step=_AGAIN
        ) from None
    if origin.schema != ORIGIN_SCHEMA:
        raise InvalidArchive(f"{name} is of another version, {origin.schema[:80]!r}", next_step=_AGAIN)
    odd = [text for text in origin.targets if not is_target(text)]
    if odd:
        raise InvalidArchive(f"{name} names {odd[0][:80]!r}, which is no target", next_step=_AGAIN)
    if origin.name != posixpath.basename(name):
        raise InvalidArchive(f"{name} is that of {origin.name[:80]}", next_step="do not rename these files")
    return origin


def speaks_of_origin(data: bytes) -> bool:
    """Whether a file that is called so was written by a split; other tools may have files there, too."""
    return _SCHEMA_BYTES in data


def origin_at(path: Path) -> SplitOrigin | None:
    """What a file on disk says of itself; None where it says nothing of the kind."""
    try:
        if path.stat().st_size <= LARGEST_ORIGIN:
            return parse_origin(path.read_bytes(), path.name)
    except (OSError, InvalidArchive):
        pass
    return None


def origin_in(source: Source) -> SplitOrigin | None:
    """What a file says of itself, in a wheel or not; None where it says nothing of the kind."""
    if source.link is None and source.installed.endswith(ENDING) and source.size <= LARGEST_ORIGIN:
        with suppress(InvalidInput):
            return parse_origin(source.open().read_at(0, source.size), posixpath.basename(source.installed))
    return None


def named_archives(said: Iterable[tuple[str, SplitOrigin]]) -> dict[str, Named]:
    """The archives that parts name, by path; `said` is what each says, with the path of its file."""
    return {
        posixpath.join(posixpath.dirname(path), origin.archive(target)): (sha256, path)
        for path, origin in said
        if not isinstance(origin.archives, msgspec.UnsetType)
        for target, sha256 in origin.archives.items()
    }


def unlike_named(found: str, named: Named) -> str | None:
    """Why an archive with the hex sha256 `found` is not the one that is named; None where it is."""
    wanted, path = named
    if found == wanted:
        return None
    return f"it is of another build, or damaged: its sha256 is {found[:12]}…, and {path} names {wanted[:12]}…"


def unlike_beside(archive: Given) -> str | None:
    """The same of an archive and the files beside it; None also where none of them names it."""
    said = ((one.installed, origin_in(one)) for one in archive.beside())
    named = named_archives((path, origin) for path, origin in said if origin).get(archive.installed)
    if named is None:
        return None
    file = archive.open()
    return unlike_named(hashlib.sha256(file.slice(0, file.size)).hexdigest(), named)


def require_named(name: str, where: Path, unlike: str | None) -> None:
    """Raise `InvalidArchive` for an archive for which one of the two above gives a reason."""
    if unlike:
        raise InvalidArchive(f"{name}: {unlike}", where=where, next_step="give the parts of one split, whole")


def is_origin(path: str) -> bool:
    """Whether a path is that of such a file, by its name; forward slashes."""
    folder, _, name = path.rpartition("/")
    return name.endswith(ENDING) and posixpath.basename(folder) == DIRECTORY


def united(origins: Iterable[SplitOrigin]) -> SplitOrigin:
    """The origin of one host that was split for several sets of targets; all have the same build."""
    first, *others = origins
    targets = sorted({*first.targets, *(target for one in others for target in one.targets)})
    return msgspec.structs.replace(first, targets=tuple(targets))


def limited(origin: SplitOrigin, words: Iterable[str]) -> SplitOrigin:
    """The origin of a host that was merged with the parts or device packages of these base targets alone."""
    wanted = set(words)
    its = (target for target in origin.targets if wanted & {part_of(target), owner_of(target)})
    return msgspec.structs.replace(origin, targets=tuple(its))


def part_of(target: str) -> str:
    """The base target whose part, by its directory, has the archive for a full target."""
    return parse_target(target).base


def owner_of(target: str) -> str:
    """The base target whose device package has the archive for a full target."""
    return package_of(parse_target(target).base)
