"""Verify split wheels and trees as a whole: which files make one tree, and that each is in the right part.

Members of wheels are sources, read in place. Host and device wheels have rules of their own; in every split
tree, device files are for the target of their part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.binary.elf import read_elf
from rocwright.data import load_table
from rocwright.device_code import fatbin
from rocwright.device_code.fatbin import PACKED_MAGIC, scan_bundles
from rocwright.device_code.kpack import SUFFIX
from rocwright.device_code.source import Source, in_wheel, open_path
from rocwright.device_code.tree.names import package_of
from rocwright.device_code.unpack import RAW_MAGIC
from rocwright.device_code.verify.archive import Shelf
from rocwright.device_code.verify.library import is_host_elf
from rocwright.device_code.verify.report import FindingLog
from rocwright.device_code.verify.sources import Tree, device_part
from rocwright.errors import InvalidInput, InvalidWheel, see_who_may_read
from rocwright.model.device_files import DeviceFile, DeviceFiles, Unplaced, classify, known_targets
from rocwright.model.gpu import Families, InvalidTarget, base_targets
from rocwright.model.machines import Machines, is_code_object, machine_of
from rocwright.system.parallel import in_order
from rocwright.wheel.metadata import exact_version
from rocwright.wheel.read import Wheel, installed_path, installed_together, open_wheel, verify_record
from rocwright.wheel.stream import opened
from rocwright.wheel.zipformat import STORED

ENDING = ".whl"


def wheel_trees(paths: Iterable[Path], log: FindingLog, stack: ExitStack, threads: int) -> Iterator[Tree]:
    """What wheels install together, with the rules for wheels applied.

    Wheels of one project for several Pythons make several trees. Wheels stay open until `stack` is closed.
    """
    wheels = []
    for path in paths:
        try:
            wheels.append(open_wheel(path))
        except InvalidWheel as error:
            log.add("kpack-wheel", path.name, error.what)
    _records(wheels, log, threads)
    for together in installed_together(wheels):
        for wheel in together:
            _stored(wheel, log)
        hosts = [wheel for wheel in together if device_part(wheel.name) is None]
        devices = [wheel for wheel in together if device_part(wheel.name) is not None]
        _pins(hosts, devices, log)
        _extras(hosts, devices, log)
        sources = tuple(source for wheel in together for source in wheel_sources(wheel, stack))
        # A wheel that holds archives and offers no device wheels was merged for a family: it has no parts.
        apart = bool(devices) or any(_offers(host) for host in hosts)
        yield Tree(sources, parts=apart, whole=bool(hosts), merged=not apart)


def _offers(host: Wheel) -> bool:
    """Whether a host's extras bring device wheels."""
    requirements = map(Requirement, host.metadata.requires_dist)
    return any(
        device_part(canonicalize_name(r.name)) is not None and r.marker is not None for r in requirements
    )


def wheel_sources(wheel: Wheel, stack: ExitStack) -> Iterator[Source]:
    """A wheel's members but those of its `.dist-info`, by where they are installed."""
    stream = stack.enter_context(opened(wheel))
    whole = open_path(wheel.path)
    part = device_part(wheel.name)
    for member in wheel.members:
        if member.name.startswith(f"{wheel.dist_info}/"):
            continue
        name = f"{wheel.path.name}:{member.name}"
        yield in_wheel(stream, whole, member, name, installed_path(wheel, member), part=part)


def _records(wheels: Sequence[Wheel], log: FindingLog, threads: int) -> None:
    def verify(wheel: Wheel) -> tuple[Wheel, tuple[str, ...]]:
        return wheel, verify_record(wheel)

    for wheel, found in in_order(verify, ((wheel, 0) for wheel in wheels), threads=threads, window=1):
        for problem in found:
            log.add("kpack-record", wheel.path.name, problem)


def _stored(wheel: Wheel, log: FindingLog) -> None:
    for member in wheel.members:
        if member.name.endswith(SUFFIX) and member.method != STORED:
            log.add("kpack-deflated", wheel.path.name, f"{member.name} is compressed again")


def _pins(hosts: Sequence[Wheel], devices: Sequence[Wheel], log: FindingLog) -> None:
    """Device code of another version than the host's would be loaded without a word."""
    versions = {host.name: Version(host.version) for host in hosts}
    for device in devices if hosts else ():
        pins = [
            (canonicalize_name(requirement.name), exact_version(requirement))
            for requirement in map(Requirement, device.metadata.requires_dist)
        ]
        pinned = [(name, version) for name, version in pins if name in versions]
        if not any(version for _, version in pinned):
            log.add("kpack-pin", device.path.name, f"it pins none of {', '.join(sorted(versions))}")
        for name, version in pinned:
            if version is not None and Version(version) != versions[name]:
                log.add(
                    "kpack-pin",
                    device.path.name,
                    f"it requires {name} {version}, but {versions[name]} is here",
                )


