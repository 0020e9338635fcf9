"""Distribution files: described by what they hold, and put into a store, each once, under its digest.

Digest, size and what a file's own metadata says are read once, locally: an index built from these entries
never has to ask a server about a file.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from email.message import Message
from email.parser import HeaderParser
from itertools import pairwise
from pathlib import Path
from typing import IO

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    NormalizedName,
    canonicalize_name,
    parse_sdist_filename,
)
from packaging.version import InvalidVersion, Version

from rocwright.data import load_table
from rocwright.errors import IntegrityError, InvalidInput, InvalidWheel, see_who_may_read
from rocwright.model.sets import FileEntry
from rocwright.model.variants import WHEEL_FILE, Variants, VariantTable, parse_wheel_variant, split_label
from rocwright.store.damage import put_file_right
from rocwright.store.layout import file_key, metadata_key
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.system.files import sha256_file, verify_sha256
from rocwright.system.progress import each
from rocwright.system.tarballs import bounded_members, opened_tar
from rocwright.wheel.read import DAMAGED
from rocwright.wheel.tags import parse_wheel_name

WHEEL, SDIST = ".whl", ".tar.gz"
# Of these a file has one; where there are two, clients differ in which they believe.
_ONCE = ("Name", "Version", "Requires-Python")


def is_distribution(path: Path) -> bool:
    """Whether a file's name ends as those of wheels and sdists do."""
    return path.name.endswith((WHEEL, SDIST))


def describe_files(paths: Iterable[Path]) -> tuple[FileEntry, ...]:
    """An entry for each wheel and sdist, sorted by file name.

    Raises `InvalidInput` for another kind of file or one name given twice, `InvalidWheel` for a file
    that cannot be read or whose metadata contradicts its name. What is wrong with several is told at once.
    """
    entries: list[FileEntry] = []
    problems: list[InvalidInput] = []
    for path in each("reading", sorted(paths)):
        try:
            entries.append(describe_file(path))
        except InvalidInput as problem:
            problems.append(problem)
    entries.sort(key=lambda entry: entry.name)
    problems += [
        InvalidInput(
            f"{first.name} was given twice"
            + ("" if first.sha256 == second.sha256 else ", with different bytes"),
            next_step="give each file once",
        )
        for first, second in pairwise(entries)
        if first.name == second.name
    ]
    if problems:
        raise _together(problems)
    return tuple(entries)


def _together(problems: list[InvalidInput]) -> InvalidInput:
    if len(problems) == 1:
        return problems[0]
    kind = InvalidWheel if all(isinstance(one, InvalidWheel) for one in problems) else InvalidInput
    lines = "\n".join(f"  - {one.what}" for one in problems)
    return kind(
        f"{len(problems)} files cannot be taken:\n{lines}", next_step="build or fetch these files again"
    )


def describe_file(path: Path) -> FileEntry:
    """The entry of one wheel or sdist; see `describe_files`."""
    project, version = _named(path)
    if not path.is_file():
        raise InvalidInput(f"{path} is not a file", where=path, next_step="check the path")
    # First: a variant of another edition has requirements of another grammar, too.
    variant = stated_variant(path)
    metadata = read_metadata(path)
    headers = HeaderParser().parsestr(metadata.decode("utf-8", "replace"))
    for field in _ONCE:
        said = headers.get_all(field, [])
        if len(said) > 1:
            raise InvalidWheel(f"{path.name} has {field} {len(said)} times in its metadata", where=path)
    _require_same_name(path, project, version, headers)
    try:
        return FileEntry(
            name=path.name,
            sha256=sha256_file(path),
            size=path.stat().st_size,
            project=project,
            version=str(version),
            requires_python=_requires_python(path, headers),
            metadata_sha256=hashlib.sha256(metadata).hexdigest() if path.name.endswith(WHEEL) else None,
            depends=tuple(sorted(_depends(path, headers) - {str(project)})),
            variant=variant,
        )
    except OSError as error:
        raise InvalidInput(
            f"{path.name} cannot be read: {error.strerror or error}",
            where=path,
            next_step=see_who_may_read(path),
        ) from error


