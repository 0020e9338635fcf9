"""A file that may hold device code, wherever it lies: on disk, or in a wheel that is open."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rocwright.binary.inside import spooled, window
from rocwright.binary.view import Mapped, mapped
from rocwright.device_code.kpack import SUFFIX
from rocwright.errors import InvalidInput
from rocwright.wheel.read import WheelMember
from rocwright.wheel.stream import WheelStream
from rocwright.wheel.zipformat import STORED

HEAD = 64


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file.

    `name` is how people are told of it, `path` the file or the wheel that holds it, `member` its name there.
    `installed` is where it is installed (forward slashes, from the tree's root; absolute for files given one
    by one), `part` the target or group whose part holds it, None for the host, `owner` the directory or
    wheel that it is in. `size` is in bytes. `link` is where a symbolic link leads, which is never opened.
    `mode` are permission bits where they are known, `crc` a wheel's CRC-32. `open` gives all of it, `head`
    its first 64 bytes; both raise `InvalidInput` naming the file.
    """

    name: str
    path: Path
    installed: str
    size: int
    open: Callable[[], Mapped]
    head: Callable[[], bytes]
    member: str | None = None
    part: str | None = None
    owner: str = ""
    link: str | None = None
    mode: int | None = None
    crc: int | None = None

    @property
    def key(self) -> str:
        """The same for every way to the same file."""
        return str(self.path.resolve() / (self.member or ""))

    @property
    def is_archive(self) -> bool:
        """Whether it is an archive of device code, by its name."""
        return self.installed.endswith(SUFFIX) and self.link is None


def on_disk(path: Path, name: str, installed: str, *, part: str | None = None, owner: str = "") -> Source:
    """A file, or a link, that lies there."""
    facts = path.lstat()
    link = os.readlink(path) if path.is_symlink() else None  # noqa: PTH115 - as text, not normalised
    return Source(
        name=name,
        path=path,
        installed=installed,
        size=facts.st_size,
        open=partial(open_path, path),
        head=partial(head_of, path),
        part=part,
        owner=owner,
        link=link,
        mode=facts.st_mode & 0o7777,
    )


def in_wheel(
    stream: WheelStream,
    whole: Mapped,
    member: WheelMember,
    name: str,
    installed: str,
    part: str | None = None,
) -> Source:
    """A member of an open wheel, all of which is mapped as `whole`."""
    reader = MemberReader(stream, whole, member)
    return Source(
        name=name,
        path=whole.path,
        installed=installed,
        size=member.size,
        open=reader.open,
        head=reader.head,
        member=member.name,
        part=part,
        owner=whole.path.name,
        mode=(member.mode & 0o777) or None,
        crc=member.crc,
    )


def open_path(path: Path) -> Mapped:
    """Map a file; raises `InvalidInput` naming it."""
    with mapped(path) as file:
        return file


def head_of(path: Path) -> bytes:
    """A file's first bytes; raises `InvalidInput` naming it."""
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD)
    except OSError as error:
        raise InvalidInput(f"cannot read {path.name}: {error.strerror}", where=path) from error


@dataclass(frozen=True)
class MemberReader:
    """Opens one member: in place when it is stored, else inflated into a file without a name."""

    stream: WheelStream
    whole: Mapped
    member: WheelMember

    def open(self) -> Mapped:
        """The whole member."""
        path = self.whole.path / self.member.name
        if self.member.method == STORED:
            packed = self.stream.packed(self.member)
            return window(self.whole, path, packed.start, packed.size)
        return spooled(path, self.stream.inflated(self.member))

    def head(self) -> bytes:
        """Its first bytes, without the rest."""
        if self.member.method == STORED:
            return self.open().read_at(0, HEAD)
        return next(self.stream.inflated(self.member), b"")[:HEAD]
