"""Selectors: variants of a few hundred bytes that require the device packages of one GPU target each.

A host requires the project of its selectors, at its own version. Installers that speak variants take the
selector that fits the machine, all others the plain wheel of that project, which requires nothing. So the
choice costs no second copy of the host, and no client has to know of it.

What a selector holds follows from project, version, target and platform alone, so several sets share it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.device_code.wheel.device_wheel import DevicePackage, offered, selector_of
from rocwright.errors import InvalidInput
from rocwright.model.variants import WHEEL_FILE, Variants, VariantTable, encoded, split_label, with_label
from rocwright.system.files import atomic_write
from rocwright.wheel.metadata import normalized_name, render_wheel_file, wheel_filename, wheel_stem
from rocwright.wheel.read import Wheel
from rocwright.wheel.write import BytesSource, Member, write_members

# Without a version: another version of this program gives the same bytes.
_GENERATOR = "rocwright"
_VALUE = re.compile(r"[a-z0-9_.]+")


class Selector(msgspec.Struct, frozen=True):
    """A wheel that chooses: `target` and `package` (what it requires) are None where it chooses nothing.

    `label` is None for the plain wheel. `host` is the project that has its code in the packages.
    """

    project: str
    version: str
    host: str
    tag: str
    label: str | None
    target: str | None = None
    package: str | None = None

    @property
    def file_name(self) -> str:
        """The wheel's name."""
        name = wheel_filename(self.project, self.version, self.tag)
        return name if self.label is None else with_label(name, self.label)


class DeviceChoice(msgspec.Struct, frozen=True):
    """The selectors of hosts of one project and version, and what each of these hosts has to require."""

    project: str
    requirement: str
    hosts: tuple[str, ...]
    selectors: tuple[Selector, ...]


def plan_choices(wheels: Iterable[Wheel]) -> tuple[DeviceChoice, ...]:
    """What chooses among the device packages that hosts offer, by project and version of the host.

    Wheels that offer none are left alone. Raises `InvalidInput` where hosts of one version and platform do
    not offer the same packages, or no name for a selector follows from the packages' names.
    """
    found: dict[tuple[str, str], list[tuple[Wheel, tuple[DevicePackage, ...]]]] = {}
    for wheel in wheels:
        packages = _chosen(offered(wheel))
        if packages:
            found.setdefault((wheel.name, wheel.version), []).append((wheel, packages))
    return tuple(_choice(hosts) for _, hosts in sorted(found.items()))


def plan_choice(host: Wheel, packages: Sequence[DevicePackage]) -> DeviceChoice | None:
    """What chooses among the packages that a host is being split into; None where there is nothing to choose.

    Raises `InvalidInput` as `plan_choices`.
    """
    chosen = _chosen(packages)
    return _choice([(host, chosen)]) if chosen else None


def _chosen(packages: Iterable[DevicePackage]) -> tuple[DevicePackage, ...]:
    """Those of targets that a machine can be asked for."""
    return tuple(one for one in packages if not one.is_group and _VALUE.fullmatch(one.target))


def _choice(hosts: Sequence[tuple[Wheel, tuple[DevicePackage, ...]]]) -> DeviceChoice:
    first, packages = hosts[0]
    project = selector_project(first, packages)
    by_platform: dict[str, tuple[Wheel, tuple[DevicePackage, ...]]] = {}
    for host, its in hosts:
        platform = split_label(host.path.name)[0].removesuffix(".whl").rpartition("-")[2]
        known, same = by_platform.setdefault(platform, (host, its))
        if same != its or selector_project(host, its) != project:
            raise InvalidInput(
                f"{known.path.name} and {host.path.name} offer device packages for different targets",
                where=host.path,
                next_step="split wheels of one version for the same targets, or leave variants out",
            )
    selectors = (
        one
        for platform, (host, its) in sorted(by_platform.items())
        for one in _selectors(project, host, platform, its)
    )
    return DeviceChoice(
        project,
        f"{project}=={first.version}",
        tuple(sorted(host.path.name for host, _ in hosts)),
        tuple(selectors),
    )


def selector_project(host: Wheel, packages: Sequence[DevicePackage]) -> str:
    """`amd-torch-device` of `amd-torch-device-<target>`; raises `InvalidInput` where there is no such one."""
    names = {selector_of(one) for one in packages}
    if len(names) != 1 or not (project := names.pop()) or project == normalized_name(host.name):
        raise InvalidInput(
            f"{host.path.name} offers {packages[0].name}: no name for what chooses it follows from that",
            where=host.path,
            next_step="split the wheel with a --device-package-prefix that ends with a hyphen",
        )
    return project


def _selectors(
    project: str, host: Wheel, platform: str, packages: Sequence[DevicePackage]
) -> Iterator[Selector]:
    same = (project, host.version, normalized_name(host.name), f"py3-none-{platform}")
    yield Selector(*same, None)
    (null,) = _table().selector(None).variants
    yield Selector(*same, null)
    for package in packages:
        yield Selector(*same, package.target, package.target, package.name)


def write_selectors(choices: Iterable[DeviceChoice], directory: Path) -> tuple[Path, ...]:
    """Write each selector into `directory`; the same plan gives the same bytes. Raises `NoSpace`."""
    written = []
    directory.mkdir(parents=True, exist_ok=True)
    for one in (one for choice in choices for one in choice.selectors):
        info = f"{wheel_stem(one.project, one.version)}.dist-info"
        with atomic_write(directory / one.file_name) as stream:
            # Stored: no other version of a compressor gives other bytes.
            write_members(stream, list(_members(one, info)), f"{info}/RECORD", compression="none")
        written.append(directory / one.file_name)
    return tuple(written)


def _members(one: Selector, info: str) -> Iterator[Member]:
    texts = {
        "METADATA": _metadata(one),
        "WHEEL": render_wheel_file(one.tag, root_is_purelib=True, generator=_GENERATOR),
    }
    if one.label is not None:
        texts[WHEEL_FILE] = encoded(stated(one))
    for name, data in texts.items():
        yield Member(f"{info}/{name}", BytesSource(data))


def stated(one: Selector) -> Variants:
    """What a selector with a label states of itself."""
    return _table().selector(one.target)


def _metadata(one: Selector) -> bytes:
    chosen = f"for GPUs of {one.target}" if one.target else "for no GPU"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {one.project}",
        f"Version: {one.version}",
        f"Summary: Chooses the device code of {one.host} {chosen}",
        *([f"Requires-Dist: {one.package}=={one.version}"] if one.package else []),
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _table() -> VariantTable:
    return load_table("variants", VariantTable)
