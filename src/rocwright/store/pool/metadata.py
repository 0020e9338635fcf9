"""METADATA of a wheel and PKG-INFO of an sdist, as they stand in the archive, which nobody has to trust."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, cast

from rocwright.errors import InvalidWheel
from rocwright.wheel.read import DAMAGED

WHEEL, SDIST = ".whl", ".tar.gz"
# Far above any real one; what is larger is there to fill the memory.
LARGEST_METADATA = 64 << 20
_LARGEST_SDIST, _MOST_RATIO = 1 << 30, 100


def read_metadata(path: Path) -> bytes:
    """METADATA of a wheel or PKG-INFO of an sdist.

    Raises `InvalidWheel` for an archive that is cut short or damaged, one without it or with several, a
    member whose name leads out of where it is installed, and for bombs.
    """
    try:
        return _wheel_metadata(path) if path.name.endswith(WHEEL) else _sdist_metadata(path)
    except (*DAMAGED, OSError, tarfile.TarError, zlib.error) as error:
        raise InvalidWheel(
            f"{path.name} cannot be read: {error}", where=path, next_step="build or fetch the file again"
        ) from error


def _wheel_metadata(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [info.orig_filename for info in archive.infolist()]
        outside = next((name for name in names if _leads_out(name)), None)
        if outside is not None:
            raise InvalidWheel(
                f"{path.name} has a member {outside!a}, which leads out of the place it is installed to",
                where=path,
            )
        found = [name for name in names if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
        if len(found) != 1:
            raise InvalidWheel(f"{path.name} has {len(found)} METADATA members, expected one", where=path)
        with archive.open(found[0]) as stream:
            return _read(stream, path, found[0])


def _leads_out(name: str) -> bool:
    # A backslash parts folders on Windows, and so does a colon the drive.
    parts = name.replace("\\", "/").split("/")
    return ".." in parts or parts[0] == "" or parts[0].endswith(":") or "\0" in name


def _sdist_metadata(path: Path) -> bytes:
    wanted = f"{path.name.removesuffix(SDIST)}/PKG-INFO"
    with gzip.open(path) as packed:
        stream = _Bounded(packed, path)
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
            for member in archive:
                if member.name == wanted and member.isfile():
                    content = archive.extractfile(member)
                    assert content is not None
                    return _read(content, path, wanted)
    raise InvalidWheel(f"{path.name} has no {wanted}", where=path)


def _read(stream: IO[bytes], path: Path, name: str) -> bytes:
    data = stream.read(LARGEST_METADATA + 1)
    if len(data) > LARGEST_METADATA:
        raise InvalidWheel(f"{name} in {path.name} has more than {LARGEST_METADATA:,} bytes", where=path)
    return data


class _Bounded:
    """An unpacked stream, read no further than the packed size makes plausible."""

    def __init__(self, stream: gzip.GzipFile, path: Path) -> None:
        self._stream, self._path = stream, path
        self._left = max(_LARGEST_SDIST, _MOST_RATIO * path.stat().st_size)

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise InvalidWheel(f"{self._path.name} unpacks to more than is plausible", where=self._path)
        return data
