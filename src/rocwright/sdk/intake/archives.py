"""Unpack archives of artifacts (`.tar.zst`, `.tar.xz`) and of a whole ROCm, trusting nothing in them.

An archive `<name>_<component>_<target>.tar.zst` holds what the directory of that name would: first
`artifact_manifest.txt`, then the stage directories that it lists. Python's own extraction filters are not in
every Python supported here, so every member is checked before anything of it is written.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol, cast

import msgspec
import zstandard

from rocwright.device_code.tree.names import MANIFEST
from rocwright.errors import IntegrityError, InvalidArchive, InvalidInput
from rocwright.sdk.links import follow
from rocwright.system.files import CHUNK, atomic_directory, require_space, verify_sha256
from rocwright.system.parallel import in_order
from rocwright.system.progress import counted
from rocwright.system.tarballs import TarBomb, bounded_members, opened_tar

# Put behind every zstd stream. Only the end of a whole stream leaves these bytes as the last that come out.
_MARK = b"rocwright: the end"
_MARK_FRAME = zstandard.ZstdCompressor(write_checksum=True).compress(_MARK)
# What damage raises here and in the reader of tar, which meets some of it as numbers that are none.
DAMAGE = (
    lzma.LZMAError, zstandard.ZstdError, tarfile.TarError, ValueError, zlib.error, gzip.BadGzipFile,
)  # fmt: skip


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class UnpackedStream:
    """The bytes inside an archive, in order, never more of them in memory than a bounded piece."""

    def __init__(self, path: Path) -> None:
        self.position = 0
        self._file = path.open("rb")
        self._stream: _Readable
        if path.name.endswith(".xz"):
            self._stream = lzma.LZMAFile(self._file)  # noqa: SIM115
        elif path.name.endswith("gz"):
            self._stream = gzip.GzipFile(fileobj=self._file)
        else:
            self._stream = _Zstd(self._file)

    def __enter__(self) -> UnpackedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Up to `size` bytes, none at the end; raises `EOFError` when the packed stream is cut short."""
        data = self._stream.read(size)
        self.position += len(data)
        return data

    def drain(self, most: int) -> None:
        """Read to the end: what the packed stream says of itself there is checked, too.

        Raises `TarBomb` where more than `most` bytes come out.
        """
        while self.read(CHUNK):
            if self.position > most:
                raise TarBomb("what follows its last member has no end")


class _Zstd:
    """A zstd stream of any number of frames; the library itself takes one that was cut short for a whole."""

    def __init__(self, file: IO[bytes]) -> None:
        self._stream = zstandard.ZstdDecompressor().stream_reader(
            cast("IO[bytes]", _Marked(file)), read_across_frames=True, closefd=False
        )
        self._have = b""

    def read(self, size: int = CHUNK) -> bytes:
        # What may be the mark is held back.
        while len(self._have) <= len(_MARK):
            data = self._stream.read(size)
            if not data:
                if self._have != _MARK:
                    raise EOFError
                return b""
            self._have += data
        taken, self._have = self._have[: -len(_MARK)], self._have[-len(_MARK) :]
        return taken


class _Marked:
    """A file and, behind it, the mark."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        if not data and not self._ended:
            self._ended = True
            return _MARK_FRAME
        return data


SUFFIXES = (".tar.zst", ".tar.xz")
# Zeros that programs write behind the last member.
_PADDING = 64 << 20
# Of a tarball of a whole installation.
TARBALLS = (*SUFFIXES, ".tar.gz", ".tgz")
SIDECAR = ".sha256sum"
# Name, component and target; whether they are known ones is asked when the directories are read.
_ARTIFACT = re.compile(r"[^_/]+_[^_/]+_[^/]+")
# How much more than itself an archive at least unpacks to, where it does not say.
_LEAST_GROWTH = 2


class UnpackedArtifacts(msgspec.Struct, frozen=True):
    """Artifact directories made of archives: `directory`/<artifact> each.

    `ignored` names what lay among the archives and is none.
    """

    directory: str
    artifacts: tuple[str, ...]
    ignored: tuple[str, ...]
    files: int
    size: int


class _Outcome(msgspec.Struct, frozen=True):
    files: int
    size: int


def find_archives(sources: Sequence[Path]) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Archives by the name of their artifact, and the names of what a given directory holds besides.

    `sources` are archives or directories of archives. Raises `InvalidInput` for a given file that is no
    artifact archive, for one artifact given twice, for artifact directories among archives (which of two
    forms counts is not guessed), and when there is no archive at all.
    """
    found: dict[str, Path] = {}
    ignored: list[str] = []
    for source in sources:
        for path in sorted(source.iterdir()) if source.is_dir() else [source]:
            name = _artifact(path)
            if name is not None:
                if name in found:
                    raise InvalidInput(
                        f"the artifact {name} is there twice: {found[name].name} and {path.name}",
                        where=path,
                        next_step="keep one of them",
                    )
                found[name] = path
            elif path == source:
                raise _no_archive(path)
            elif (path / MANIFEST).is_file():
                raise InvalidInput(
                    f"{path.name} is an unpacked artifact among archives",
                    where=path,
                    next_step="keep directories and archives of artifacts apart",
                )
            elif not path.name.endswith(SIDECAR) and not path.name.startswith("."):
                ignored.append(path.name)
    if not found:
        raise InvalidInput(
            "there is not an artifact archive (<name>_<component>_<target>.tar.zst or .tar.xz)",
            where=sources[0] if sources else None,
            next_step="name archives of artifacts or the directory that holds them",
        )
    return found, tuple(ignored)


