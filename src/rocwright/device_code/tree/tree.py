"""Read trees and write others from them exactly: files, links, modes; several directories at once or none."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import msgspec

from rocwright.device_code.tree.names import GENERIC, MANIFEST, in_order, manifest, printable, served
from rocwright.errors import InvalidInput, UsageError
from rocwright.system.files import CHUNK, atomic_directory, remove_tree

_NO_RANGE_COPY = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)


class Part(msgspec.Struct, frozen=True):
    """What one directory holds: files and links, and the bytes of its files (hard links count once)."""

    files: int
    bytes: int


class Remark(msgspec.Struct, frozen=True):
    """Something to tell about one path."""

    path: str
    reason: str


# Reading a tree.


class Node(msgspec.Struct, frozen=True):
    """A file, symbolic link or directory below `root`; `path` is relative to it, with forward slashes."""

    root: Path
    path: str
    facts: os.stat_result

    @property
    def source(self) -> Path:
        """Where it lies."""
        return self.root / self.path

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory itself, not a link to one."""
        return stat.S_ISDIR(self.facts.st_mode)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self.facts.st_mode)

    @property
    def link(self) -> str:
        """The text of a symbolic link, which a `Path` would tidy up."""
        return os.readlink(self.source)  # noqa: PTH115

    @property
    def mode(self) -> int:
        """Permission bits."""
        return stat.S_IMODE(self.facts.st_mode)

    @property
    def identity(self) -> tuple[int, int] | None:
        """The same for all names of one file; None for a file with a single name."""
        single = self.facts.st_nlink == 1 or not stat.S_ISREG(self.facts.st_mode)
        return None if single else (self.facts.st_dev, self.facts.st_ino)


def read_tree(root: Path) -> list[Node]:
    """Everything below `root`, each directory before its contents, names in order; links are not followed.

    Raises `InvalidInput` for what cannot be listed and for anything but files, links and directories.
    """
    return list(_below(root, ""))


def _below(root: Path, path: str) -> Iterator[Node]:
    here = root / path
    try:
        with os.scandir(here) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        where = printable(here)
        raise InvalidInput(f"cannot list {where}: {error.strerror}", next_step="make it readable") from error
    for entry in entries:
        node = Node(root, f"{path}/{entry.name}" if path else entry.name, entry.stat(follow_symlinks=False))
        if not (node.is_directory or node.is_link or stat.S_ISREG(node.facts.st_mode)):
            raise InvalidInput(
                f"{printable(node.path)} is neither a file nor a link nor a directory",
                where=printable(node.source),
                next_step="remove it, or split a copy without it",
            )
        yield node
        if node.is_directory:
            yield from _below(root, node.path)


# Writing trees.


class TreeWriter:
    """Fills one directory with nodes of other trees: contents, modes, times, hard links among themselves.

    Never links to a source: an edit of one would change the other.
    """

    def __init__(self, root: Path, mode: int) -> None:
        self.root = root
        self.files = 0
        self.bytes = 0
        self._modes = {"": mode}
        self._linked: dict[tuple[int, int], Path] = {}

    @property
    def part(self) -> Part:
        """What was written so far."""
        return Part(self.files, self.bytes)

    def directory(self, root: Path, path: str) -> None:
        """A directory and its parents, each with the mode it has below `root`."""
        if path in self._modes:
            return
        above, _, _ = path.rpartition("/")
        self.directory(root, above)
        (self.root / path).mkdir()
        # What the source lacks is the directory for archives.
        source = root / path
        self._modes[path] = stat.S_IMODE(source.stat().st_mode) if source.is_dir() else 0o755

    def linked(self, node: Node) -> bool:
        """Put another name of a file that is there already; False when it is not."""
        if node.identity is None or node.identity not in self._linked:
            return False
        os.link(self._linked[node.identity], self._place(node), follow_symlinks=False)
        self.files += 1
        return True

    def copy(self, node: Node) -> None:
        """A file, link or directory as it is."""
        if node.is_directory:
            self.directory(node.root, node.path)
        elif node.is_link:
            self._place(node).symlink_to(node.link)
            self.files += 1
        elif not self.linked(node):
            with _open(node) as source, self._create(node) as target:
                _copy_bytes(source, target)

    def write(self, node: Node, pieces: Iterable[bytes]) -> None:
        """A file with new contents and the node's mode and time."""
        with self._create(node) as target:
            target.writelines(pieces)

    def adopt(self, file: Path, root: Path, path: str) -> None:
        """Move a finished file from elsewhere on this file system to `path`."""
        self.directory(root, path.rpartition("/")[0])
        target = self.root / path
        if target.exists():
            raise InvalidInput(
                f"the tree already has an archive {printable(path)} and still has libraries to split",
                where=printable(root / path),
                next_step="split the tree as it was built, or choose another name",
            )
        file.rename(target)
        target.chmod(0o644)
        self.files += 1
        self.bytes += target.stat().st_size

    def manifest(self, prefixes: Iterable[str]) -> None:
        """The list of prefixes."""
        self._put(MANIFEST, manifest(prefixes))

    def put(self, data: bytes, root: Path, path: str) -> None:
        """A new file at `path`, in directories with the modes that they have below `root`."""
        self.directory(root, path.rpartition("/")[0])
        if os.path.lexists(self.root / path):
            raise InvalidInput(
                f"the tree already has {printable(path)} and still has libraries to split",
                where=printable(root / path),
                next_step="split the tree as it was built, or choose another name",
            )
        self._put(path, data)

    def _put(self, path: str, data: bytes) -> None:
        (self.root / path).write_bytes(data)
        (self.root / path).chmod(0o644)
        self.files += 1
        self.bytes += len(data)

    def finish(self) -> None:
        """Give the directories their modes, which may forbid to write into them."""
        for path in sorted(self._modes, reverse=True):
            (self.root / path).chmod(self._modes[path])

    def _place(self, node: Node) -> Path:
        self.directory(node.root, node.path.rpartition("/")[0])
        place = self.root / node.path
        if os.path.lexists(place):
            raise InvalidInput(
                f"{printable(node.path)} comes from two directories",
                where=printable(node.source),
                next_step="give directories that have no file in common",
            )
        return place

    @contextmanager
    def _create(self, node: Node) -> Iterator[IO[bytes]]:
        place = self._place(node)
        with place.open("xb") as stream:
            yield stream
            stream.flush()
            Path(stream.name).chmod(node.mode)
            self.bytes += os.fstat(stream.fileno()).st_size
        # Byte code of Python is valid for one time of its source.
        os.utime(place, ns=(node.facts.st_mtime_ns, node.facts.st_mtime_ns))
        self.files += 1
        if node.identity is not None:
            self._linked[node.identity] = place


