"""Refuse device wheels whose code was taken out of another build of their host."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from rocwright.device_code.kpack import LONGEST_BUILD, SUFFIX, find_build, read_contents
from rocwright.device_code.origin import named_archives, require_named, unlike_named
from rocwright.device_code.source import MemberReader, open_path
from rocwright.device_code.wheel.sets import VerifiedWheel, origins_in
from rocwright.errors import InvalidInput

_SPLIT = "give host and device wheels of one split: versions do not tell builds apart"


def require_same_build(host: VerifiedWheel, devices: Sequence[VerifiedWheel]) -> None:
    """Raise `InvalidInput` for an archive that names another build of a library than the host's.

    `InvalidArchive` for one that is not the one that its own wheel names. Archives of writers that name no
    build are taken as they are; `kpack verify` compares kernels.
    """
    for device in devices:
        _require_same_origin(host, device)
    own: dict[str, str] = {}
    for device in devices:
        for member, kernel, build in _named(device):
            name = posixpath.join(posixpath.dirname(posixpath.dirname(member)), kernel)
            if name not in own:
                own[name] = _build_of(host, name)
            if own[name] != build:
                there = own[name][:12] or "one that is named"
                raise InvalidInput(
                    f"{device.wheel.path.name} has code of another build of {name} than "
                    f"{host.wheel.path.name}: of {build[:12]}, not of {there}",
                    where=device.wheel.path,
                    next_step=_SPLIT,
                )
    for one in (host, *devices):
        for member, named in named_archives(origins_in(one)).items():
            if member in one.digests:
                require_named(
                    f"{member} in {one.wheel.path.name}",
                    one.wheel.path,
                    unlike_named(one.digests[member], named),
                )


def _require_same_origin(host: VerifiedWheel, device: VerifiedWheel) -> None:
    """By what both say of themselves, which is of databases, too."""
    own = {(posixpath.dirname(name), one.group): one.build for name, one in origins_in(host) if not one.part}
    for name, one in origins_in(device):
        build = own.get((posixpath.dirname(name), one.group), one.build)
        if one.part and one.build != build:
            raise InvalidInput(
                f"{device.wheel.path.name} is of another build than {host.wheel.path.name}: of "
                f"{one.build[:12]}, not of {build[:12]}",
                where=device.wheel.path,
                next_step=_SPLIT,
            )


def _named(device: VerifiedWheel) -> list[tuple[str, str, str]]:
    """Archives of a device wheel with the libraries and builds that they name."""
    whole = open_path(device.wheel.path)
    found = []
    for member in device.wheel.members:
        if member.name.endswith(SUFFIX):
            contents = read_contents(MemberReader(device.source, whole, member).open())
            found += [(member.name, kernel, build) for kernel, build in contents.builds.items()]
    return found


def _build_of(host: VerifiedWheel, name: str) -> str:
    """The identity in a library's marker, looked for as the library streams by; "" without one."""
    member = host.wheel.member.get(name)
    tail = b""
    for piece in host.source.inflated(member) if member is not None else ():
        build = find_build(tail + piece)
        if build:
            return build
        tail = piece[-LONGEST_BUILD:]
    return ""
