"""One sdist: its members' names, PKG-INFO and what builds it, streamed, and unpacked as far as is safe."""

from __future__ import annotations

import gzip
import stat
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import msgspec
from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename
from packaging.version import InvalidVersion

from rocwright.check.facts import Facts, Member
from rocwright.check.gather.dist_info import LARGEST_TEXT, read_headers
from rocwright.check.gather.open_file import identity_of, opened, reason

_DAMAGE = (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError)
_HARMLESS, _MOST_RATIO = 1 << 30, 100
_MOST_MEMBERS = 100_000
# Names and other extended headers are read into memory at once.
_MOST_AT_ONCE = 16 << 20
_PIECE = 1 << 20
_KINDS = {
    tarfile.SYMTYPE: stat.S_IFLNK,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
    tarfile.FIFOTYPE: stat.S_IFIFO,
}


class _Bomb(Exception):
    """An archive that must not be unpacked further."""


class _Bounded:
    """A gzip stream that is only read forward, and no further than what its packed size makes plausible."""

    def __init__(self, stream: gzip.GzipFile, packed: int) -> None:
        self.stream, self.packed = stream, packed
        self.most = max(_HARMLESS, _MOST_RATIO * packed)
        self.place = 0

    def tell(self) -> int:
        return self.place

    def close(self) -> None:
        self.stream.close()

    def seek(self, place: int) -> int:
        while self.place < place and self.read(min(_PIECE, place - self.place)):
            pass
        return self.place

    def read(self, length: int) -> bytes:
        if length > _MOST_AT_ONCE:
            raise _Bomb(f"a header in it claims to have {length:,} bytes")
        data = self.stream.read(length)
        self.place += len(data)
        if self.place > self.most:
            raise _Bomb(f"it has {self.packed:,} bytes and unpacks to more than {self.most:,}")
        return data


def gather_sdist(path: Path) -> Facts:
    """Facts of one sdist; never raises for a bad file."""
    try:
        name, version = parse_sdist_filename(path.name)
    except (InvalidSdistFilename, InvalidVersion) as error:
        return Facts(path, "sdist", unreadable=f"its name is not an sdist name: {error}")
    facts = Facts(path, "sdist", project=canonicalize_name(name), version=str(version))
    try:
        with opened(path) as file, gzip.GzipFile(fileobj=file) as stream:
            facts = msgspec.structs.replace(facts, size=identity_of(file.fileno()).size)
            if facts.size == 0:
                return msgspec.structs.replace(facts, unreadable="it is empty")
            members, texts = _walk(_Bounded(stream, facts.size))
    except _Bomb as error:
        return msgspec.structs.replace(facts, bomb=str(error))
    except _DAMAGE as error:
        return msgspec.structs.replace(facts, unreadable=f"the archive is damaged: {error}")
    except OSError as error:
        return msgspec.structs.replace(facts, unreadable=reason(error))
    folder = _folder(path.name.removesuffix(".tar.gz"), texts)
    own = {name.partition("/")[2]: data for name, data in texts.items() if name.startswith(f"{folder}/")}
    return msgspec.structs.replace(
        facts,
        members=members,
        headers=read_headers(own.pop("PKG-INFO", None)),
        texts={name: data.decode("utf-8", "replace") for name, data in own.items()},
    )


def _folder(stem: str, texts: Mapping[str, bytes]) -> str:
    """The folder with PKG-INFO: that of the file's name, or the only one there is."""
    found = [name.partition("/")[0] for name in texts if name.endswith("/PKG-INFO")]
    return found[0] if len(found) == 1 else stem


def _is_told(name: str) -> bool:
    """Whether rules read the text: what says how the sdist is built, and what a ROCm is for."""
    _, _, file = name.partition("/")
    return file in ("PKG-INFO", "pyproject.toml", "rocm_set.json") or (
        file.endswith(".py") and "/" not in file
    )


def _walk(stream: _Bounded) -> tuple[tuple[Member, ...], dict[str, bytes]]:
    """All members but folders, and those whose text is read: together no more bytes than one may have."""
    members: list[Member] = []
    texts: dict[str, bytes] = {}
    room = LARGEST_TEXT
    with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r:") as archive:
        while (entry := archive.next()) is not None:
            if len(members) == _MOST_MEMBERS:
                raise _Bomb(f"it has more than {_MOST_MEMBERS:,} members")
            # What tarfile remembers of each member would fill the memory.
            cast(Any, archive).members = []
            if entry.isdir():
                continue
            kind = _KINDS.get(entry.type, stat.S_IFREG)
            members.append(Member(entry.name, entry.size, mode=kind | stat.S_IMODE(entry.mode)))
            if _is_told(entry.name) and entry.isreg() and entry.size <= room:
                content = archive.extractfile(entry)
                texts[entry.name] = content.read() if content is not None else b""
                room -= len(texts[entry.name])
        # What follows the end of the tar archive counts as well, and the gzip stream has a CRC at its end.
        while stream.read(_PIECE):
            pass
    return tuple(members), texts
