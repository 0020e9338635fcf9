"""Decide which split wheels belong together, and which device wheels serve a GPU family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement

from rocwright.data import load_table
from rocwright.device_code.wheel.device_wheel import DevicePackage
from rocwright.device_code.wheel.extras import device_file, offered, union
from rocwright.errors import InvalidInput, RocwrightError, UsageError
from rocwright.model.device_files import DeviceFiles, classify, known_targets
from rocwright.model.gpu import Families, base_targets, expand
from rocwright.wheel.metadata import header_fields, normalized_name
from rocwright.wheel.read import Wheel, read_member

_DEVICE_SUMMARY = "Summary: Device code of "


@dataclass(frozen=True)
class SplitSet:
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
    strays = [its[0] for file, its in named.items() if file not in known]
    if strays:
        raise _stray(strays[0])
    if not sets:
        raise UsageError("nothing to merge", next_step="give wheels that `rocwright wheel split` wrote")
    return tuple(sets)


def _stray(wheel: Wheel) -> RocwrightError:
    fields = header_fields(read_member(wheel, f"{wheel.dist_info}/METADATA"))
    if any(text.startswith(_DEVICE_SUMMARY) for _, text in fields):
        return InvalidInput(
            f"{wheel.path.name} is a device wheel that no host given offers",
            where=wheel.path,
            next_step="give the host wheel of the same split as well",
        )
    return UsageError(
        f"{wheel.path.name} was not split: it offers no device wheels and is none",
        where=wheel.path,
        next_step="split it first with `rocwright wheel split`, or leave it out",
    )


def family_members(names: Iterable[str], sets: Sequence[SplitSet]) -> dict[str, tuple[str, ...]]:
    """Base targets of families or targets, those that a device wheel is for included."""
    table = load_table("families", Families).families
    there = [package.target for one in sets for package in one.packages if not package.is_group]
    return {name: expand([name], {target: (target,) for target in there} | table) for name in names}


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
    names = {name for package in chosen & given.keys() for name in _required(given[package])}
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


def _required(wheel: Wheel) -> set[str]:
    return {normalized_name(Requirement(line).name) for line in wheel.metadata.requires_dist}
