"""Decide how device code taken out of a wheel is packaged: which device wheels, their names and metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement

from rocwright import __version__
from rocwright.device_code.kpack import PLACEHOLDER
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.device_files import DeviceFile
from rocwright.model.gpu import base_targets, parse_target
from rocwright.wheel.metadata import add_headers, header_fields, normalized_name, wheel_stem
from rocwright.wheel.read import Wheel

_ALL = "all"
# What the licence asks to be passed on, and who answers for the files.
_PASSED_ON = frozenset(
    ("license", "license-expression", "license-file", "author", "author-email", "maintainer")
    + ("maintainer-email", "home-page", "project-url", "requires-python")
)
_LICENCE = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)


@dataclass(frozen=True)
class DevicePackage:
    """A wheel with the device code for one base target, or the files of a group of targets.

    `archives` are full targets (`gfx90a:xnack-`) with an archive each, `files` the members that move.
    """

    name: str
    target: str
    is_group: bool
    archives: tuple[str, ...]
    files: tuple[str, ...]
    requires: tuple[str, ...]

    @property
    def extra(self) -> str:
        """The host's extra that installs it."""
        return f"device-{normalized_name(self.target)}"


def device_prefix(wheel: Wheel) -> str:
    """How the names of its device wheels begin, where nothing else is asked for."""
    return f"amd-{wheel.name}-device-"


def plan_packages(
    wheel: Wheel,
    targets: Iterable[str],
    databases: Mapping[str, DeviceFile],
    *,
    prefix: str,
    requires: Sequence[str] = (),
) -> tuple[DevicePackage, ...]:
    """One package for each base target of `targets` (full ones) and `databases`, then one for each group.

    `requires` are PEP 508 requirements of each target's package; `@GFXARCH@` in them becomes the target.
    Raises `UsageError` for a prefix or a requirement that makes no name.
    """
    archives = sorted(set(targets))
    single = {file.target for file in databases.values() if file.target is not None}
    groups = {file.group: file.members for file in databases.values() if file.group is not None}
    packages = []
    for target in base_targets([*archives, *single]):
        needs = [_name(prefix, group) for group, members in sorted(groups.items()) if target in members]
        packages.append(
            DevicePackage(
                name=_name(prefix, target),
                target=target,
                is_group=False,
                archives=tuple(text for text in archives if parse_target(text).base == target),
                files=tuple(name for name, file in databases.items() if file.target == target),
                requires=(
                    f"{wheel.name}=={wheel.version}",
                    *(f"{name}=={wheel.version}" for name in needs),
                    *(_requirement(text, target) for text in requires),
                ),
            )
        )
    for group in sorted(groups):
        files = tuple(name for name, file in databases.items() if file.group == group)
        needs = [f"{wheel.name}=={wheel.version}"]
        packages.append(DevicePackage(_name(prefix, group), group, True, (), files, tuple(needs)))
    return tuple(packages)


def _name(prefix: str, target: str) -> str:
    try:
        return normalized_name(f"{prefix}{target}")
    except InvalidInput as error:
        raise UsageError(f"the prefix {prefix!r} makes {error.what}") from error


def _requirement(text: str, target: str) -> str:
    filled = text.replace(PLACEHOLDER, target)
    try:
        return str(Requirement(filled))
    except InvalidRequirement as error:
        raise UsageError(
            f"{text!r} is no requirement: {error}", next_step="write it like rocm-sdk-core==7.10.0"
        ) from error


def host_metadata(wheel: Wheel, text: bytes, packages: Sequence[DevicePackage]) -> bytes:
    """The host's METADATA with extras for its device wheels; raises `InvalidInput` where it has them."""
    # A group comes with each target that needs it, and with all; there is no chip to name an extra after.
    extras = [package.extra for package in packages if not package.is_group]
    lines = [f"Provides-Extra: {extra}" for extra in (*extras, f"device-{_ALL}")]
    for package in packages:
        pin = f"{package.name}=={wheel.version}"
        if not package.is_group:
            lines.append(f'Requires-Dist: {pin} ; extra == "{package.extra}"')
        lines.append(f'Requires-Dist: {pin} ; extra == "device-{_ALL}"')
    taken = {normalized_name(extra) for extra in wheel.metadata.provides_extra}
    double = sorted(taken.intersection((*extras, f"device-{_ALL}")))
    if double:
        raise InvalidInput(
            f"{wheel.path.name} has device code and offers {', '.join(double)} already",
            where=wheel.path,
            next_step="split the wheel as it was built, not one that was split and changed afterwards",
        )
    return add_headers(text, lines)


def device_metadata(wheel: Wheel, text: bytes, package: DevicePackage) -> bytes:
    """METADATA of a device wheel; licence and people from the host's `text`."""
    fields = header_fields(text)
    version = next((line for key, line in fields if key == "metadata-version"), "Metadata-Version: 2.1")
    lines = [
        version,
        f"Name: {package.name}",
        f"Version: {wheel.version}",
        f"Summary: Device code of {wheel.name} for {package.target}",
        *(line for key, line in fields if key in _PASSED_ON or _is_licence_class(key, line)),
        *(f"Requires-Dist: {requirement}" for requirement in package.requires),
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _is_licence_class(key: str, line: str) -> bool:
    return key == "classifier" and line.partition(":")[2].strip().startswith("License ::")


def device_wheel_file(text: bytes) -> bytes:
    """WHEEL of a device wheel: the host's tags, build and kind of root."""
    lines = [
        f"Generator: rocwright {__version__}" if key == "generator" else line
        for key, line in header_fields(text)
    ]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def device_filename(wheel: Wheel, package: DevicePackage) -> str:
    """The host's file name with another project: same version, build and tags."""
    build_and_tags = wheel.path.name.removesuffix(".whl").split("-", 2)[2]
    return f"{wheel_stem(package.name, wheel.version)}-{build_and_tags}.whl"


def device_dist_info(wheel: Wheel, package: DevicePackage) -> str:
    """Name of its `.dist-info` directory."""
    return f"{wheel_stem(package.name, wheel.version)}.dist-info"


def licence_members(wheel: Wheel, text: bytes) -> tuple[str, ...]:
    """The host's members in `.dist-info` that are its licences, as its METADATA or their names say."""
    prefix = f"{wheel.dist_info}/"
    listed = {line.partition(":")[2].strip() for key, line in header_fields(text) if key == "license-file"}
    found = []
    for member in wheel.members:
        below = member.name.removeprefix(prefix)
        if below == member.name:
            continue
        if below in listed or below.startswith("licenses/") or (_LICENCE.match(below) and "/" not in below):
            found.append(member.name)
    return tuple(found)
