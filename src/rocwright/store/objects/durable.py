"""Objects of a folder that outlive a power cut: written beside, synced, named, and their folders synced.

In this order, no name ever stands for content that is not on the disk, and what was put is there whatever
happens next. Each sync waits for the disk, so what belongs together is synced together: see `together`.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path

from rocwright.errors import RocwrightError
from rocwright.system import files
from rocwright.system.durable import sync_file, sync_folder

# Somebody else may remove a folder, empty as it is, between making it and writing into it.
ATTEMPTS = 10
# So many bytes, then files get their names: an upload that is interrupted goes on from there.
_PART = 256 << 20
# Waiting for the disk takes no processor; file systems commit at once what is asked for at once.
_THREADS = 8


class Block:
    """Changes of folders that are done, and durable, together; see `together`."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []
        self._size = 0
        self._partials: list[Path] = []
        self._syncing: list[tuple[Path, Future[None]]] = []
        # As an ordered set each; of folders, those whose entries belong to others may be closed to us.
        self._found: dict[Path, None] = {}
        self._folders: dict[Path, bool] = {}
        self._gone: set[Path] = set()
        # Folders of what was removed, with the root of their store.
        self._left: dict[Path, Path] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")

    def write(
        self,
        path: Path,
        fill: Callable[[Path], object],
        name: Callable[[Path], None],
        *,
        root: Path,
        sync: bool,
    ) -> None:
        """Have `fill` write a file beside `path` now, and `name` give it this name at the end."""
        partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{files.PARTIAL}")
        self._gone.discard(path)
        if sync:
            self._touch(path, root)
        self._partials.append(partial)
        with _told(path):
            _into_folder(partial, fill)
        if sync:
            self._syncing.append((path, self._threads.submit(sync_file, partial)))

        def step() -> None:
            with _told(path):
                name(partial)

        self._steps.append(step)
        with _told(path):
            self._size += partial.stat().st_size
        if self._size > _PART:
            self._do()

    def remove(self, path: Path, *, root: Path, sync: bool) -> None:
        """Remove a file at the end, and the folders below `root` that become empty."""

        def step() -> None:
            with _told(path):
                if _unlink(path):
                    self._left[path.parent] = root

        if sync:
            self._touch(path, root)
        self._steps.append(step)
        self._gone.add(path)

    def is_there(self, path: Path) -> bool:
        """Whether there is something, which the block does not remove."""
        return path not in self._gone and path.exists()

    def rely(self, path: Path, root: Path, *, content: bool = True) -> None:
        """Sync a file that is there, or its name alone: who put it may have been killed before doing so."""
        if content:
            self._found.setdefault(path)
        self._touch(path, root)

    def _touch(self, path: Path, root: Path) -> None:
        """Sync, at the end, every folder from that of the file up to that in which the store was made."""
        top = root.parent
        while not top.exists():
            top = top.parent
        for folder in path.parents:
            inside = folder == root or root in folder.parents
            self._folders[folder] = inside
            if folder == top:
                return

    def _do(self) -> None:
        """Wait for the content, then do what is to be done, in its order."""
        for path, future in self._syncing:
            with _told(path):
                future.result()
        for step in self._steps:
            step()
        _remove_empty(self._left)
        self._steps, self._syncing, self._size, self._left = [], [], 0, {}
        self._gone.clear()

    def settle(self) -> None:
        """Do what is to be done, then sync the folders."""
        try:
            self._do()
            self._sync(self._found, sync_file, lambda path: True)
            # A folder above the store is somebody else's: who may not list it cannot sync it.
            self._sync(self._folders, sync_folder, lambda path: not self._folders[path])
        finally:
            self._discard()

    def _sync(
        self, paths: Iterable[Path], sync: Callable[[Path], None], closed: Callable[[Path], bool]
    ) -> None:
        """Sync what is there; others may have removed it, or made it so that it is `closed` to us."""
        waiting = [(path, self._threads.submit(sync, path)) for path in paths]
        for path, future in waiting:
            with _told(path):
                try:
                    future.result()
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except PermissionError:
                    if not closed(path):
                        raise

    def abandon(self) -> None:
        """Do what was asked for, as far as it goes; nobody is told that it is done, so nothing is synced."""
        try:
            # What went wrong before is to be told, not that this does, too.
            with contextlib.suppress(RocwrightError):
                self._do()
        finally:
            self._discard()

    def _discard(self) -> None:
        """Remove what has no name."""
        self._threads.shutdown(cancel_futures=True)
        for partial in self._partials:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


_BLOCK: ContextVar[Block | None] = ContextVar("_BLOCK", default=None)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """What is put and deleted in the block is done by its end, in the same order, and synced once for all.

    Until then nobody may see it. When the block raises, what it asked for before is done, but may not be
    durable. What is found in the store within the block is durable after it, too, whoever put it. Holds for
    folders and this thread; other stores do at once what they are asked for, and what they have acknowledged
    is theirs to keep.
    """
    block = Block()
    token = _BLOCK.set(block)
    try:
        yield
    except BaseException:
        block.abandon()
        raise
    finally:
        _BLOCK.reset(token)
    block.settle()


def current() -> Block | None:
    """The block that we are in."""
    return _BLOCK.get()


@contextlib.contextmanager
def changing(*, alone: bool = False) -> Iterator[Block]:
    """The block that we are in, or one that ends with this change; `alone`, always that."""
    block = None if alone else _BLOCK.get()
    if block is not None:
        yield block
        return
    block = Block()
    try:
        yield block
    except BaseException:
        block.abandon()
        raise
    block.settle()


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise files.disk_error(error, path) from error


def _into_folder(partial: Path, fill: Callable[[Path], object]) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # Who removes the last file of a folder removes the folder: between any two of these steps, too.
            # mkdir then says "File exists" of a folder that is gone when it looks.
            partial.parent.mkdir(parents=True, exist_ok=True)
            fill(partial)
            return
        except (FileNotFoundError, FileExistsError):
            if attempt == ATTEMPTS:
                raise


def _unlink(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        # Below what is itself an object there is nothing.
        return False
    return True


def _remove_empty(left: Mapping[Path, Path]) -> None:
    """Remove folders, each with its root, and those above, where they are empty.

    The deepest first, so that each is tried once: one of many files takes long to say that it is not empty.
    """
    levels: defaultdict[int, dict[Path, Path]] = defaultdict(dict)
    for folder, root in left.items():
        levels[len(folder.parts)][folder] = root
    for depth in range(max(levels, default=0), 0, -1):
        for folder, root in levels[depth].items():
            if folder == root:
                continue
            with contextlib.suppress(OSError):
                folder.rmdir()
                levels[depth - 1][folder.parent] = root