def _named(path: Path) -> tuple[NormalizedName, Version]:
    try:
        if path.name.endswith(WHEEL):
            project, version, *_ = parse_wheel_name(path.name)
            return project, version
        if path.name.endswith(SDIST):
            return parse_sdist_filename(path.name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion) as error:
        raise InvalidWheel(
            f"{path.name!a} is not the name of a wheel or sdist: {error}",
            where=path,
            next_step="no installer would accept it; give a renamed file its name back, or build it again",
        ) from error
    raise InvalidInput(
        f"{path.name} is neither a wheel nor an sdist",
        where=path,
        next_step="give .whl and .tar.gz files only",
    )


def _depends(path: Path, headers: Message) -> set[str]:
    found: set[str] = set()
    for line in headers.get_all("Requires-Dist", []):
        try:
            found.add(canonicalize_name(Requirement(line).name))
        except (InvalidRequirement, RecursionError) as error:
            raise InvalidWheel(f"{path.name} requires {line!r}: {error}", where=path) from error
    return found


def _requires_python(path: Path, headers: Message) -> str | None:
    said = headers.get("Requires-Python")
    if said is None:
        return None
    text = " ".join(said.split())
    try:
        SpecifierSet(text)
    except InvalidSpecifier as error:
        raise InvalidWheel(f"{path.name} has Requires-Python: {text!r}, {error}", where=path) from error
    return text


def _require_same_name(path: Path, project: str, version: Version, headers: Message) -> None:
    name, said = headers.get("Name", ""), headers.get("Version", "")
    try:
        same = canonicalize_name(name) == project and Version(said) == version
    except InvalidVersion:
        same = False
    if not same:
        raise InvalidWheel(
            f"{path.name} calls itself {name!r} {said!r} inside",
            where=path,
            next_step="build it again; a file's name and its metadata must agree",
        )


# -- into the store


def put_pooled(store: ObjectStore, path: Path, entry: FileEntry, *, reread: bool = False) -> None:
    """Put a file and its METADATA into the pool; what is there already stays.

    What is there, but is damaged, is replaced: of a file its size tells, or its bytes where they are to be
    `reread`. Raises `IntegrityError` when the file is not what the entry describes.
    """
    wanted = wanted_objects(entry)
    there = [store.stat(key) for key in wanted]
    sizes = [one.size if one is not None else 0 for one in there]
    whole = sizes[0] == entry.size and all(sizes)
    if whole and not (reread and any(store.digest(key) != sha256 for key, sha256 in wanted.items())):
        return
    # The key promises a digest to everybody, so it is not taken on trust.
    verify_sha256(path, entry.sha256)
    put_distribution(store, path, entry, file_key(entry.sha256, entry.name))


def put_distribution(store: ObjectStore, path: Path, entry: FileEntry, key: str) -> None:
    """Create the file and its `.metadata` sidecar; the sidecar is what the entry's digest names."""
    metadata = None
    if entry.metadata_sha256 is not None:
        metadata = read_metadata(path)
        if hashlib.sha256(metadata).hexdigest() != entry.metadata_sha256:
            raise IntegrityError(f"METADATA of {path.name} is not what was recorded", where=path)
    put_file_right(store, path, key)
    if metadata is not None:
        # The wheel under this key tells what it has to be.
        sidecar = f"{key}.metadata"
        there = read_there(store, sidecar)
        store.put_bytes(sidecar, metadata, overwrite=there is not None and there != metadata)


def wanted_objects(entry: FileEntry) -> dict[str, str]:
    """Keys of a file in the pool and of its METADATA, with the sha256 that each must have."""
    wanted = {file_key(entry.sha256, entry.name): entry.sha256}
    if entry.metadata_sha256 is not None:
        wanted[metadata_key(entry.sha256, entry.name)] = entry.metadata_sha256
    return wanted


