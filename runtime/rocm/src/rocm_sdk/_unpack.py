"""Write the files of the devel archive, each compared with its sha256 of the manifest."""

import hashlib
import mmap
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from . import _tar
from ._manifest import damaged
from ._stamp import DevelError

PLAIN, PACKED = "_devel.tar", "_devel.tar.xz"
UNPACKED = ".devel.tar"  # in the tree that is being made; no path of a manifest is taken for it
THREADS = 4
# Smaller files are written one after the other: handing each to a thread costs more than it gains.
LARGE = 1 << 18
PIECE = 1 << 16  # hashed and written while it is in the processor's cache


def unpack(module, entries, partial, distribution):
    """Write the files into the directories of `partial`; `DevelError` unless they are just the manifest's."""
    archive = os.path.join(module, PLAIN)
    if os.path.isfile(archive):
        _write_files(archive, entries, partial, distribution)
        return
    packed = os.path.join(module, PACKED)
    if not os.path.isfile(packed):
        raise DevelError(damaged(distribution, f"neither {PLAIN} nor {PACKED} is there"))
    import lzma

    archive = os.path.join(partial, UNPACKED)
    try:
        with lzma.open(packed, "rb") as source, open(archive, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except (lzma.LZMAError, EOFError) as error:
        raise DevelError(damaged(distribution, f"{PACKED}: {error}")) from error
    _write_files(archive, entries, partial, distribution)
    os.unlink(archive)


def _write_files(archive, entries, partial, distribution):
    wanted = {path: value for path, kind, value in entries if kind == "file"}
    with open(archive, "rb") as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            raise DevelError(damaged(distribution, f"{os.path.basename(archive)} is empty"))
        # Not closed here: the traceback of a failed write may still hold a piece of it.
        data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    _write_members(memoryview(data), wanted, partial, distribution)
    if wanted:
        first = min(wanted)
        raise DevelError(damaged(distribution, f"{len(wanted)} files missing, first {first}"))


def _write_members(view, wanted, partial, distribution):
    """Write every file and take it from `wanted`. Hashing and writing release the interpreter's lock."""
    bad = []

    def write(path, start, size, mode, expected):
        if _write(view[start : start + size], os.path.join(partial, path), mode) != expected:
            bad.append(path)

    with ThreadPoolExecutor(max_workers=min(THREADS, os.cpu_count() or 1)) as pool:
        jobs = []
        try:
            for name, start, size, mode in _tar.files(view):
                path = name[2:] if name.startswith("./") else name
                expected = wanted.pop(path, None)
                if expected is None:
                    what = "unexpected or repeated in the archive: " + path
                    raise DevelError(damaged(distribution, what))
                if size < LARGE:
                    write(path, start, size, mode, expected)
                else:
                    jobs.append(pool.submit(write, path, start, size, mode, expected))
        except ValueError as error:
            raise DevelError(damaged(distribution, f"the archive cannot be read: {error}")) from error
        for job in jobs:
            job.result()
    if bad:
        raise DevelError(damaged(distribution, "sha256 differs: " + " ".join(sorted(bad)[:5])))


def _write(content, path, mode):
    """Write a new file, executable or not as `mode` says; returns the sha256 of the content."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, 0o777 if mode & 0o111 else 0o666)
    digest = hashlib.sha256()
    try:
        for start in range(0, len(content), PIECE):
            piece = content[start : start + PIECE]
            digest.update(piece)
            while piece:
                piece = piece[os.write(handle, piece) :]
    finally:
        os.close(handle)
    return digest.hexdigest()
