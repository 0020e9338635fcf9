"""Locks and links: where Linux and Windows differ for the devel tree."""

import errno
import hashlib
import os
import tempfile
from contextlib import contextmanager, suppress

from ._dist import WINDOWS

# A hard link is not possible: another file system, not allowed, not supported, too many links.
NO_HARD_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
NO_DIRECTORY_LOCK = (errno.EBADF, errno.ENOLCK, errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def locked(directory):
    """Hold the lock of a directory; yields whether it excludes every other process.

    The directory itself is locked, so that no lock file is left behind. Where that is impossible, a file in
    the system's temporary directory is locked, which does not reach other hosts; the rename into place keeps
    the result right even then. That file goes with the lock.
    """
    handle = None if WINDOWS else _lock_directory(directory)
    if handle is not None:
        try:
            yield True
        finally:
            os.close(handle)
        return
    place = hashlib.sha256(os.path.realpath(directory).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    user = os.environ.get("USERNAME", "") if WINDOWS else os.getuid()
    file = os.path.join(tempfile.gettempdir(), f"rocm-sdk-{user}-{place}.lock")
    handle = _lock_file(file)
    try:
        yield WINDOWS
    finally:
        if not WINDOWS:
            os.unlink(file)  # still locked: who waits for it sees that it is gone and makes a new one
        os.close(handle)
        if WINDOWS:
            _unlink_unless_in_use(file)


def _lock_directory(directory):
    """A handle that holds the lock, None when the file system cannot lock directories (NFS)."""
    import fcntl

    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        os.close(handle)
        if error.errno not in NO_DIRECTORY_LOCK:
            raise
        return None
    return handle


def _lock_file(file):
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        if WINDOWS:
            _wait_for_windows_lock(handle)
            return handle
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.stat(file), os.fstat(handle)):
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)


def _wait_for_windows_lock(handle):
    import msvcrt

    while True:
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        except OSError as error:  # LK_LOCK gives up after ten seconds; an expansion may take longer
            if error.errno not in (errno.EDEADLK, errno.EACCES):
                raise
        else:
            return


def _unlink_unless_in_use(file):
    with suppress(OSError):  # another process waits for it, and will remove it
        os.unlink(file)


def hard_link(source, place):
    """Make a hard link to a file; returns whether that was possible. Nothing is copied."""
    try:
        # A link in a runtime package (none are shipped there) must not be hard-linked itself.
        os.link(os.path.realpath(source) if os.path.islink(source) else source, place)
    except OSError as error:
        if error.errno not in NO_HARD_LINK:
            raise
        return False
    return True


def symbolic_link(text, place, *, directory=False):
    """Make a symbolic link; returns whether the system lets this user make one (Windows may not)."""
    try:
        os.symlink(text.replace("/", os.sep) if WINDOWS else text, place, target_is_directory=directory)
    except OSError:
        if not WINDOWS:
            raise
        return False
    return True


def junction(target, place):
    """Windows' link to a directory, which every user may make; `target` is absolute and need not exist."""
    import _winapi

    _winapi.CreateJunction(target, place)
