"""Take a wheel's members over into another one as they are compressed, with the digests that RECORD has."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from rocwright.errors import InvalidWheel
from rocwright.wheel.read import Wheel, WheelMember
from rocwright.wheel.stream import WheelStream
from rocwright.wheel.write import Taken
from rocwright.wheel.zipformat import DEFLATED, ENCRYPTED, STORED

# RECORD is written anew; its signatures would sign what no longer is.
_OWN = ("RECORD", "RECORD.jws", "RECORD.p7s")


def kept_members(wheel: Wheel) -> tuple[WheelMember, ...]:
    """The members that a changed copy has as well: all but RECORD and its signatures."""
    own = {f"{wheel.dist_info}/{name}" for name in _OWN}
    return tuple(member for member in wheel.members if member.name not in own)


def recorded_digests(wheel: Wheel) -> dict[str, str]:
    """Hex sha256 by member, as far as RECORD has it.

    Raises `InvalidWheel` where it contradicts the archive about which files there are and how large.
    """
    found: dict[str, str] = {}
    for row in wheel.record:
        member = wheel.member.get(row.path)
        if row.sha256 is None:
            continue
        if member is None or member.size != row.size or found.get(row.path, row.sha256) != row.sha256:
            raise InvalidWheel(
                f"RECORD of {wheel.path.name} contradicts the archive about {row.path}",
                where=wheel.path,
                next_step="build the wheel again",
            )
        found[row.path] = row.sha256
    return found


def take(
    source: WheelStream, member: WheelMember, digests: Mapping[str, str], *, name: str | None = None
) -> Taken:
    """A member as it lies compressed, perhaps under another name; read only where its digest is unknown."""
    if member.method not in (STORED, DEFLATED) or member.flags & ENCRYPTED:
        raise source.damaged(member, "it is packed in a way that wheels do not use")
    return Taken(
        name=name or member.name,
        packed=source.packed(member),
        size=member.size,
        crc=member.crc,
        sha256=digests.get(member.name) or _digest(source, member),
        deflated=member.method == DEFLATED,
        mode=member.mode or 0o644,
    )


def _digest(source: WheelStream, member: WheelMember) -> str:
    whole = hashlib.sha256()
    for piece in source.inflated(member):
        whole.update(piece)
    return whole.hexdigest()
