"""What a wheel is: metadata, compiled files, device code and sizes, as one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from rocwright.check.facts import ElfFacts, Facts, PeFacts
from rocwright.check.gather import gather
from rocwright.device_code.tree.code import ARCHIVE, DeviceFile, list_device_code
from rocwright.errors import InvalidWheel, UsageError
from rocwright.model.gpu import in_order
from rocwright.model.variants import WHEEL_FILE, Provider

_C, _CXX = "GLIBC_", "GLIBCXX_"
_LARGEST = 10


class Code(msgspec.Struct, frozen=True):
    """Code objects of one target, or files of their own, and their bytes as the GPU loads them."""

    objects: int = 0
    bytes: int = 0

    def plus(self, other: Code) -> Code:
        """Both together."""
        return Code(self.objects + other.objects, self.bytes + other.bytes)


class Compiled(msgspec.Struct, frozen=True):
    """A library, program or object file: `kind` as in `binary.elf`, or `pe`; sizes in bytes.

    `glibc` and `glibcxx` are the newest symbol versions it needs. `code` is by target. `marker` is the name
    under which archives hold its device code; `problem` says why the file could not be read.
    """

    member: str
    size: int
    kind: str
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    glibc: str | None = None
    glibcxx: str | None = None
    code: dict[str, Code] = {}
    marker: str | None = None
    problem: str | None = None


class KpackArchive(msgspec.Struct, frozen=True):
    """An archive of device code: how many libraries it has code of, and the code by target."""

    member: str
    size: int
    libraries: int
    code: dict[str, Code]


class Large(msgspec.Struct, frozen=True):
    """One of the largest members: bytes unpacked and as they lie in the wheel."""

    member: str
    size: int
    packed: int


class Variant(msgspec.Struct, frozen=True):
    """Which variant a wheel is: its label, and by namespace and feature the values of which one has to fit.

    `properties` is None where the wheel does not state them, empty for a variant that any machine fits.
    `providers` say who tells what a machine has: a package, `builtin`, or `itself` for what the wheel states.
    """

    label: str
    properties: dict[str, dict[str, tuple[str, ...]]] | None
    providers: dict[str, str]


class WheelAbout(msgspec.Struct, frozen=True):
    """A wheel. `size` is that of the file, `unpacked` that of all members, in bytes.

    `glibc` and `glibcxx` are the newest versions that any library needs, `code` is all device code by target:
    in libraries, in archives, and files of its own. `problems` say where device code could not be read, or
    what keeps it from being the `variant` that its name says.
    """

    file: str
    name: str
    version: str
    tags: tuple[str, ...]
    size: int
    unpacked: int
    members: int
    requires_python: str | None
    requires: tuple[str, ...]
    extras: tuple[str, ...]
    license: str | None
    licences: tuple[str, ...]
    sboms: tuple[str, ...]
    glibc: str | None
    glibcxx: str | None
    compiled: tuple[Compiled, ...]
    archives: tuple[KpackArchive, ...]
    code: dict[str, Code]
    largest: tuple[Large, ...]
    problems: tuple[str, ...]
    variant: Variant | None = None


def about_wheel(path: Path) -> WheelAbout:
    """Look into a wheel; raises `UsageError` for another kind of file, `InvalidWheel` where it is damaged."""
    if path.suffix != ".whl":
        raise UsageError(f"{path.name} is not a wheel", next_step="give files that end in .whl")
    facts = gather(path)
    damaged = facts.unreadable or facts.bomb or next((fault.what for fault in facts.damaged), None)
    if damaged is not None:
        raise InvalidWheel(f"{path.name}: {damaged}", where=path, next_step="build or fetch the wheel again")
    listing = list_device_code([path])
    device = {one.member: one for one in listing.files if one.member is not None}
    sizes = {member.name: member.size for member in facts.members}
    compiled = (
        *(_elf(one, sizes, device) for one in facts.elf),
        *(_pe(one, sizes, device) for one in facts.pe),
    )
    archives = tuple(_archive(one, sizes) for one in device.values() if one.kind == ARCHIVE)
    return WheelAbout(
        file=path.name,
        name=facts.headers.name or facts.project,
        version=facts.headers.version or facts.version,
        tags=tuple(sorted(facts.tags)),
        size=path.stat().st_size,
        unpacked=sum(sizes.values()),
        members=len(facts.members),
        requires_python=facts.headers.requires_python,
        requires=facts.headers.requires,
        extras=facts.headers.extras,
        license=facts.headers.license_expression or facts.headers.license,
        licences=facts.licences,
        sboms=facts.sboms,
        glibc=_newest(one.glibc for one in compiled),
        glibcxx=_newest(one.glibcxx for one in compiled),
        compiled=tuple(sorted(compiled, key=lambda one: one.member)),
        archives=archives,
        code=_total(
            [*(one.code for one in compiled), *(one.code for one in archives), *_loose(facts, sizes)]
        ),
        largest=tuple(
            Large(one.name, one.size, one.packed)
            for one in sorted(facts.members, key=lambda one: (-one.size, one.name))[:_LARGEST]
        ),
        problems=(*(error.what for error in listing.damaged), *_misstated(facts)),
        variant=_variant(facts),
    )


def _variant(facts: Facts) -> Variant | None:
    if not facts.label:
        return None
    said = None if facts.variant is None else facts.variant.said
    providers = {} if said is None else {name: _teller(one) for name, one in said.providers.items()}
    stated = facts.properties
    properties = None if stated is None else {name: dict(of) for name, of in stated.items()}
    return Variant(facts.label, properties, providers)


def _teller(provider: Provider) -> str:
    if provider.requires:
        return ", ".join(provider.requires)
    return "itself" if provider.static_properties else "builtin"


def _misstated(facts: Facts) -> list[str]:
    """What keeps a wheel from being the variant that its name says."""
    if not facts.label:
        return []
    if facts.variant is None:
        return [f"its name says that it is the variant {facts.label}, and it has no {WHEEL_FILE}"]
    if facts.properties is None:
        return [facts.variant.problem or f"its {WHEEL_FILE} does not state {facts.label}"]
    return []


def _elf(elf: ElfFacts, sizes: Mapping[str, int], device: Mapping[str, DeviceFile]) -> Compiled:
    versions = [version for of in elf.versions.values() for version in of]
    return Compiled(
        member=elf.member,
        size=sizes.get(elf.member, 0),
        kind=elf.kind,
        soname=elf.soname,
        needed=elf.needed,
        rpath=elf.rpath,
        runpath=elf.runpath,
        glibc=_newest(text.removeprefix(_C) for text in versions if text.startswith(_C)),
        glibcxx=_newest(text.removeprefix(_CXX) for text in versions if text.startswith(_CXX)),
        code=_code(device.get(elf.member)),
        marker=elf.marker.kernel if elf.marker else None,
        problem=elf.problem,
    )


def _pe(pe: PeFacts, sizes: Mapping[str, int], device: Mapping[str, DeviceFile]) -> Compiled:
    return Compiled(
        member=pe.member,
        size=sizes.get(pe.member, 0),
        kind="pe",
        soname=pe.export_name,
        needed=(*pe.imports, *pe.delay_imports),
        code=_code(device.get(pe.member)),
        problem=pe.problem,
    )


def _archive(archive: DeviceFile, sizes: Mapping[str, int]) -> KpackArchive:
    member = archive.member or ""
    libraries = len({code.kernel for code in archive.code})
    return KpackArchive(member, sizes.get(member, archive.size), libraries, _code(archive))


def _code(device: DeviceFile | None) -> dict[str, Code]:
    """What a file holds itself; the code of a split library lies in its archives."""
    if device is None or device.marker is not None:
        return {}
    found = device.targets
    return {target: Code(*found[target]) for target in in_order(found)}


def _loose(facts: Facts, sizes: Mapping[str, int]) -> list[dict[str, Code]]:
    """Device code in files of its own, and databases of it."""
    return [{code.said: Code(1, sizes.get(code.member, 0))} for code in facts.code if code.said is not None]


def _total(parts: Iterable[Mapping[str, Code]]) -> dict[str, Code]:
    total: dict[str, Code] = {}
    for part in parts:
        for target, code in part.items():
            total[target] = total.get(target, Code()).plus(code)
    return {target: total[target] for target in in_order(total)}


def _newest(versions: Iterable[str | None]) -> str | None:
    """The highest that is a version: GLIBC_PRIVATE and its like are none."""
    found = []
    for text in versions:
        try:
            found.append(Version(text or ""))
        except InvalidVersion:
            continue
    return str(max(found)) if found else None
