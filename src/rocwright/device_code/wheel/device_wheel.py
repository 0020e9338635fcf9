"""Decide how device code taken out of a wheel is packaged: which device wheels, their names and metadata.

The host wheel's METADATA offers device wheels as extras: written here, read from a host, taken out again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from rocwright import __version__
from rocwright.device_code.kpack import PLACEHOLDER
from rocwright.device_code.tree.names import package_of, packages_of
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.device_files import DeviceFile
from rocwright.model.gpu import InvalidTarget, base_targets, parse_target
from rocwright.wheel.metadata import add_headers, header_fields, normalized_name, parse_metadata, wheel_stem
from rocwright.wheel.read import Wheel

_ALL = "all"
# What the licence asks to be passed on, and who answers for the files.
_PASSED_ON = frozenset(
    ("license", "license-expression", "license-file", "author", "author-email", "maintainer")
    + ("maintainer-email", "home-page", "project-url", "requires-python")
)
_LICENCE = re.compile(r"(licen[cs]e|copying|notice|authors)", re.IGNORECASE)
_EXTRA = re.compile(r'extra == "device-([0-9a-z-]+)"')


class DevicePackage(msgspec.Struct, frozen=True):
    """A wheel with device code for one base target and what it owns, or the files of a group of targets.

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

    Code for a target with an owner goes into the owner's package. `requires` are PEP 508 requirements of each
    target's package; `@GFXARCH@` in them becomes the target that it is named after.
    Raises `UsageError` for a prefix or a requirement that makes no name.
    """
    archives = sorted(set(targets))
    single = {name: package_of(file.target) for name, file in databases.items() if file.target is not None}
    groups = {file.group: file.members for file in databases.values() if file.group is not None}
    packages = []
    for target in packages_of([*archives, *single.values()]):
        needs = [
            _name(prefix, group)
            for group, members in sorted(groups.items())
            if target in map(package_of, members)
        ]
        packages.append(
            DevicePackage(
                name=_name(prefix, target),
                target=target,
                is_group=False,
                archives=tuple(text for text in archives if package_of(parse_target(text).base) == target),
                files=tuple(name for name, owner in single.items() if owner == target),
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
        raise UsageError(
            f"the prefix {prefix!r} makes {error.what}",
            next_step="choose another prefix: letters, digits and hyphens",
        ) from error


def _requirement(text: str, target: str) -> str:
    filled = text.replace(PLACEHOLDER, target)
    try:
        return str(Requirement(filled))
    except InvalidRequirement as error:
        raise UsageError(
            f"{text!r} is not a requirement: {error}", next_step="write it like rocm-sdk-core==7.10.0"
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


def offered(wheel: Wheel) -> tuple[DevicePackage, ...]:
    """The device wheels that a host pins under its device extras; none for a wheel that was not split.

    A group's package has no extra of its own: it is one that only `device-all` brings.
    """
    targets: dict[str, str] = {}
    everything: set[str] = set()
    for text in wheel.metadata.requires_dist:
        pin = _pin(text, wheel.version)
        if pin is not None:
            name, word = pin
            targets |= {} if word == _ALL else {word: name}
            everything.add(name)
    return packages(targets, everything)


def packages(targets: dict[str, str], names: Iterable[str]) -> tuple[DevicePackage, ...]:
    """Packages in the order of a split: base targets (→ project) first, then those of `names` for groups."""
    single = [DevicePackage(targets[word], word, False, (), (), ()) for word in base_targets(targets)]
    groups = [DevicePackage(name, name, True, (), (), ()) for name in sorted({*names} - {*targets.values()})]
    return (*single, *groups)


def _pin(text: str, version: str) -> tuple[str, str] | None:
    """Project, and target or `all`, of a requirement that a split wrote."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    found = _EXTRA.fullmatch(str(requirement.marker))
    if found is None or str(requirement.specifier) != f"=={version}" or not _is_word(found[1]):
        return None
    return normalized_name(requirement.name), found[1]


def _is_word(word: str) -> bool:
    try:
        return word == _ALL or parse_target(word).base == word
    except InvalidTarget:
        return False


def selector_of(package: DevicePackage) -> str:
    """The project that chooses among device packages: `amd-torch-device` of `amd-torch-device-<target>`.

    Empty where the name of a package does not end in its target.
    """
    ending = f"-{normalized_name(package.target)}"
    return package.name.removesuffix(ending) if package.name.endswith(ending) else ""


def selectors_of(host: Wheel) -> frozenset[str]:
    """The projects that may choose among the device packages of a host."""
    found = (selector_of(package) for package in offered(host) if not package.is_group)
    return frozenset(found) - {"", normalized_name(host.name)}


def _requires_selector(text: str, version: str, selectors: Collection[str]) -> bool:
    """Whether a requirement is that of a host on what chooses among its device packages."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    pinned = requirement.marker is None and str(requirement.specifier) == f"=={version}"
    return pinned and normalized_name(requirement.name) in selectors


def without_offers(wheel: Wheel, text: bytes) -> bytes:
    """A host's METADATA `text` as it was before the split; every other byte stays."""
    words = {package.extra for package in offered(wheel)} | {f"device-{_ALL}"}
    selectors = selectors_of(wheel)

    def is_offer(value: str) -> bool:
        return bool(_pin(value, wheel.version)) or _requires_selector(value, wheel.version, selectors)

    kept, head = [], True
    for line in text.splitlines(keepends=True):
        head = head and bool(line.strip(b"\r\n"))
        key, _, value = line.decode("utf-8", "replace").partition(":")
        key, value = key.strip().lower(), value.strip()
        extra = head and key == "provides-extra" and value in words
        if not extra and not (head and key == "requires-dist" and is_offer(value)):
            kept.append(line)
    return b"".join(kept)


def with_offers(wheel: Wheel, text: bytes, devices: tuple[DevicePackage, ...]) -> bytes:
    """METADATA of a host that offers `devices`; `text` is one without offers."""
    plain = msgspec.structs.replace(wheel, metadata=parse_metadata(text))
    return host_metadata(plain, text, devices)


def with_requirements(text: bytes, offers: Iterable[DevicePackage], devices: Iterable[Wheel]) -> bytes:
    """METADATA of a merged wheel: it requires itself what its device wheels need of other projects.

    `text` is the host's without offers, `offers` are all device wheels of the host.
    """
    metadata = parse_metadata(text)
    own = {normalized_name(metadata.name), *(package.name for package in offers)}
    there = {str(Requirement(line)) for line in metadata.requires_dist}
    needs = [Requirement(line) for wheel in devices for line in wheel.metadata.requires_dist]
    lines = dict.fromkeys(str(need) for need in needs if normalized_name(need.name) not in own)
    return add_headers(text, [f"Requires-Dist: {line}" for line in lines if line not in there])


def device_file(host: Wheel, name: str) -> str:
    """File name of a host's device wheel of this project: same version, build and tags."""
    return f"{wheel_stem(name, host.version)}-{host.path.name.split('-', 2)[2]}"


def union(hosts: Iterable[Wheel]) -> tuple[DevicePackage, ...]:
    """The device wheels that any of several hosts offers.

    Raises `InvalidInput` when they call the one for a target differently.
    """
    targets: dict[str, str] = {}
    names: set[str] = set()
    for host in hosts:
        for package in offered(host):
            names.add(package.name)
            known = package.name if package.is_group else targets.setdefault(package.target, package.name)
            if known != package.name:
                raise InvalidInput(
                    f"the device wheel for {package.target} is {known} and {package.name}",
                    where=host.path,
                    next_step="split all builds with the same prefix",
                )
    return packages(targets, names)
