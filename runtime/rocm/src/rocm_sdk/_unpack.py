"""Write the files of the devel archive, each compared with its sha256 of the manifest."""

import hashlib
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor

from ._devel import DevelError
from ._manifest import damaged

ARCHIVES = ("_devel.tar", "_devel.tar.xz")
PIECE = 1 << 20
BATCH = 8 << 20


def unpack(module, entries, partial, distribution):
    """Write the files into the directories of `partial`; `DevelError` unless they are just the manifest's."""
    wanted = {path: value for path, kind, value in entries if kind == "file"}
    archives = [os.path.join(module, name) for name in ARCHIVES]
    archive = next((path for path in archives if os.path.isfile(path)), None)
    if archive is None:
        raise DevelError(damaged(distribution, "neither {} nor {} is there".format(*ARCHIVES)))
    packed = archive.endswith(".xz")
    batches, size = [[]], 0
    try:
        with tarfile.open(archive, "r:xz" if packed else "r:") as tar:
            for member in tar:
                path = os.path.normpath(member.name).replace(os.sep, "/")  # "./bin/x" is "bin/x"
                if not member.isfile():
                    continue  # links and directories are made from the manifest
                if path not in wanted:
                    raise DevelError(damaged(distribution, "unexpected or repeated in the archive: " + path))
                item = (path, wanted.pop(path), member.offset_data, member.size, member.mode)
                if packed:
                    _write(tar.extractfile(member), item, partial, distribution)
                    continue
                if size > BATCH or len(batches[-1]) > 200:
                    batches.append([])
                    size = 0
                batches[-1].append(item)
                size += member.size
    except (tarfile.TarError, EOFError, _lzma_error()) as error:
        raise DevelError(damaged(distribution, f"{os.path.basename(archive)}: {error}")) from error
    if wanted:
        first = min(wanted)
        raise DevelError(damaged(distribution, f"{len(wanted)} files missing, first {first}"))
    # Hashing and writing release the interpreter's lock.
    with ThreadPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
        list(pool.map(lambda batch: _write_batch(archive, batch, partial, distribution), batches))


def _lzma_error():
    try:
        from lzma import LZMAError
    except ImportError:  # a Python built without xz; tarfile says so itself when the archive needs it
        return EOFError
    return LZMAError


def _write_batch(archive, batch, partial, distribution):
    with open(archive, "rb", buffering=0) as source:
        for item in batch:
            source.seek(item[2])
            _write(source, item, partial, distribution)


def _write(source, item, partial, distribution):
    """Copy a file from a stream into the tree, executable or not as its mode says."""
    path, expected, _, size, mode = item
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(os.path.join(partial, path), flags, 0o777 if mode & 0o111 else 0o666)
    try:
        while size:
            piece = source.read(min(size, PIECE))
            if not piece:
                raise DevelError(damaged(distribution, "the archive ends early, in " + path))
            digest.update(piece)
            size -= len(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(handle, view) :]
    finally:
        os.close(handle)
    if digest.hexdigest() != expected:
        raise DevelError(damaged(distribution, "sha256 differs: " + path))
