"""Tar archives that nobody has to trust: members one by one, within bounds that no real one meets.

What a header claims is compared with what the archive packs before a byte of it is written, so that sparse
files, zeros by the terabyte, a million members, endless names and directories without bottom cost nothing.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO, Any, cast

import msgspec

_EXTENDED = frozenset(
    [
        tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK,
    ]
)  # fmt: skip


class TarBounds(msgspec.Struct, frozen=True):
    """Members, letters of a name, folders of a path, bytes of a header; and how far an archive may unpack.

    That is `harmless` bytes whatever it packs, beyond it `ratio` times what it packs.
    """

    members: int = 1_000_000
    name: int = 4096
    depth: int = 200
    header: int = 1 << 20
    harmless: int = 1 << 30
    ratio: int = 100


BOUNDS = TarBounds()
# Of one folder or file, on every file system.
_LONGEST = 255


class TarBomb(tarfile.TarError):
    """An archive that must not be unpacked further; says what it claims."""


class _Info(tarfile.TarInfo):
    """A header; extended ones are read into memory whole, so they are small or refused."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in _EXTENDED and self.size > BOUNDS.header:
            raise TarBomb(f"one of its headers claims to have {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]


def opened_tar(stream: object, *, mode: str = "r|", bufsize: int = 1 << 20) -> tarfile.TarFile:
    """A tar archive that is read forward from what has `read(size)`."""
    return tarfile.open(  # type: ignore[call-overload,no-any-return]
        fileobj=cast("IO[bytes]", stream), mode=mode, bufsize=bufsize, tarinfo=_Info
    )


def bounded_members(archive: tarfile.TarFile, packed: int) -> Iterator[tarfile.TarInfo]:
    """The members in order; raises `TarBomb` before one that goes beyond the bounds is handed out.

    `packed` is the size of the archive on disk.
    """
    bounds = BOUNDS
    most = max(bounds.harmless, bounds.ratio * packed)
    count = size = 0
    while (member := archive.next()) is not None:
        # What tarfile remembers of each member would fill the memory.
        cast(Any, archive).members = []
        count += 1
        size += max(0, member.size)
        if count > bounds.members:
            raise TarBomb(f"it has more than {bounds.members:,} members")
        if size > most:
            raise TarBomb(f"it has {packed:,} bytes and unpacks to more than {most:,}")
        for text in (member.name, member.linkname):
            if len(text) > bounds.name:
                raise TarBomb(f"the name {text[:40]!a}… in it has more than {bounds.name:,} letters")
            if any(len(part.encode("utf-8", "surrogateescape")) > _LONGEST for part in text.split("/")):
                raise TarBomb(f"the name {text[:40]!a}… in it has a part of more than {_LONGEST} bytes")
            if text.count("/") > bounds.depth:
                raise TarBomb(f"the path {text[:40]!a}… in it is more than {bounds.depth:,} folders deep")
        yield member
