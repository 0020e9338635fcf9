"""The door to the file system: atomic writes, reads at an offset, digests, fingerprints, room on the disk."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rocwright.errors import IntegrityError, InvalidInput, NoSpace, RocwrightError
from rocwright.system import links

# Marks a file or directory that is being written; never taken for whole, removed on the next run.
PARTIAL = ".partial"
CHUNK = 1 << 20
_ROCM_VERSION = Path(".info/version")


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file, read in 1 MiB pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def verify_sha256(path: Path, expected: str) -> None:
    """Raise `IntegrityError` when a file's sha256 is not `expected` (hex)."""
    found = sha256_file(path)
    if found != expected:
        raise IntegrityError(
            f"sha256 of {path.name} is {found}, expected {expected}",
            where=path,
            next_step="delete the file and run again; it will be fetched or built anew",
        )


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Write beside, then rename: readers see the old file or the whole new file, never a half.

    Several may write a file: each fills a file of its own, and the last stands. Raises `NoSpace` when the
    disk is full; the partial file is removed.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened_partial(path) as (partial, stream):
            try:
                yield stream
                stream.flush()
                if sys.platform == "win32":  # pragma: no cover
                    # What is open cannot be renamed there.
                    stream.close()
                partial.replace(path)
            except BaseException:
                # The error that brought us here is to be reported, not that of a last write.
                with contextlib.suppress(OSError):
                    stream.close()
                _discard(partial)
                raise
    except OSError as error:
        raise disk_error(error, path) from error


def write_text(path: Path, text: str) -> None:
    """Atomically write UTF-8 text with `\\n` line ends."""
    with atomic_write(path) as stream:
        stream.write(text.encode())


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Fill a directory beside `path`, then put it in place of whatever `path` was.

    Yields the directory to fill. On any error it is removed and `path` stays as it was.
    """
    partial = path.with_name(path.name + PARTIAL)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_tree(partial)
        partial.mkdir()
        yield partial
        _put_in_place(partial, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            remove_tree(partial)
        if isinstance(error, OSError):
            raise disk_error(error, path) from error
        raise


def _put_in_place(partial: Path, path: Path) -> None:
    """Rename a tree over another, which the system cannot: the old tree steps aside, back on failure."""
    aside = path.with_name(path.name + ".old" + PARTIAL)
    remove_tree(aside)
    if path.exists() or path.is_symlink():
        path.rename(aside)
    try:
        partial.replace(path)
    except OSError:
        if aside.exists() or aside.is_symlink():
            aside.rename(path)
        raise
    remove_tree(aside)


def _discard(partial: Path) -> None:
    # Best effort: the error that brought us here is to be reported.
    with contextlib.suppress(OSError):
        partial.unlink()


def remove_tree(path: Path) -> None:
    """Remove a file, link or directory tree; absent is fine."""
    if links.is_link(path) or path.is_file():
        path.unlink()
    elif path.exists():
        links.remove_directory(path)


def make_directory(path: Path) -> None:
    """Make a directory and those above it; raises the named error of `disk_error`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: Path) -> RocwrightError:
    """The named error for an `OSError` met while writing `path`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(
            f"no space left while writing {path.name}",
            where=path,
            next_step="free some space (or choose another directory) and run again; finished steps are kept",
        )
    if error.errno == errno.EIO:
        return InvalidInput(
            f"the disk did not take {path.name}: {error.strerror or error}",
            where=path,
            next_step="look for the disk's errors in the system's log, or choose another directory",
        )
    return InvalidInput(
        f"cannot write {path.name}: {error.strerror or error}",
        where=path,
        next_step="get permission to write there, or choose another directory",
    )


def require_space(path: Path, need: int, *, purpose: str) -> None:
    """Raise `NoSpace` unless the file system of `path` has `need` bytes free."""
    existing = path
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if free < need:
        raise NoSpace(
            f"{purpose} needs {need / 1e9:.1f} GB, {free / 1e9:.1f} GB are free",
            where=existing,
            next_step="free some space or choose a directory on another file system",
        )


def link_or_copy(source: Path, target: Path) -> None:
    """Put `source` at `target` as a hard link where the file system allows, else as a copy.

    Only for files that are never written again (wheels, packages in a store).
    """
    partial = target.with_name(target.name + PARTIAL)
    # A link as source stands for the file it leads to: link(2) would link the link itself.
    real = source.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        try:
            os.link(real, partial)
        except OSError:
            shutil.copyfile(real, partial)
        partial.replace(target)
    except BaseException as error:
        _discard(partial)
        if isinstance(error, OSError):
            raise disk_error(error, target) from error
        raise
    # rename(2) of two names of one file does nothing and leaves both.
    partial.unlink(missing_ok=True)


def walk_files(root: Path) -> Iterator[Path]:
    """Every file and every link below `root`, sorted, not following links to directories.

    Raises `InvalidInput` for a directory that cannot be listed: skipping it would lose files.
    """

    def refuse(error: OSError) -> None:
        raise _not_listed(error) from error

    for directory, names, files in os.walk(root, onerror=refuse):
        names.sort()
        here = Path(directory)
        # A link to a directory is an entry of its own, not a place to descend into.
        yield from (here / name for name in names if (here / name).is_symlink())
        yield from (here / name for name in sorted(files))


def _not_listed(error: OSError) -> InvalidInput:
    return InvalidInput(
        f"cannot list {error.filename}: {error.strerror}",
        where=error.filename,
        next_step="make it readable",
    )


def stat_files(root: Path) -> list[tuple[str, os.stat_result]]:
    """What lstat says of every file and link below `root`, by relative path in order; or of a file itself.

    Raises `InvalidInput` for a directory that cannot be listed.
    """
    if root.is_symlink() or not root.is_dir():
        return [(root.name, root.lstat())]
    found: list[tuple[str, os.stat_result]] = []
    pending = [("", str(root))]
    while pending:
        below, directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((f"{below}{entry.name}/", entry.path))
                    else:
                        found.append((below + entry.name, entry.stat(follow_symlinks=False)))
        except OSError as error:
            raise _not_listed(error) from error
    return sorted(found, key=lambda item: item[0])


def fact_line(name: str, facts: os.stat_result) -> bytes:
    """A line that differs whenever a file may: name, size, mtime, ctime, inode, mode.

    ctime and inode are part of it because mtime alone can be restored.
    """
    numbers = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_mode)
    return ("\0".join((name, *map(str, numbers))) + "\n").encode("utf-8", "surrogateescape")


def fingerprint(path: Path) -> str:
    """A digest that changes when a file or tree changes: names, sizes, mtime, ctime, inodes, modes.

    No content is read, so it is cheap. Byte code caches, which running a program creates, are left out.
    `"absent"` when nothing is there.
    """
    if not path.exists() and not path.is_symlink():
        return "absent"
    digest = hashlib.sha256()
    for name, facts in stat_files(path):
        if "__pycache__" not in name.split("/"):
            digest.update(fact_line(name, facts))
    return digest.hexdigest()


def content_digest(root: Path, *, exclude: tuple[str, ...] = ("__pycache__",)) -> str:
    """sha256 over names, kinds and contents of a small tree (sources, data), or of one file."""
    digest = hashlib.sha256()
    for file in walk_files(root) if root.is_dir() else iter([root]):
        name = file.relative_to(root) if file != root else Path(file.name)
        if any(part in exclude for part in name.parts):
            continue
        kind, content = ("link", str(file.readlink())) if file.is_symlink() else ("file", sha256_file(file))
        # Names hold no NUL, so no two trees give the same text.
        digest.update(f"{name}\0{kind}\0{content}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def rocm_root(prefix: Path) -> Path:
    """Where a ROCm lies in a prefix: there, or in `core` or the newest `core-10.0` below it.

    So do the native packages from ROCm 7.14 on in /opt/rocm, whose links to bin, lib and others say no
    version.
    """
    if (prefix / _ROCM_VERSION).is_file():
        return prefix
    numbered = sorted(prefix.glob("core-[0-9]*"), key=_numbers, reverse=True)
    below = (place for place in (prefix / "core", *numbered) if (place / _ROCM_VERSION).is_file())
    return next(below, prefix)


def _numbers(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.name)]


def shipped_directory(name: str) -> Path:
    """A directory that ships with this tool beside its code: `runtime` or `examples/mini-pytorch`.

    In a checkout they lie at its root, in an installed wheel inside the package.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / f"_{name}"
    checkout = package.parent.parent / name
    for candidate in (installed, checkout):
        if candidate.is_dir():
            return candidate
    raise InvalidInput(
        f"this installation lacks its {name} directory", where=package, next_step="reinstall rocwright"
    )


