"""A store in a local folder, the default: nothing to install, nothing to start."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

from rocwright.errors import IntegrityError, InvalidInput, NoObject
from rocwright.store.layout import check_key, is_key, is_passing
from rocwright.store.objects.durable import ATTEMPTS, Block, changing, current
from rocwright.store.objects.protocol import Stored
from rocwright.system import files
from rocwright.system.durable import take_name

# "0" for a store that may be lost with the machine's power: what is put is not synced to the disk.
SYNC = "ROCWRIGHT_STORE_SYNC"
# What a killed writer left behind of a file; no upload takes longer.
_LEFT_AFTER_S = 24 * 3600


class LocalStore:
    """A store in a folder; symbolic links in it are not listed.

    Files come in as copies: what builds or downloads a file of the same name next night may write into it in
    place, and would reach a hard link.

    What a method has put or removed outlives a power cut, with `sync` (default: as the environment says, else
    yes); within `together`, when the block has ended.

    `public` is the address below which a web server serves the folder; without it, `url` says `file://`.
    """

    def __init__(self, root: Path, *, public: str | None = None, sync: bool | None = None) -> None:
        self.root = root.resolve()
        self._public = public
        self._sync = os.environ.get(SYNC, "1") != "0" if sync is None else sync

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    @contextlib.contextmanager
    def _existing(self, key: str) -> Iterator[Path]:
        """The file of an object, which others may remove at any moment before it is open."""
        try:
            yield self._path(key)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise self._absent(key) from None

    def _absent(self, key: str) -> NoObject:
        return NoObject(f"the store has no object {key}", where=self.root)

    def _changing(self, key: str) -> AbstractContextManager[Block]:
        # A lease is there for others at once, in a block, too; nobody misses it after a power cut.
        return changing(alone=is_passing(key))

    def _syncs(self, key: str) -> bool:
        return self._sync and not is_passing(key)

    def _rely(self, path: Path, key: str, *, content: bool = True) -> None:
        """Within `together`, what was found there is to be as durable as what is put."""
        block = current()
        if block is not None and self._syncs(key):
            block.rely(path, self.root, content=content)

    def put_file(self, source: Path, key: str) -> None:
        """See `ObjectStore.put_file`."""
        gone = InvalidInput(
            f"{source.name} does not exist, so it cannot be stored",
            where=source,
            next_step="make sure that nothing removes files meanwhile, then run again",
        )
        self._put(source, key, shutil.copyfile, gone)

    def _put(self, source: Path, key: str, fill: Callable[[Path, Path], object], gone: InvalidInput) -> None:
        """`gone` is raised where the source is not there, or not any more."""
        path = self._path(key)

        def write(partial: Path) -> None:
            _remove_left(path)
            fill(source, partial)

        def same(written: Path | None) -> bool:
            offered = written or source
            # Two names of one file need no reading.
            return _same_file(path, offered) or self._has(path, files.sha256_file(offered), key)

        try:
            if not source.is_file():
                raise gone
            self._create(path, key, write, same)
        except (FileNotFoundError, InvalidInput):
            if source.is_file():
                raise
            raise gone from None

    def _create(
        self,
        path: Path,
        key: str,
        write: Callable[[Path], object],
        same: Callable[[Path | None], bool],
    ) -> None:
        """Have an object: by `write` where none is, else `same` compares; others may remove it meanwhile.

        `same` is given what was written, None when nothing is.
        """

        def name(partial: Path) -> None:
            for _ in range(ATTEMPTS):
                if take_name(partial, path) or same(partial):
                    return
            raise IntegrityError(
                f"{key} is removed again and again while it is written",
                where=self.root,
                next_step="run again",
            )

        with self._changing(key) as block:
            if block.is_there(path) and same(None):
                if self._syncs(key):
                    block.rely(path, self.root)
            else:
                block.write(path, write, name, root=self.root, sync=self._syncs(key))

    def _has(self, path: Path, digest: str, key: str) -> bool:
        """Whether an object is there, which then has to be of this digest."""
        try:
            there = files.sha256_file(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise files.disk_error(error, path) from error
        require_same(there, digest, key)
        return True

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`."""
        path = self._path(key)

        def write(partial: Path) -> None:
            partial.write_bytes(data)

        if overwrite:
            with self._changing(key) as block:
                block.write(
                    path,
                    write,
                    lambda partial: _replace(partial, path),
                    root=self.root,
                    sync=self._syncs(key),
                )
        else:
            digest = hashlib.sha256(data).hexdigest()
            self._create(path, key, write, lambda _: self._has(path, digest, key))

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`; a hard link where possible."""
        self._put(self._path(source), key, _link_or_copy, self._absent(source))

    def read(self, key: str) -> bytes:
        """See `ObjectStore.read`."""
        with self._existing(key) as path:
            data = path.read_bytes()
        self._rely(path, key)
        return data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """See `ObjectStore.read_range`."""
        with self._existing(key) as path, path.open("rb") as stream:
            stream.seek(start)
            return stream.read(max(length, 0))

    def stat(self, key: str) -> Stored | None:
        """See `ObjectStore.stat`."""
        path = self._path(key)
        try:
            facts = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(facts.st_mode):
            return None
        self._rely(path, key)
        return _stored(key, facts)

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        path = self._path(key)
        there = path.is_file()
        if there:
            self._rely(path, key)
        return there

    def list(self, prefix: str) -> tuple[Stored, ...]:
        """See `ObjectStore.list`; what is still being written, or what no key can name, is no object."""
        found = ((f"{prefix}{name}", facts) for name, facts in _scan(self._folder(prefix)))
        objects = [_stored(key, facts) for key, facts in found if is_key(key)]
        if current() is not None:
            for one in objects:
                # It had its name only when its content was synced.
                self._rely(self.root / one.key, one.key, content=False)
        return tuple(sorted(objects, key=lambda one: one.key))

    def folders(self, prefix: str) -> tuple[str, ...]:
        """See `ObjectStore.folders`."""
        try:
            with os.scandir(self._folder(prefix)) as entries:
                return tuple(
                    sorted(
                        entry.name
                        for entry in entries
                        if is_key(entry.name) and entry.is_dir(follow_symlinks=False)
                    )
                )
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def _folder(self, prefix: str) -> Path:
        return self.root / check_key(prefix.removesuffix("/")) if prefix else self.root

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`; folders that become empty go, too."""
        with self._changing(key) as block:
            block.remove(self._path(key), root=self.root, sync=self._syncs(key))

    def digest(self, key: str) -> str:
        """See `ObjectStore.digest`."""
        with self._existing(key) as path:
            return files.sha256_file(path)

    def url(self, key: str) -> str:
        """Below the public address of the store; a `file://` URL where it has none."""
        folder = key.endswith("/")
        path = self.root / check_key(key.removesuffix("/"))
        if self._public is not None:
            return f"{self._public}/{quote(key)}"
        address = path.as_uri()
        return address + "/" if folder else address


def _scan(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every file below `root` by its relative path; others may write and remove at the same time."""
    pending = [("", str(root))]
    while pending:
        below, directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        # It could lead anywhere, and in circles.
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((f"{below}{entry.name}/", entry.path))
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        yield below + entry.name, entry.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InvalidInput(
                f"cannot list {directory}: {error.strerror}", where=directory, next_step="make it readable"
            ) from error


