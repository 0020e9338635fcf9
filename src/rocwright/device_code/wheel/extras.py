"""What a split wheel's METADATA says about device wheels: read from a host, taken out, written again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement

from rocwright.device_code.wheel.device_wheel import DevicePackage, host_metadata
from rocwright.errors import InvalidInput
from rocwright.model.gpu import InvalidTarget, base_targets, parse_target
from rocwright.wheel.metadata import add_headers, normalized_name, parse_metadata, wheel_stem
from rocwright.wheel.read import Wheel

_ALL = "all"
_EXTRA = re.compile(r'extra == "device-([0-9a-z-]+)"')


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


def without_offers(wheel: Wheel, text: bytes) -> bytes:
    """A host's METADATA `text` as it was before the split; every other byte stays."""
    words = {package.extra for package in offered(wheel)} | {f"device-{_ALL}"}
    kept, head = [], True
    for line in text.splitlines(keepends=True):
        head = head and bool(line.strip(b"\r\n"))
        key, _, value = line.decode("utf-8", "replace").partition(":")
        key, value = key.strip().lower(), value.strip()
        extra = head and key == "provides-extra" and value in words
        if not extra and not (head and key == "requires-dist" and _pin(value, wheel.version)):
            kept.append(line)
    return b"".join(kept)


def with_offers(wheel: Wheel, text: bytes, devices: tuple[DevicePackage, ...]) -> bytes:
    """METADATA of a host that offers `devices`; `text` is one without offers."""
    plain = replace(wheel, metadata=parse_metadata(text))
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
