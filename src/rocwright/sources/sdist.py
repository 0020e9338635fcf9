"""Unpack an sdist that nobody has to trust: one folder, nothing outside of it, all of it or nothing; and make
changes in it that its project needs.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from rocwright.errors import InvalidArchive, InvalidData
from rocwright.model.edits import Edit, edited
from rocwright.system.files import atomic_directory
from rocwright.system.tarballs import bounded_members, opened_tar

_DAMAGE = (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError)


def unpack(path: Path, place: Path) -> int:
    """Unpack the one folder of an sdist to `place`, which is replaced; returns the time of its newest file.

    Raises `InvalidArchive` for an archive that is damaged, has no single folder, or would write elsewhere.
    """
    newest = 0
    root = ""
    try:
        with (
            atomic_directory(place) as made,
            gzip.open(path) as packed,
            opened_tar(packed) as archive,
        ):
            for member in bounded_members(archive, path.stat().st_size):
                parts = PurePosixPath(member.name).parts
                if parts and parts[0] == ".":
                    parts = parts[1:]
                if not parts and member.isdir():
                    continue
                if not parts or member.name.startswith("/") or ".." in parts or "\\" in member.name:
                    raise _refused(path, f"has a member {member.name!r}, which leads out of it")
                root = root or parts[0]
                if parts[0] != root:
                    raise _refused(path, f"has two folders, {root} and {parts[0]}, where an sdist has one")
                if member.isfile():
                    newest = max(newest, int(member.mtime))
                _add(archive, member, made.joinpath(*parts[1:]), made, path)
            # Reading on to the end compares the digest of gzip.
            while packed.read(1 << 20):
                pass
            if not root:
                raise _refused(path, "is empty")
    except _DAMAGE as error:
        raise _refused(path, f"is damaged: {error}") from error
    return newest


def changed_by(place: Path, edit: Edit) -> bool:
    """Make a change in sources just unpacked; False where they have nothing to change."""
    path = place / edit.file
    if not path.is_file() or path.is_symlink():
        return False
    status = path.stat()
    try:
        text = edited(path.read_bytes().decode(), edit)
    except ValueError as error:
        raise InvalidData(
            f"{edit.file} cannot be changed: {error}",
            where=path,
            next_step="let the edit find more of the file: [[extensions.extension.edits]]",
        ) from error
    if text is None:
        return False
    path.write_bytes(text.encode())
    # The change belongs to the sdist: unpacked again it is not newer.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def _add(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, root: Path, path: Path) -> None:
    if member.isdir():
        to.mkdir(parents=True, exist_ok=True)
        return
    if to == root or to.is_symlink() or to.exists():
        raise _refused(path, f"has {member.name} twice")
    if root.resolve() not in (to.parent.resolve(), *to.parent.resolve().parents):
        raise _refused(path, f"has a member {member.name!r}, which leads out of it")
    to.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        target = PurePosixPath(member.linkname)
        inside = (to.parent / target).resolve()
        if target.is_absolute() or root.resolve() not in inside.parents:
            raise _refused(path, f"has a link {member.name!r}, which leads out of it")
        to.symlink_to(member.linkname)
        return
    content = archive.extractfile(member) if member.isfile() else None
    if content is None:
        raise _refused(path, f"has a member {member.name!r} that is neither a file nor a folder")
    with content, to.open("wb") as stream:
        shutil.copyfileobj(content, stream, 1 << 20)
    # Build systems compare times: the same sdist unpacked again is not newer.
    os.utime(to, (member.mtime, member.mtime))
    to.chmod(0o755 if member.mode & 0o100 else 0o644)


def _refused(path: Path, what: str) -> InvalidArchive:
    return InvalidArchive(
        f"the sdist {path.name} {what}", where=path, next_step="download it again, or give another"
    )
