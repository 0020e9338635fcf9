"""Decide which split wheels belong together, which serve a GPU family, and whether equal names hold the same.

For the last, wheels are read whole: a `VerifiedWheel` has the digest of every file.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

import msgspec
from packaging.requirements import Requirement

from rocwright.binary import elf as fmt
from rocwright.binary.elf import read_elf
from rocwright.binary.view import spooled
from rocwright.data import load_table
from rocwright.device_code.fatbin import fat_section
from rocwright.device_code.origin import LARGEST_ORIGIN, SplitOrigin, is_origin, parse_origin, united
from rocwright.device_code.tree.names import packages_of
from rocwright.device_code.wheel.device_wheel import (
    DevicePackage,
    device_file,
    offered,
    selectors_of,
    union,
    without_offers,
)
from rocwright.errors import (
    InvalidArchive,
    InvalidElf,
    InvalidInput,
    InvalidWheel,
    RocwrightError,
    UsageError,
)
from rocwright.model.device_files import DeviceFiles, classify, known_targets
from rocwright.model.gpu import Families, base_targets, expand
from rocwright.system.parallel import in_order
from rocwright.system.progress import counted
from rocwright.wheel.metadata import header_fields, normalized_name
from rocwright.wheel.read import Wheel, WheelMember, read_member
from rocwright.wheel.stream import WheelStream
from rocwright.wheel.write import Taken

_DEVICE_SUMMARY = "Summary: Device code of "
_MOST_NAMED = 10
_WINDOW = 64 << 20


class SplitSet(msgspec.Struct, frozen=True):
    """The hosts of one file name from all builds, and their device wheels.

    `packages` are what these hosts offer together, `devices` those given: file name → each build's.
    """

    file: str
    hosts: tuple[Wheel, ...]
    packages: tuple[DevicePackage, ...]
    devices: Mapping[str, tuple[Wheel, ...]]

    def device_file(self, package: DevicePackage) -> str:
        """File name of the device wheel of a package."""
        return device_file(self.hosts[0], package.name)

    @property
    def missing(self) -> tuple[str, ...]:
        """File names of device wheels that are offered and not given."""
        names = [self.device_file(package) for package in self.packages]
        return tuple(name for name in names if name not in self.devices)

    def given(self) -> dict[DevicePackage, Wheel]:
        """The first wheel of each package, in the order of the packages."""
        files = {package: self.device_file(package) for package in self.packages}
        return {package: self.devices[file][0] for package, file in files.items() if file in self.devices}


def split_sets(wheels: Sequence[Wheel]) -> tuple[SplitSet, ...]:
    """The wheels by the host they belong to.

    A wheel that offers nothing belongs to the hosts of its name when one of them offers device wheels: that
    one build was not split shows when they are compared. Raises `UsageError` for wheels that were not split,
    `InvalidInput` for device wheels without their host.
    """
    named: dict[str, list[Wheel]] = {}
    for wheel in wheels:
        named.setdefault(wheel.path.name, []).append(wheel)
    hosts = {file: its for file, its in sorted(named.items()) if any(offered(wheel) for wheel in its)}
    sets = []
    for file, its in hosts.items():
        found = union(its)
        files = [device_file(its[0], package.name) for package in found]
        devices = {name: tuple(named[name]) for name in files if name in named}
        sets.append(SplitSet(file, tuple(its), found, devices))
    known = hosts.keys() | {name for one in sets for name in one.devices}
    # What chooses among device wheels has nothing that a merged wheel could need.
    choosing = {(name, host.version) for one in sets for host in one.hosts for name in selectors_of(host)}
    others = (its[0] for file, its in named.items() if file not in known)
    strays = [wheel for wheel in others if (wheel.name, wheel.version) not in choosing]
    if strays:
        raise _stray(strays[0])
    if not sets:
        raise UsageError("nothing to merge", next_step="give wheels that `rocwright wheel split` wrote")
    return tuple(sets)


def _stray(wheel: Wheel) -> RocwrightError:
    if is_device_wheel(wheel):
        return InvalidInput(
            f"{wheel.path.name} is a device wheel that no host given offers",
            where=wheel.path,
            next_step="give the host wheel of the same split as well",
        )
    return UsageError(
        f"{wheel.path.name} was not split as a wheel: it neither offers device wheels nor is one",
        where=wheel.path,
        next_step="split it first with `rocwright wheel split`, or leave it out; of ROCm's packages the "
        "directory is taken in which they are installed",
    )


def is_device_wheel(wheel: Wheel) -> bool:
    """Whether a split wrote this wheel for a target or group, by what it says of itself."""
    fields = header_fields(read_member(wheel, f"{wheel.dist_info}/METADATA"))
    return any(text.startswith(_DEVICE_SUMMARY) for _, text in fields)


def family_members(names: Iterable[str], sets: Sequence[SplitSet]) -> dict[str, tuple[str, ...]]:
    """Targets of the device wheels of families or targets, those that a device wheel is for included."""
    table = load_table("families", Families).families
    there = [package.target for one in sets for package in one.packages if not package.is_group]
    known = {target: (target,) for target in there} | table
    return {name: packages_of(expand([name], known)) for name in names}


def serving(one: SplitSet, family: str, targets: Sequence[str]) -> dict[DevicePackage, Wheel]:
    """The device wheels for exactly these base targets: their own, and groups that serve one of them.

    Raises `InvalidInput` naming each target and group without a wheel. A group alone is enough for a target
    when none of those it serves has a wheel of its own: then the project has files for groups only.
    """
    given = one.given()
    single = {package.target: package for package in one.packages if not package.is_group}
    served = {package: group_members(wheel) for package, wheel in given.items() if package.is_group}
    chosen = {single[target] for target in targets if target in single}
    chosen |= {group for group, members in served.items() if members.intersection(targets)}
    names = {name for package in chosen & given.keys() for name in required(given[package])}
    chosen |= {package for package in one.packages if package.name in names}
    alone = {target for members in served.values() if not members.intersection(single) for target in members}
    lacking = [target for target in targets if target not in single and target not in alone]
    lacking += [package.target for package in one.packages if package in chosen and package not in given]
    if lacking:
        there = " ".join(package.target for package in given if not package.is_group)
        raise InvalidInput(
            f"family {family} needs {' '.join(lacking)}, for which {one.file} has no device wheel here",
            where=one.hosts[0].path,
            next_step=f"there are: {there or 'none'}; give the missing wheels, or merge without the family",
        )
    return {package: wheel for package, wheel in given.items() if package in chosen}


def group_members(wheel: Wheel) -> frozenset[str]:
    """The base targets that a group's wheel serves, told from its files."""
    table = load_table("device_files", DeviceFiles)
    targets = known_targets(table, load_table("families", Families))
    found = [classify(member.name, table, targets) for member in wheel.members]
    return frozenset(target for file in found for target in getattr(file, "members", ()))