if sys.platform == "win32":  # pragma: no cover
    import threading

    # The place of a handle is moved, so two threads must not read at the same time.
    _moving = threading.Lock()

    def pread(handle: int, length: int, offset: int) -> bytes:
        """At most `length` bytes from `offset`, fewer at the end; raises `OSError`."""
        with _moving:
            os.lseek(handle, offset, os.SEEK_SET)
            return os.read(handle, length)

    def _ours(stream: IO[bytes], path: Path) -> bool:
        return True

else:
    import fcntl

    pread = os.pread

    def _ours(stream: IO[bytes], path: Path) -> bool:
        """Whether no other writer fills the file, and it still has this name: a writer gives it another."""
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks.
            return True
        try:
            return os.path.samestat(os.fstat(stream.fileno()), path.stat())
        except FileNotFoundError:
            return False


@contextmanager
def opened_partial(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """An empty file beside `path` to write into, and its name: `<name>.partial`.

    While another run or thread fills it, this has a random name. What a killed writer left is used again.
    Rename it before the block ends: until then no other writer takes it.
    """
    partial = path.with_name(path.name + PARTIAL)
    with _opened(partial) as stream:
        if _ours(stream, partial):
            # Devices cannot be cut.
            if os.fstat(stream.fileno()).st_size:
                stream.truncate(0)
            yield partial, stream
            return
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{PARTIAL}")
    with _opened(partial) as stream:
        yield partial, stream


def _opened(path: Path) -> IO[bytes]:
    """Open for writing, made where it is not there; not cut: somebody may be writing it."""
    return open(path, "wb", opener=lambda name, flags: os.open(name, flags & ~os.O_TRUNC, 0o666))
