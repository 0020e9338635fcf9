"""Read split wheels whole: what each file's digest is, and whether wheels of one name hold the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rocwright.binary import elf as fmt
from rocwright.binary.elf import read_elf
from rocwright.binary.inside import spooled
from rocwright.device_code.fatbin import fat_section
from rocwright.device_code.wheel.extras import offered, without_offers
from rocwright.errors import InvalidElf, InvalidInput, InvalidWheel
from rocwright.system.parallel import in_order
from rocwright.wheel.read import Wheel, WheelMember, read_member
from rocwright.wheel.stream import WheelStream
from rocwright.wheel.write import Taken

_MOST_NAMED = 10
_WINDOW = 64 << 20


@dataclass(frozen=True)
class VerifiedWheel:
    """A wheel that was read whole: the sha256 (hex) of each member."""

    wheel: Wheel
    source: WheelStream
    digests: Mapping[str, str]

    def metadata(self) -> bytes:
        """METADATA's bytes."""
        return read_member(self.wheel, f"{self.wheel.dist_info}/METADATA")

    def taken(self, name: str) -> Taken:
        """A member as it lies compressed in the wheel."""
        member = self.wheel.member[name]
        return Taken(
            name=name,
            packed=self.source.packed(member),
            size=member.size,
            crc=member.crc,
            sha256=self.digests[name],
            deflated=member.method != 0,
            mode=member.mode or 0o644,
        )


def verified(source: WheelStream, threads: int) -> VerifiedWheel:
    """Read every member, on several threads; raises `InvalidWheel` unless RECORD has the digest of each."""
    wheel = source.wheel
    rows = {row.path: row for row in wheel.record}
    odd = sorted(rows.keys() ^ wheel.member.keys())
    if odd or len(rows) < len(wheel.record):
        raise _damaged(wheel, odd[0] if odd else "RECORD", "RECORD does not list each file once")

    def digest(member: WheelMember) -> tuple[WheelMember, str]:
        sha256 = hashlib.sha256()
        for piece in source.inflated(member):
            sha256.update(piece)
        return member, sha256.hexdigest()

    found = {}
    jobs = ((member, min(member.size, _WINDOW // 2)) for member in wheel.members)
    with closing(in_order(digest, jobs, threads=threads, window=_WINDOW)) as done:
        for member, sha256 in done:
            row, found[member.name] = rows[member.name], sha256
            if member.name != f"{wheel.dist_info}/RECORD" and (row.sha256, row.size) != (sha256, member.size):
                raise _damaged(wheel, member.name, f"its sha256 is {sha256}, RECORD says {row.sha256}")
    return VerifiedWheel(wheel, source, found)


def _damaged(wheel: Wheel, name: str, what: str) -> InvalidWheel:
    return InvalidWheel(
        f"{name} in {wheel.path.name}: {what}",
        where=wheel.path,
        next_step="split or download the wheel again",
    )


def require_same(first: VerifiedWheel, other: VerifiedWheel, work: Path) -> None:
    """Raise `InvalidInput` listing the files that differ; large ones are unpacked below `work` for that."""
    differing = list(_differences(first, other, work))
    for one in (first, other):
        if not offered(one.wheel) and (offered(first.wheel) or offered(other.wheel)):
            differing.insert(0, f"it was not split in {one.wheel.path.parent}: it offers no device wheels")
    if differing:
        shown = differing[:_MOST_NAMED]
        shown += [f"and {len(differing) - _MOST_NAMED} more"] * (len(differing) > _MOST_NAMED)
        places = f"{first.wheel.path.parent} and {other.wheel.path.parent}"
        raise InvalidInput(
            "\n    ".join([f"{first.wheel.path.name} differs between {places}:", *shown]),
            next_step="split all builds with the same options, or leave one of them out",
        )


def _differences(first: VerifiedWheel, other: VerifiedWheel, work: Path) -> Iterator[str]:
    """One line for each file that differs; what hosts offer does not count, nor what RECORD says of it."""
    info = first.wheel.dist_info
    mine, theirs = first.wheel.member, other.wheel.member
    for name in sorted((mine.keys() | theirs.keys()) - {f"{info}/RECORD"}):
        if name not in mine or name not in theirs:
            yield f"{name}: only in {(first if name in mine else other).wheel.path.parent}"
        elif first.digests[name] == other.digests[name]:
            if mine[name].mode != theirs[name].mode:
                yield f"{name}: mode {mine[name].mode:o} and {theirs[name].mode:o}"
        elif name != f"{info}/METADATA":
            whole = [one for one in (first, other) if _is_fat(one, name, work)]
            yield f"{name}: " + (f"not split in {whole[0].wheel.path.parent}" if whole else "other contents")
        elif len({without_offers(one.wheel, one.metadata()) for one in (first, other)}) > 1:
            yield f"{name}: differs in more than the device wheels offered"


def _is_fat(one: VerifiedWheel, name: str, work: Path) -> bool:
    """Whether a library still has device code inside."""
    pieces = one.source.inflated(one.wheel.member[name])
    head = next(pieces, b"")
    if not head.startswith(fmt.MAGIC):
        return False
    try:
        return fat_section(read_elf(spooled(Path(name), chain([head], pieces), work))) is not None
    except InvalidElf:
        return False