def _replace(partial: Path, path: Path) -> None:
    partial.replace(path)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _link_or_copy(source: Path, partial: Path) -> None:
    try:
        os.link(source, partial)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, partial)


def _remove_left(path: Path) -> None:
    """Remove what writers of this file left that were killed a day ago."""
    # The folder may not be there, or go while it is listed.
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if not (entry.name.startswith(f"{path.name}.") and entry.name.endswith(files.PARTIAL)):
                continue
            with contextlib.suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_ctime > _LEFT_AFTER_S:
                    Path(entry.path).unlink()


def _stored(key: str, facts: os.stat_result) -> Stored:
    # A link has the time of its source, which may be years old; the last change of its inode is when it came.
    # On Windows st_ctime is when the file was made.
    came = facts.st_ctime if os.name == "posix" else max(facts.st_mtime, facts.st_ctime)
    return Stored(key, facts.st_size, datetime.fromtimestamp(came, timezone.utc))


def require_same(stored: str, offered: str, key: str) -> None:
    """Raise `IntegrityError` unless the digest of an object is that of what is to be put there."""
    if stored != offered:
        raise IntegrityError(
            f"{key} is in the store with sha256 {stored}; refusing to replace it by {offered}",
            where=key,
            next_step="give the changed file a new version or run id: a published name never changes content",
        )
