"""The door to what outlives a power cut: data of files, entries of folders, names that are taken once."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

# What file systems answer that cannot sync a folder, or do not know how (SMB, FUSE, some of NFS's servers).
_CANNOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

if sys.platform == "win32":  # pragma: no cover

    def sync_file(path: Path) -> None:
        """Return when the content of a file is on the disk; raises `OSError`."""
        # Only who may write may flush there.
        handle = os.open(path, os.O_RDWR | os.O_BINARY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def sync_folder(path: Path) -> None:
        """Nothing: folders cannot be synced there, and NTFS has a journal of its own."""

    def rename_new(source: Path, target: Path) -> bool:
        """Rename unless something has the name, and say whether; raises `OSError`."""
        try:
            # Never in place of something, there.
            source.rename(target)
        except FileExistsError:
            return False
        return True

else:
    import ctypes
    import fcntl

    # Of macOS, where fsync only hands over to the disk, which may keep it in memory.
    _FULL = getattr(fcntl, "F_FULLFSYNC", None)

    def _sync(handle: int) -> None:
        if _FULL is not None:  # pragma: no cover - macOS
            try:
                fcntl.fcntl(handle, _FULL)
                return
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
        os.fsync(handle)

    def sync_file(path: Path) -> None:
        """Return when the content of a file is on the disk; raises `OSError`."""
        handle = os.open(path, os.O_RDONLY)
        try:
            _sync(handle)
        finally:
            os.close(handle)

    def sync_folder(path: Path) -> None:
        """Return when the entries of a folder are on the disk; raises `OSError`."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _sync(handle)
        except OSError as error:
            # Where a folder cannot be synced nobody can do more; that the data is synced is told by its own.
            if error.errno not in _CANNOT:
                raise
        finally:
            os.close(handle)

    def rename_new(source: Path, target: Path) -> bool:
        """Rename unless something has the name, and say whether.

        Raises `OSError`, with `errno.ENOSYS` where the system cannot do this in one step.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        old, new = os.fsencode(source), os.fsencode(target)
        if hasattr(libc, "renameat2"):
            # AT_FDCWD, RENAME_NOREPLACE
            failed = libc.renameat2(-100, old, -100, new, 1)
        elif hasattr(libc, "renamex_np"):  # pragma: no cover - macOS
            # RENAME_EXCL
            failed = libc.renamex_np(old, new, 4)
        else:  # pragma: no cover - an old C library
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(source))
        if not failed:
            return True
        number = ctypes.get_errno()
        if number == errno.EEXIST:
            return False
        raise OSError(number, os.strerror(number), str(source))


def take_name(source: Path, target: Path) -> bool:
    """Give a file another name unless something has it, and say whether; `source` may stay as a second name.

    Of several that take one name at once, one gets it. Raises `OSError`, with `errno.ENOTSUP` on a file
    system that can neither link nor rename so that this holds.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError as refused:
        try:
            return rename_new(source, target)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            raise OSError(
                errno.ENOTSUP, "this file system has no hard links, and replaces what has a name", str(target)
            ) from refused
    return True