def _artifact(path: Path) -> str | None:
    for suffix in SUFFIXES:
        stem = path.name.removesuffix(suffix)
        if stem != path.name and _ARTIFACT.fullmatch(stem) and path.is_file():
            return stem
    return None


def _no_archive(path: Path) -> InvalidInput:
    if not path.exists():
        return InvalidInput(
            f"{path} does not exist", where=path, next_step="name an artifact that is there: `ls` shows them"
        )
    return InvalidInput(
        f"{path.name} is not an artifact archive",
        where=path,
        next_step="its name must be <name>_<component>_<target>.tar.zst or .tar.xz",
    )


def unpack_artifacts(sources: Sequence[Path], dest: Path, *, threads: int = 2) -> UnpackedArtifacts:
    """Unpack archives, several at once, into the new directory `dest`; it appears whole or not at all.

    `sources` as for `find_archives`; an old `dest` is replaced. An archive with a file
    `<archive>.sha256sum` beside it is compared with that first. Permissions are 644 or, for what was
    executable, 755; owners and times are not kept. A hard link becomes a hard link inside its artifact.

    Raises `IntegrityError` for another sha256, `InvalidArchive` naming archive and member for one that is
    cut short, damaged, lacks its manifest or holds anything but files, directories and links inside itself,
    `NoSpace` when the disk has not even the room that is certainly needed.
    """
    archives, ignored = find_archives(sources)
    need = sum(_least_size(path) for path in archives.values())
    require_space(dest.absolute(), need, purpose=f"unpacking {len(archives)} artifacts")
    # The largest first: it would otherwise be left for the end, with the other threads idle.
    queue = sorted(archives.items(), key=lambda item: (-item[1].stat().st_size, item[0]))
    with atomic_directory(dest) as beside:

        def one(item: tuple[str, Path]) -> _Outcome:
            name, path = item
            _verify(path)
            outcome = _extract(path, beside / name)
            count.add(path.stat().st_size)
            return outcome

        with counted("unpacking", sum(path.stat().st_size for path in archives.values())) as count:
            outcomes = list(in_order(one, ((item, 0) for item in queue), threads=threads, window=1))
    return UnpackedArtifacts(
        directory=str(dest),
        artifacts=tuple(sorted(archives)),
        ignored=ignored,
        files=sum(outcome.files for outcome in outcomes),
        size=sum(outcome.size for outcome in outcomes),
    )


def unpack_installation(archive: Path, dest: Path) -> Path:
    """Unpack a tarball of an installation into the new directory `dest`; returns the installation's root.

    That is the one directory that the tarball holds, where it holds nothing beside it. Raises as
    `unpack_artifacts`.
    """
    require_space(dest.absolute(), _least_size(archive), purpose=f"unpacking {archive.name}")
    with atomic_directory(dest) as beside:
        _verify(archive)
        _extract(archive, beside / "root", manifest=False)
    root = dest / "root"
    inside = [*root.iterdir()]
    alone = len(inside) == 1 and inside[0].is_dir() and not inside[0].is_symlink()
    return inside[0] if alone and not (root / "lib").exists() else root


def _least_size(path: Path) -> int:
    packed = path.stat().st_size
    if path.name.endswith(".zst"):
        with path.open("rb") as stream:
            head = stream.read(18)  # the longest header of a frame
        try:
            said = zstandard.frame_content_size(head)
        except zstandard.ZstdError:
            said = -1
        if said > 0:
            return said
    return packed * _LEAST_GROWTH


def _verify(path: Path) -> None:
    sidecar = path.with_name(path.name + SIDECAR)
    if not sidecar.exists():
        return
    words = sidecar.read_text(encoding="utf-8", errors="replace").split()
    if not words or not re.fullmatch(r"[0-9a-fA-F]{64}", words[0]):
        raise IntegrityError(
            f"{sidecar.name} holds no sha256", where=sidecar, next_step="fetch the archive and it again"
        )
    verify_sha256(path, words[0].lower())


