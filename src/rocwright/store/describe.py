"""Describe distribution files: digest, size and what their own metadata says, read once, locally.

An index built from these entries never has to ask a server about a file.
"""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser
from itertools import pairwise
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from rocwright.errors import InvalidInput, InvalidWheel
from rocwright.model.manifest import FileEntry
from rocwright.system.files import sha256_file


def describe_files(paths: Iterable[Path]) -> tuple[FileEntry, ...]:
    """An entry for each wheel and sdist, sorted by file name.

    Raises `InvalidInput` for another kind of file or one name given twice, `InvalidWheel` for one that
    cannot be read or whose metadata contradicts its name.
    """
    entries = sorted((describe_file(path) for path in paths), key=lambda entry: entry.name)
    for first, second in pairwise(entries):
        if first.name == second.name:
            raise InvalidInput(f"{first.name} was given twice", next_step="give each file once")
    return tuple(entries)


def describe_file(path: Path) -> FileEntry:
    """The entry of one wheel or sdist; see `describe_files`."""
    try:
        if path.name.endswith(".whl"):
            project, version, _, _ = parse_wheel_filename(path.name)
        elif path.name.endswith(".tar.gz"):
            project, version = parse_sdist_filename(path.name)
        else:
            raise InvalidInput(
                f"{path.name} is neither a wheel nor an sdist",
                where=path,
                next_step="give .whl and .tar.gz files only",
            )
    except (InvalidWheelFilename, InvalidSdistFilename) as error:
        raise InvalidWheel(str(error), where=path) from error
    metadata = read_metadata(path)
    headers = HeaderParser().parsestr(metadata.decode("utf-8", "replace"))
    _require_same_name(path, project, version, headers.get("Name", ""), headers.get("Version", ""))
    depends: set[str] = set()
    for line in headers.get_all("Requires-Dist", []):
        try:
            depends.add(canonicalize_name(Requirement(line).name))
        except InvalidRequirement as error:
            raise InvalidWheel(f"{path.name} requires {line!r}: {error}", where=path) from error
    return FileEntry(
        name=path.name,
        sha256=sha256_file(path),
        size=path.stat().st_size,
        project=project,
        version=str(version),
        requires_python=headers.get("Requires-Python"),
        metadata_sha256=hashlib.sha256(metadata).hexdigest() if path.name.endswith(".whl") else None,
        depends=tuple(sorted(depends - {str(project)})),
    )


def read_metadata(path: Path) -> bytes:
    """METADATA of a wheel or PKG-INFO of an sdist, as it stands in the archive."""
    try:
        if path.name.endswith(".whl"):
            return _wheel_metadata(path)
        return _sdist_metadata(path)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError) as error:
        raise InvalidWheel(
            f"{path.name} cannot be read: {error}", where=path, next_step="build or fetch the file again"
        ) from error


def _wheel_metadata(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        found = [
            name
            for name in archive.namelist()
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
        ]
        if len(found) != 1:
            raise InvalidWheel(f"{path.name} has {len(found)} METADATA members, expected one", where=path)
        return archive.read(found[0])


def _sdist_metadata(path: Path) -> bytes:
    wanted = f"{path.name.removesuffix('.tar.gz')}/PKG-INFO"
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.name == wanted and member.isfile():
                stream = archive.extractfile(member)
                assert stream is not None
                return stream.read()
    raise InvalidWheel(f"{path.name} has no {wanted}", where=path)


def _require_same_name(path: Path, project: str, version: Version, name: str, said: str) -> None:
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