def _open(node: Node) -> IO[bytes]:
    try:
        return node.source.open("rb")
    except OSError as error:
        raise InvalidInput(
            f"cannot read {printable(node.path)}: {error.strerror}",
            where=printable(node.source),
            next_step="make it readable",
        ) from error


def _copy_bytes(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy inside the system, which shares the blocks where it can; what it leaves is copied by hand."""
    done = 0
    copy = getattr(os, "copy_file_range", None)
    try:
        while copy is not None and (more := copy(source.fileno(), target.fileno(), 1 << 30)):
            done += more
    except OSError as error:
        if error.errno not in _NO_RANGE_COPY:
            raise
    source.seek(done)
    target.seek(done)
    shutil.copyfileobj(source, target, CHUNK)


class Outputs:
    """The directories of one split tree while they are filled: one for each word, all but invisible."""

    def __init__(self, dest: Path, lead: str, mode: int, stack: ExitStack) -> None:
        self.dest, self.lead, self._mode, self._stack = dest, lead, mode, stack
        self.writers: dict[str, TreeWriter] = {}

    def writer(self, word: str) -> TreeWriter:
        """The directory `<lead><word>`, begun on first use."""
        if word not in self.writers:
            root = self._stack.enter_context(atomic_directory(self.dest / (self.lead + word)))
            self.writers[word] = TreeWriter(root, self._mode)
        return self.writers[word]

    @property
    def parts(self) -> dict[str, Part]:
        """Directory name → what it holds, the generic one first, then in the hardware's order."""
        return {self.lead + word: self.writers[word].part for word in in_order(self.writers)}


@contextmanager
def split_layout(dest: Path, lead: str, sources: Sequence[Path]) -> Iterator[Outputs]:
    """Directories `<dest>/<lead><word>` that appear together, the generic one last: the stamp of the build.

    Those of an earlier run are replaced, and removed when there is nothing for them any more. On an error all
    stay as they were. Raises `UsageError` when a source would be overwritten.
    """
    require_apart(dest, existing(dest, lead), sources)
    new = not dest.exists()
    try:
        with ExitStack() as stack:
            outputs = Outputs(dest, lead, stat.S_IMODE(sources[0].stat().st_mode), stack)
            outputs.writer(GENERIC)
            yield outputs
            for writer in outputs.writers.values():
                writer.finish()
            # The stamp goes first.
            for path in sorted(existing(dest, lead), key=lambda path: path.name != lead + GENERIC):
                _remove(path)
    except BaseException:
        if new:
            with contextlib.suppress(OSError):
                dest.rmdir()
        raise


@contextmanager
def whole_tree(path: Path, like: Path) -> Iterator[TreeWriter]:
    """One directory that appears whole or not at all, with the mode of `like`."""
    with atomic_directory(path) as root:
        writer = TreeWriter(root, stat.S_IMODE(like.stat().st_mode))
        yield writer
        writer.finish()
        _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or tree, also one with directories that may not be written into."""
    if path.is_dir() and not path.is_symlink():
        for directory, _, _ in os.walk(path):
            here = Path(directory)
            here.chmod(here.stat().st_mode | stat.S_IRWXU)
    remove_tree(path)


def require_apart(dest: Path, replaced: Iterable[Path], sources: Sequence[Path]) -> None:
    """Raise `UsageError` if `dest` lies in a source, or a source in a directory that would be replaced."""
    there, gone = dest.resolve(), [path.resolve() for path in replaced]
    for source in (path.resolve() for path in sources):
        if there.is_relative_to(source) or any(source.is_relative_to(path) for path in gone):
            raise UsageError(
                f"the output would overwrite {printable(source)}",
                next_step="choose an output directory apart from it",
            )


def existing(dest: Path, lead: str) -> list[Path]:
    """The directories in `dest` that are called as a part with this lead."""
    if not dest.is_dir():
        return []
    words = [(p, p.name[len(lead) :]) for p in sorted(dest.iterdir()) if p.name.startswith(lead)]
    return [path for path, word in words if word == GENERIC or served(word)]
