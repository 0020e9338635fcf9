"""A directory as one object: a `.tar.zst` that is the same bytes for the same tree, and back."""

from __future__ import annotations

import os
import posixpath
import tarfile
from pathlib import Path

import zstandard

from rocwright.errors import InvalidArchive, InvalidInput
from rocwright.system.files import atomic_directory, atomic_write, remove_tree, walk_files

# Times of files say when a machine worked, not what it made; zip archives know none before 1980.
_TIME = 315_619_200
_LEVEL = 3
SUFFIX = ".tar.zst"


def pack_tree(root: Path, target: Path, *, threads: int) -> None:
    """Write the files and links below `root`, and its empty directories, to `target`.

    Names, contents, links and the right to execute are kept; times, owners and byte code caches are not.
    Raises `InvalidInput` for a link that leads out of the tree: it would lead elsewhere on another machine.
    """
    # With threads the same bytes whatever their number, other ones than without.
    packer = zstandard.ZstdCompressor(level=_LEVEL, threads=max(1, threads))
    with (
        atomic_write(target) as stream,
        packer.stream_writer(stream, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted({*walk_files(root), *_empty(root)}):
            name = path.relative_to(root).as_posix()
            if "__pycache__" in name.split("/"):
                continue
            info = tarfile.TarInfo(name)
            info.mtime = _TIME
            if path.is_symlink():
                info.type, info.linkname = tarfile.SYMTYPE, _inside(name, os.readlink(path), root)  # noqa: PTH115
                archive.addfile(info)
            elif path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
            else:
                facts = path.stat()
                info.size, info.mode = facts.st_size, 0o755 if facts.st_mode & 0o100 else 0o644
                with path.open("rb") as content:
                    archive.addfile(info, content)


def _empty(root: Path) -> list[Path]:
    return [
        Path(here)
        for here, folders, names in os.walk(root)
        if not folders and not names and here != str(root)
    ]


def _inside(name: str, target: str, root: Path) -> str:
    if not _stays(name, target):
        raise InvalidInput(
            f"{name} is a link to {target}, out of the tree that is to be stored",
            where=root,
            next_step="make it a relative link to a file of the tree, or a file",
        )
    return target


def _stays(name: str, target: str) -> bool:
    led = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    return not target.startswith("/") and led != ".." and not led.startswith("../")


def unpack_tree(packed: Path, root: Path) -> None:
    """Put a packed tree at `root`, whole, in place of whatever was there.

    Raises `InvalidArchive` for what cannot be read or would write outside of `root`.
    """
    try:
        with atomic_directory(root) as fresh:
            _unpack(packed, fresh)
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise InvalidArchive(
            f"{packed.name} is no packed tree: {error}", where=packed, next_step="delete it and run again"
        ) from error


def _unpack(packed: Path, fresh: Path) -> None:
    links: list[tuple[Path, str]] = []
    with (
        packed.open("rb") as stream,
        zstandard.ZstdDecompressor().stream_reader(stream) as content,
        tarfile.open(fileobj=content, mode="r|") as archive,
    ):
        for member in archive:
            if member.name.startswith("/") or ".." in member.name.split("/"):
                raise ValueError(f"{member.name} leaves it")
            path = fresh / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.isdir():
                path.mkdir(exist_ok=True)
            elif member.issym() and _stays(member.name, member.linkname):
                # Last, so that nothing is written through one.
                links.append((path, member.linkname))
            elif member.isfile():
                _write(archive, member, path)
            else:
                raise ValueError(f"{member.name} is no file, directory or link inside of it")
    for path, target in links:
        remove_tree(path)
        path.symlink_to(target)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = archive.extractfile(member)
    assert source is not None
    with source, path.open("wb") as stream:
        while piece := source.read(1 << 20):
            stream.write(piece)
    path.chmod(0o755 if member.mode & 0o100 else 0o644)
