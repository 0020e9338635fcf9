"""Plan and write an sdist with another version; the same sdist gives the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import IO

import msgspec
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import InvalidVersion, Version

from rocwright.errors import InvalidWheel, see_who_may_read
from rocwright.model.patterns import fits
from rocwright.wheel.reversion.members import (
    MemberEdits,
    ReversionTable,
    editor,
    require_new_name,
    reversion_table,
)
from rocwright.wheel.reversion.values import Changes, FileChange, PlannedDistribution, SdistEdits
from rocwright.wheel.reversion.wheels import described

_DAMAGE = (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError)
_LARGEST_TEXT = 64 << 20
# Sdists that get another version are those of selectors: scripts, no sources of a library.
_MOST = 1 << 30
_PKG_INFO = "PKG-INFO"
# Extended headers that repeat what changes.
_STATED = ("path", "linkpath", "size")


class OpenSdist(msgspec.Struct, frozen=True):
    """An sdist: its root folder, and what the set needs to know of it."""

    root: str
    about: PlannedDistribution


def open_sdist(path: Path) -> OpenSdist:
    """Read an sdist; raises `InvalidWheel` for one that is damaged, or that says something else inside."""
    try:
        project, version = parse_sdist_filename(path.name)
    except (InvalidSdistFilename, InvalidVersion) as error:
        raise InvalidWheel(
            f"{path.name} is not a valid name of an sdist: {error}",
            where=path,
            next_step="restore its name: NAME-VERSION.tar.gz",
        ) from error
    root = path.name.removesuffix(".tar.gz")
    text = None
    with _opened(path) as archive:
        for member in archive:
            _require_inside(path, member, root)
            if member.name == f"{root}/{_PKG_INFO}":
                text = _content(path, archive, member)
    if text is None:
        raise InvalidWheel(f"{path.name} has no {root}/{_PKG_INFO}", where=path)
    return OpenSdist(root, described(path, text, project, version, ()))


def plan_sdist(sdist: OpenSdist, new: Version, changes: Changes) -> FileChange:
    """What becomes of an sdist."""
    about = sdist.about
    edits = MemberEdits(about.path, str(new), changes)
    changed: dict[str, bytes] = {}
    with _opened(about.path) as archive:
        for member in archive:
            name = member.name[len(sdist.root) + 1 :]
            edit = _editor(edits, reversion_table(), name)
            if member.isreg() and edit is not None:
                before = _content(about.path, archive, member)
                after = edits.edit(name, before, edit)
                if after != before:
                    changed[name] = after
    if new == about.version:
        require_new_name(about, bool(changed))
        name = about.path.name
        return FileChange(about.path, name, about.project, str(new), str(new), left=tuple(edits.left))
    new_root = f"{sdist.root.rpartition('-')[0]}-{new}"
    return FileChange(
        source=about.path,
        name=f"{new_root}.tar.gz",
        project=about.project,
        old=str(about.version),
        new=str(new),
        edited=tuple(changed),
        requirements=tuple(edits.requirements.items()),
        left=tuple(edits.left),
        work=SdistEdits(sdist.root, new_root, changed),
    )


def _editor(edits: MemberEdits, table: ReversionTable, name: str) -> Callable[[bytes], bytes] | None:
    if fits(name, table.headers):
        return edits.headers
    if fits(name, table.requirements):
        return edits.requirement_lines
    return editor(edits, table, name)


def write_sdist(source: Path, edits: SdistEdits, stream: IO[bytes]) -> None:
    """Write the sdist: members in their order with their times, owners and modes."""
    with (
        _opened(source) as archive,
        gzip.GzipFile("", "wb", 9, stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in archive:
            name = member.name[len(edits.old_root) + 1 :]
            entry = copy(member)
            entry.name = edits.new_root + (f"/{name}" if name else "")
            entry.pax_headers = {
                key: text
                for key, text in member.pax_headers.items()
                if key not in ("path", "linkpath", "size")
            }
            if member.islnk():
                # A hard link names its target by the path in the archive.
                entry.linkname = edits.new_root + member.linkname[len(edits.old_root) :]
            data = edits.changed.get(name)
            if data is not None:
                entry.size = len(data)
                target.addfile(entry, io.BytesIO(data))
            else:
                target.addfile(entry, archive.extractfile(member) if member.isreg() else None)


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        archive = tarfile.open(path, "r:gz")  # noqa: SIM115 - closed below
    except _DAMAGE as error:
        raise InvalidWheel(f"{path.name} is damaged: {error}", where=path) from error
    except OSError as error:
        raise InvalidWheel(
            f"cannot read {path.name}: {error.strerror or error}",
            where=path,
            next_step=see_who_may_read(path),
        ) from error
    # Other errors of the system come from where an sdist is written to.
    with archive:
        try:
            yield archive
        except _DAMAGE as error:
            raise InvalidWheel(f"{path.name} is damaged: {error}", where=path) from error


def _require_inside(path: Path, member: tarfile.TarInfo, root: str) -> None:
    """Everything lies below the root, and nothing is a device; what has such members is no sdist."""
    names = [member.name, *([member.linkname] if member.islnk() else [])]
    inside = all(
        (name == root or name.startswith(f"{root}/")) and ".." not in name.split("/") for name in names
    )
    if not inside or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise InvalidWheel(
            f"{path.name} contains {member.name!r}, which is not a file below {root}", where=path
        )
    if member.offset_data + member.size > _MOST:
        raise InvalidWheel(
            f"{path.name} unpacks to more than {_MOST >> 20} MiB, which no sdist of a selector does",
            where=path,
        )


def _content(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(member) if member.isreg() and member.size <= _LARGEST_TEXT else None
    if stream is None:
        raise InvalidWheel(f"{member.name} in {path.name} is not readable text", where=path)
    return stream.read()