# -- METADATA of a wheel and PKG-INFO of an sdist, as they stand in the archive, which nobody has to trust


# Far above any real METADATA; what is larger is there to fill the memory.
LARGEST_METADATA = 64 << 20
_LARGEST_SDIST, _MOST_RATIO = 1 << 30, 100


def read_metadata(path: Path) -> bytes:
    """METADATA of a wheel or PKG-INFO of an sdist.

    Raises `InvalidWheel` for an archive that is cut short or damaged, or has none of it or several, for
    a member whose name leads out of where it is installed, and for bombs.
    """
    try:
        return _wheel_metadata(path) if path.name.endswith(WHEEL) else _sdist_metadata(path)
    except (*DAMAGED, OSError, tarfile.TarError, zlib.error) as error:
        raise InvalidWheel(
            f"{path.name} cannot be read: {error}", where=path, next_step="build or fetch the file again"
        ) from error


def stated_variant(path: Path) -> Variants | msgspec.UnsetType:
    """What an index may state of the variant that a wheel is; unset for a file that is none.

    Raises `InvalidVariant` for a wheel that states something else than its name, `InvalidWheel` where it
    states nothing or is damaged.
    """
    label = split_label(path.name)[1]
    if not label:
        return msgspec.UNSET
    try:
        with zipfile.ZipFile(path) as archive:
            data = _one_member(archive, path, WHEEL_FILE)
    except (*DAMAGED, OSError) as error:
        raise InvalidWheel(f"{path.name} cannot be read: {error}", where=path) from error
    said = parse_wheel_variant(data, label, where=f"{WHEEL_FILE} of {path.name}")
    return load_table("variants", VariantTable).published(said)


def _wheel_metadata(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [info.orig_filename for info in archive.infolist()]
        outside = next((name for name in names if _leads_out(name)), None)
        if outside is not None:
            raise InvalidWheel(
                f"{path.name} has a member {outside!a}, which leads outside the directory that it is "
                "installed to",
                where=path,
            )
        return _one_member(archive, path, "METADATA")


def _one_member(archive: zipfile.ZipFile, path: Path, name: str) -> bytes:
    """The one member of this name in `.dist-info`."""
    names = (info.orig_filename for info in archive.infolist())
    found = [one for one in names if one.count("/") == 1 and one.endswith(f".dist-info/{name}")]
    if len(found) != 1:
        raise InvalidWheel(f"{path.name} has {len(found)} {name} members, expected one", where=path)
    with archive.open(found[0]) as stream:
        return _read(stream, path, found[0])


def _leads_out(name: str) -> bool:
    # A backslash parts folders on Windows, and so does a colon the drive.
    parts = name.replace("\\", "/").split("/")
    return ".." in parts or parts[0] == "" or parts[0].endswith(":") or "\0" in name


def _sdist_metadata(path: Path) -> bytes:
    wanted = f"{path.name.removesuffix(SDIST)}/PKG-INFO"
    with gzip.open(path) as packed:
        stream = _Bounded(packed, path)
        with opened_tar(stream) as archive:
            for member in bounded_members(archive, path.stat().st_size):
                if member.name == wanted and member.isfile():
                    content = archive.extractfile(member)
                    assert content is not None
                    return _read(content, path, wanted)
    raise InvalidWheel(f"{path.name} has no {wanted}", where=path)


def _read(stream: IO[bytes], path: Path, name: str) -> bytes:
    data = stream.read(LARGEST_METADATA + 1)
    if len(data) > LARGEST_METADATA:
        raise InvalidWheel(f"{name} in {path.name} has more than {LARGEST_METADATA:,} bytes", where=path)
    return data


class _Bounded:
    """An unpacked stream, read no further than the packed size makes plausible."""

    def __init__(self, stream: gzip.GzipFile, path: Path) -> None:
        self._stream, self._path = stream, path
        self._left = max(_LARGEST_SDIST, _MOST_RATIO * path.stat().st_size)

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise InvalidWheel(f"{self._path.name} unpacks to more than is plausible", where=self._path)
        return data