def served_by(package: DevicePackage, wheel: Wheel) -> tuple[str, ...]:
    """The base targets of a device wheel."""
    return base_targets(group_members(wheel)) if package.is_group else (package.target,)


def required(wheel: Wheel) -> set[str]:
    """The projects that a device wheel requires: its host, the groups of its target, and others."""
    return {normalized_name(Requirement(line).name) for line in wheel.metadata.requires_dist}


class VerifiedWheel(msgspec.Struct, frozen=True):
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
            mode=member.sound_mode,
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
    with (
        counted(f"reading {wheel.path.name}", sum(member.size for member in wheel.members)) as count,
        closing(in_order(digest, jobs, threads=threads, window=_WINDOW)) as done,
    ):
        for member, sha256 in done:
            count.add(member.size)
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
        elif name in host_origins((first,)) and united_as(first, other, name):
            continue
        elif name != f"{info}/METADATA":
            whole = [one for one in (first, other) if _is_fat(one, name, work)]
            yield f"{name}: " + (f"not split in {whole[0].wheel.path.parent}" if whole else "other contents")
        elif len({without_offers(one.wheel, one.metadata()) for one in (first, other)}) > 1:
            yield f"{name}: differs in more than the device wheels offered"


def host_origins(hosts: Iterable[VerifiedWheel]) -> dict[str, SplitOrigin]:
    """Member of each host that names targets → what all of them say together."""
    found: dict[str, list[SplitOrigin]] = {}
    for host in hosts:
        for name, origin in origins_in(host):
            if not origin.part:
                found.setdefault(name, []).append(origin)
    return {name: united(said) for name, said in found.items()}


def origins_in(one: VerifiedWheel) -> Iterator[tuple[str, SplitOrigin]]:
    """The members of a wheel that say what it was split from; those that say nothing are left out."""
    for member in one.wheel.members:
        if is_origin(member.name) and member.size <= LARGEST_ORIGIN:
            with suppress(InvalidArchive):
                data = read_member(one.wheel, member.name)
                yield member.name, parse_origin(data, posixpath.basename(member.name))


def united_as(first: VerifiedWheel, other: VerifiedWheel, name: str) -> bool:
    """Whether hosts of one build say there that they were split into other targets."""
    said = [dict(origins_in(one)).get(name) for one in (first, other)]
    known = [origin for origin in said if origin is not None]
    return len(known) == len(said) and united(known) == united(reversed(known))


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