def _extras(hosts: Sequence[Wheel], devices: Sequence[Wheel], log: FindingLog) -> None:
    """Each device wheel is brought by an extra of some host, at its version."""
    there = {device.name: device for device in devices}
    reached = {name for host in hosts for name in _brought(host, there, log)}
    offering = ", ".join(host.path.name for host in hosts)
    for left in sorted(set(there) - reached) if reached else ():
        log.add("kpack-extra", there[left].path.name, f"no extra of {offering} brings it")


def _brought(host: Wheel, there: Mapping[str, Wheel], log: FindingLog) -> Iterator[str]:
    """Names of device wheels that a host's extras bring."""
    offered = [canonicalize_name(extra) for extra in host.metadata.provides_extra]
    for text in host.metadata.requires_dist:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if device_part(name) is None or requirement.marker is None:
            continue
        marker = requirement.marker
        if not any(marker.evaluate({"extra": extra}) for extra in offered):
            log.add("kpack-extra", host.path.name, f"no extra that it provides brings {requirement}")
        if name not in there:
            log.add("kpack-extra-absent", host.path.name, f"{requirement} is not among these wheels")
        elif exact_version(requirement) != there[name].version:
            log.add(
                "kpack-extra", host.path.name, f"it requires {requirement}, but {there[name].version} is here"
            )
        yield name


def wheels_in(path: Path) -> list[Path]:
    """The wheels directly in a directory; raises `InvalidInput` when it cannot be listed."""
    try:
        return sorted(item for item in path.iterdir() if item.name.endswith(ENDING) and item.is_file())
    except OSError as error:
        raise InvalidInput(
            f"cannot list {path}: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error


def check_parts(tree: Tree, shelves: Sequence[Shelf], machines: Machines, log: FindingLog) -> None:
    """Report files in the wrong part, in two parts, and device files whose code is for another target."""
    table = load_table("device_files", DeviceFiles)
    targets = known_targets(table, load_table("families", Families))
    for source in tree.sources:
        if source.is_archive:
            continue
        found = classify(source.installed, table, targets)
        if isinstance(found, Unplaced) and tree.parts:
            log.add("kpack-unplaced", source.name, f"{found.word} {found.reason}")
        if isinstance(found, DeviceFile):
            word = found.target or found.group or ""
            if tree.parts:
                _place(source, word, log)
            _content(source, word, found.members or (word,), machines, log)
    if tree.parts:
        for shelf in shelves:
            _place(shelf.source, shelf.parsed.base, log)
        _apart(tree.sources, log)


def _place(source: Source, word: str, log: FindingLog) -> None:
    if source.part is None:
        log.add("kpack-device-file", source.name, f"it serves {word} and is in the part for all GPUs")
    elif canonicalize_name(source.part.partition(":")[0]) not in _parts(word):
        log.add("kpack-foreign", source.name, f"it serves {word} and is in the part for {source.part}")


def _parts(word: str) -> set[str]:
    """The names of the parts that may hold what serves a target or group."""
    return {str(canonicalize_name(name)) for name in (word, package_of(word))}


def _apart(sources: Iterable[Source], log: FindingLog) -> None:
    owners: dict[str, Source] = {}
    for source in sources:
        first = owners.setdefault(source.installed, source)
        # Artifacts may share what is for all GPUs; wheels may not: uninstalling one breaks the other.
        if first.owner != source.owner and (first.part != source.part or source.crc is not None):
            log.add("kpack-overlap", source.name, f"{first.owner} holds {source.installed} too")


def _content(
    source: Source, word: str, members: tuple[str, ...], machines: Machines, log: FindingLog
) -> None:
    """Whether device code in a file is for the target that its path names."""
    if source.link is not None:
        return
    try:
        found = _targets(source, machines)
    except InvalidInput as error:
        log.add("kpack-readable", source.name, error.what)
        return
    foreign = sorted(found - set(members))
    if foreign:
        log.add("kpack-machine", source.name, f"it serves {word} and holds code for {', '.join(foreign)}")


def _targets(source: Source, machines: Machines) -> set[str]:
    """Base targets of the code objects in a file, as far as they are known."""
    head = source.head()
    if is_code_object(head):
        name = machine_of(head, machines)
        return set() if name is None else {name}
    if head.startswith((RAW_MAGIC, PACKED_MAGIC)):
        bundles = scan_bundles(source.open(), 0, source.size)
    elif is_host_elf(head):
        file = source.open()
        section = read_elf(file).sections.get(fatbin.SECTION)
        bundles = scan_bundles(file, section.offset, section.offset + section.size) if section else ()
    else:
        return set()
    found = {entry.target for bundle in bundles for entry in bundle.entries if entry.target}
    try:
        return set(base_targets(found))
    except InvalidTarget:
        return found