def _extract(path: Path, target: Path, *, manifest: bool = True) -> _Outcome:
    target.mkdir()
    try:
        with (
            UnpackedStream(path) as stream,
            # Reading in sequence asks for nothing but read().
            opened_tar(stream, bufsize=CHUNK) as tar,
        ):
            tree = _Tree(path, target, manifest)
            for member in bounded_members(tar, path.stat().st_size):
                tree.add(tar, member)
            end = tar.offset
            stream.drain(max(_PADDING, end + _PADDING))
            # An archive cut between two members looks finished to the reader; only the block of zeros that
            # has to come after the last one tells.
            if stream.position < end + tarfile.BLOCKSIZE:
                raise _damaged(path, "ends in the middle")
            return tree.finish()
    except EOFError as error:
        raise _damaged(path, "ends in the middle") from error
    except TarBomb as error:
        raise _damaged(path, f"is not unpacked: {error}") from error
    except DAMAGE as error:
        raise _damaged(path, f"is damaged: {error}") from error


def _damaged(path: Path, what: str) -> InvalidArchive:
    return InvalidArchive(f"the archive {path.name} {what}", where=path, next_step="fetch or make it again")


class _Tree:
    """A directory in the making. Links are made last, so that nothing is written through one."""

    def __init__(self, archive: Path, root: Path, manifest: bool) -> None:
        self._archive = archive
        self._manifest = manifest
        self._root = root
        self._directories = {""}
        self._files: set[str] = set()
        self._links: dict[str, str] = {}
        self._size = 0

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write a member, or remember it if it is a link; raises `InvalidArchive` for what may not be."""
        path = self._path(member)
        if member.isdir():
            self._directory(path, member)
            return
        if not path or path in self._directories or path in self._files or path in self._links:
            raise self._refuse(member, "is there twice")
        self._directory(path.rpartition("/")[0], member)
        if member.issym():
            self._links[path] = member.linkname
        elif member.islnk():
            self._hard_link(path, member)
        elif member.isreg():
            self._write(path, tar, member)
        else:
            raise self._refuse(member, "is neither file, directory nor link")

    def finish(self) -> _Outcome:
        """Make the links; raises `InvalidArchive` for one that leads out, and for a missing manifest."""
        if self._manifest and MANIFEST not in self._files:
            raise _damaged(self._archive, f"lacks {MANIFEST}")
        for path, text in self._links.items():
            # What lies in other artifacts may be missing here, so any way through is one.
            if not text or follow(path, self._links, _Everything()) is None:
                raise InvalidArchive(
                    f"the link {path!a} in {self._archive.name} leads out of it, or in a circle, ({text!a})",
                    where=self._archive,
                )
            (self._root / path).symlink_to(text)
        return _Outcome(files=len(self._files), size=self._size)

    def _path(self, member: tarfile.TarInfo, text: str | None = None) -> str:
        text = member.name if text is None else text
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if text.startswith("/") or ".." in parts or "\0" in text:
            raise self._refuse(member, "leads out of the archive")
        return "/".join(parts)

    def _directory(self, path: str, member: tarfile.TarInfo) -> None:
        if path in self._directories:
            return
        if path in self._files or path in self._links:
            raise self._refuse(member, f"needs {path!a} to be a directory")
        self._directory(path.rpartition("/")[0], member)
        (self._root / path).mkdir()
        self._directories.add(path)

    def _hard_link(self, path: str, member: tarfile.TarInfo) -> None:
        source = self._path(member, member.linkname)
        if source in self._links:
            # Another name of a link is a link with the same text.
            self._links[path] = self._links[source]
            return
        if source not in self._files:
            raise self._refuse(member, f"is a hard link to {source!a}, which is not an earlier file")
        os.link(self._root / source, self._root / path)
        self._files.add(path)

    def _write(self, path: str, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        content = tar.extractfile(member)
        assert content is not None
        target = self._root / path
        with content, target.open("xb") as stream:
            shutil.copyfileobj(content, stream, CHUNK)
            if stream.tell() != member.size:
                raise EOFError
            Path(stream.name).chmod(0o755 if member.mode & 0o111 else 0o644)
        self._files.add(path)
        self._size += member.size

    def _refuse(self, member: tarfile.TarInfo, why: str) -> InvalidArchive:
        return InvalidArchive(
            f"the member {member.name!a} of {self._archive.name} {why}",
            where=self._archive,
            next_step="nothing was unpacked; make the archive again",
        )


class _Everything:
    def __contains__(self, _: object) -> bool:
        return True
