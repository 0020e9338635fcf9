"""Make a wheel state the exact requirements that it was built with, and its local version, whatever its
project wrote; its other members are taken over as they are compressed, for fat wheels too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from packaging.markers import Marker, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.errors import InvalidWheel, UsageError
from rocwright.system.files import atomic_write
from rocwright.wheel.metadata import add_headers, edit_headers
from rocwright.wheel.read import Wheel, WheelMember, open_wheel, read_member
from rocwright.wheel.reversion.wheels import renamed_file, renamed_folder
from rocwright.wheel.stream import WheelStream, opened
from rocwright.wheel.tags import platform_of
from rocwright.wheel.write import BytesSource, Member, Taken, check_names, write_members
from rocwright.wheel.zipformat import DEFLATED, ENCRYPTED, STORED

_REQUIRES = "requires-dist"
_NOTHING: Mapping[str, str] = {}


def require_pins(wheel: Path, pins: Sequence[str]) -> Path | None:
    """Let a wheel require `pins` (`torch==2.9.0+rocm7.10.0`); None when it says so already.

    A requirement on the same project that holds where the wheel can be installed gets the pin's versions and
    extras and keeps its marker; where there is none, the pin is added. METADATA and RECORD are written anew,
    all other members are taken over as they are compressed; the file keeps its name and is replaced as a
    whole. Raises `UsageError` for a pin that is no requirement, `InvalidWheel` for a wheel that cannot be
    read, `NoSpace`.
    """
    wanted = [_parsed(pin) for pin in pins]
    if not wanted:
        return None
    found = open_wheel(wheel)
    name = f"{found.dist_info}/METADATA"
    old = read_member(found, name)
    new = pinned(old, wanted, environment_of(found.tags))
    if new == old:
        return None
    with opened(found) as source, atomic_write(wheel) as stream:
        members = list(_members(source, {name: new}))
        record = f"{found.dist_info}/RECORD"
        check_names([*(member.name for member in members), record], case_matters="linux" in wheel.name)
        write_members(stream, members, record)
    return wheel


def give_local_version(wheel: Path, local: str) -> Path:
    """Give a wheel a local version (`+rocm7.10.0`) in its name and METADATA; returns where it lies then.

    A local version that its project gave it is replaced. Members are taken over as they are compressed, and
    the wheel of before is removed. Raises `InvalidWheel` for one that cannot be read, `NoSpace`.
    """
    found = open_wheel(wheel)
    version = Version(f"{Version(found.metadata.version).public}{local}")
    new = wheel.with_name(renamed_file(wheel.name, version))
    if not local or new == wheel:
        return wheel
    name = f"{found.dist_info}/METADATA"
    metadata = edit_headers(
        read_member(found, name), lambda key, _: [f"Version: {version}"] if key == "version" else None
    )
    data = f"{found.dist_info.removesuffix('.dist-info')}.data"
    renamed = {folder: renamed_folder(folder, version) for folder in (found.dist_info, data)}
    with opened(found) as source, atomic_write(new) as stream:
        members = list(_members(source, {name: metadata}, renamed))
        record = f"{renamed[found.dist_info]}/RECORD"
        check_names([*(member.name for member in members), record], case_matters="linux" in new.name)
        write_members(stream, members, record)
    wheel.unlink()
    return new


def _members(
    source: WheelStream, changed: Mapping[str, bytes], renamed: Mapping[str, str] = _NOTHING
) -> Iterator[Member | Taken]:
    """All but RECORD, with new content by name, and with new names of folders at the top."""
    digests = recorded_digests(source.wheel)
    for member in kept_members(source.wheel):
        top, slash, below = member.name.partition("/")
        name = f"{renamed.get(top, top)}{slash}{below}"
        if member.name in changed:
            yield Member(name, BytesSource(changed[member.name]), mode=member.sound_mode)
        else:
            yield take(source, member, digests, name=name)


def _parsed(pin: str) -> Requirement:
    try:
        return Requirement(pin)
    except InvalidRequirement as error:
        raise UsageError(
            f"{pin!r} is not a requirement: {error}", next_step="write it like torch==2.9.1"
        ) from error


def pinned(metadata: bytes, pins: Sequence[Requirement], environment: Mapping[str, str]) -> bytes:
    """METADATA that states the pins, as `require_pins` says; unchanged where it does so already.

    `environment` is that of markers, where the wheel can be installed.
    """
    for pin in pins:
        metadata = _with_pin(metadata, pin, environment)
    return metadata


def _with_pin(metadata: bytes, pin: Requirement, environment: Mapping[str, str]) -> bytes:
    in_force = False
    written: set[str] = set()

    def edit(key: str, value: str) -> Sequence[str] | None:
        nonlocal in_force
        present = _requirement(value) if key == _REQUIRES else None
        if present is None or canonicalize_name(present.name) != canonicalize_name(pin.name):
            return None
        holds = present.marker is None or present.marker.evaluate({**environment, "extra": ""})
        if not holds and not _asks_for_extra(present.marker):
            return None
        in_force = in_force or holds
        wanted = Requirement(value)
        wanted.url, wanted.specifier = pin.url, pin.specifier
        if holds:
            wanted.extras |= pin.extras
        if str(wanted) in written:
            return ()
        written.add(str(wanted))
        return None if wanted == present else [f"Requires-Dist: {wanted}"]

    edited = edit_headers(metadata, edit)
    return edited if in_force else add_headers(edited, [f"Requires-Dist: {pin}"])


def _requirement(text: str) -> Requirement | None:
    # What is malformed here is a finding of the check; it is not about to be pinned.
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


def _asks_for_extra(marker: Marker | None) -> bool:
    return marker is not None and "extra" in str(marker)


def environment_of(tags: frozenset[str]) -> dict[str, str]:
    """Values of markers where a wheel with these tags is installed; those of this Python for `any`."""
    environment = {key: str(value) for key, value in default_environment().items()}
    tag = next(iter(sorted((tag for text in tags for tag in parse_tag(text)), key=str)))
    platform = platform_of(tags)
    if platform == "linux":
        environment |= {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux"}
        environment["platform_machine"] = _machine(tag)
    elif platform == "windows":
        environment |= {"os_name": "nt", "sys_platform": "win32", "platform_system": "Windows"}
        environment["platform_machine"] = _machine(tag).upper()
    version = tag.interpreter.removeprefix("cp")
    if tag.interpreter.startswith("cp") and len(version) > 1:
        number = f"{version[0]}.{version[1:]}"
        environment |= {"python_version": number, "python_full_version": f"{number}.0"}
    return environment


def _machine(tag: Tag) -> str:
    return next((name for name in ("x86_64", "aarch64", "amd64", "arm64") if tag.platform.endswith(name)), "")


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
        mode=member.sound_mode,
    )


def _digest(source: WheelStream, member: WheelMember) -> str:
    whole = hashlib.sha256()
    for piece in source.inflated(member):
        whole.update(piece)
    return whole.hexdigest()
