"""Rules about what a set offers: extras, device packages for the targets, archives for split libraries."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rocwright.check.context import Context, Problem, SetRule, parsed_requirements, required_name
from rocwright.check.environments import PythonPlatform, named_extras
from rocwright.check.facts import ElfFacts, Facts, KpackFacts, OriginFacts
from rocwright.check.rules.sets import fitting, versions_held, without
from rocwright.device_code.kernels import strange_wrapper
from rocwright.device_code.kpack import Marker
from rocwright.device_code.origin import SplitOrigin
from rocwright.device_code.source import archives_among
from rocwright.device_code.tree.names import package_of
from rocwright.device_code.verify.sources import device_part
from rocwright.model.gpu import base_targets
from rocwright.wheel.read import place_of

_ONE_SPLIT = "take host and device packages of one split; their version does not tell builds apart"


def _extras(context: Context) -> Iterator[tuple[str, Problem]]:
    for facts in context.files:
        here = [environment for environment in context.environments if environment.takes(facts)]
        offered = {str(canonicalize_name(extra)): extra for extra in facts.headers.extras}
        for requirement in parsed_requirements(facts):
            brought = _brought_by(offered, requirement, here)
            if brought and (what := _unanswered(context, requirement, here)) is not None:
                yield (
                    facts.name,
                    Problem(
                        f"its extra {', '.join(brought)} brings {_plain(requirement)}, {what}",
                        "build the package, or do not offer the extra; installers only warn about it",
                    ),
                )
            yield from _asked_for(context, facts, requirement)


def _brought_by(
    offered: Mapping[str, str], requirement: Requirement, here: list[PythonPlatform]
) -> list[str]:
    """The extras that bring a requirement, which does not hold without them; `offered` by canonical name."""
    if requirement.marker is None or any(each.applies(requirement) for each in here):
        return []
    named = [offered[name] for name in map(canonicalize_name, named_extras(requirement)) if name in offered]
    return [extra for extra in named if any(each.applies(requirement, extra) for each in here)]


def _unanswered(context: Context, requirement: Requirement, here: list[PythonPlatform]) -> str | None:
    """Why the set has no file for a requirement, None where it has a file or need not."""
    if required_name(requirement) not in context.by_project:
        return "which is not among these files" if context.leads_into_set(requirement) else None
    answers = fitting(context, requirement)
    if not answers:
        return f"the set holds {versions_held(context, requirement)}"
    extras = named_extras(requirement)
    where = [each for each in here if any(each.applies(requirement, extra) for extra in extras)]
    lacking = without(answers, where)
    return f"which has no file for {lacking}" if lacking else None


def _plain(requirement: Requirement) -> str:
    """A requirement without its marker."""
    return str(requirement).partition(";")[0].strip()


def _asked_for(context: Context, facts: Facts, requirement: Requirement) -> Iterator[tuple[str, Problem]]:
    """An extra that a package asks for and the other does not have is ignored by installers."""
    for answer in fitting(context, requirement):
        if answer.unreadable is not None or answer.bomb is not None:
            continue
        known = {str(canonicalize_name(extra)) for extra in answer.headers.extras}
        if answer.kind == "sdist":
            # It may tell them only while it is being installed.
            known |= set(context.terms(answer.project).extras)
            if not known:
                continue
        for extra in sorted(set(map(canonicalize_name, requirement.extras)) - known):
            yield (
                facts.name,
                Problem(
                    f"it asks for {requirement.name}[{extra}], an extra that {answer.name} does not have",
                    "installers only warn and leave it out: give the package the extra, or do not ask for it",
                ),
            )


def _device(context: Context) -> Iterator[tuple[str, Problem]]:
    wanted = base_targets(context.request.targets or ())
    stems = set()
    # A device package may require those of other projects; it offers nothing itself.
    for facts, together in _offering(context):
        offers = {
            name: part
            for one in together
            for name in map(required_name, parsed_requirements(one))
            if (part := device_part(name)) is not None
        }
        stems |= {_stem(name, part) for name, part in offers.items()}
        missing = [one for one in wanted if not {one, package_of(one)} & set(offers.values())]
        if offers and missing:
            yield (
                facts.name,
                Problem(
                    f"it offers no device package for {', '.join(missing)}, only for "
                    f"{', '.join(sorted(set(offers.values())))}",
                    "split it again with code for every requested target, or ask for fewer",
                ),
            )
    for facts in () if context.blind else context.files:
        part = device_part(facts.project)
        if part is None or facts.project in context.requiring or context.terms(facts.project).refuses:
            continue
        if _stem(facts.project, part) in stems or context.request.closed:
            yield (
                facts.name,
                Problem(
                    "no extra of a package in the set brings it, so nobody installs it",
                    "make hosts and device packages in one go; remove files of an older build",
                ),
            )


def _offering(context: Context) -> Iterator[tuple[Facts, list[Facts]]]:
    """Files that may offer device packages; the variants of a version do so together."""
    variants: dict[tuple[str, str], list[Facts]] = {}
    for facts in (one for one in context.files if device_part(one.project) is None):
        if facts.label:
            variants.setdefault((facts.project, facts.version), []).append(facts)
        else:
            yield facts, [facts]
    yield from ((together[0], together) for together in variants.values())


def _stem(project: str, part: str) -> str:
    """A device package's name without its target."""
    return project.removesuffix(part)


def _kpack(context: Context) -> Iterator[tuple[str, Problem]]:
    devices = any(device_part(facts.project) is not None for facts in context.files)
    if context.blind or not (devices or context.request.closed):
        return
    offered = any(device_part(name) is not None for name in context.requiring)
    for files, places in _together(context):
        if not places and offered:
            continue  # the finding on their extras tells that the packages with them are missing
        for facts in files:
            for elf in facts.elf:
                problem = _lost(elf, places)
                if problem is not None:
                    yield facts.name, problem


def _together(context: Context) -> Iterator[tuple[list[Facts], dict[str, tuple[Facts, KpackFacts]]]]:
    """The files that are installed together, and their archives by where they then lie."""
    for files in _installed(context):
        yield files, {place_of(one.member): (facts, one) for facts in files for one in facts.archives}


def _installed(context: Context) -> Iterator[list[Facts]]:
    """The files that are installed together: of a project with variants its plain file, or one of them."""
    labels = sorted({facts.label for facts in context.files} | {""})
    for environment in context.environments:
        taken = [facts for facts in context.files if environment.takes(facts)]
        for label in labels:
            own = {facts.project for facts in taken if label and facts.label == label}
            yield [facts for facts in taken if facts.label == (label if facts.project in own else "")]


def _build(context: Context) -> Iterator[tuple[str, Problem]]:
    for files, places in _together(context):
        for host, elf in ((facts, elf) for facts in files for elf in facts.elf):
            marker = elf.marker
            if marker is None:
                continue
            for path in archives_among(place_of(elf.member), marker, places):
                device, archive = places[path]
                build = archive.builds.get(marker.kernel.replace("\\", "/"), marker.build)
                if build != marker.build:
                    yield device.name, _stranger(archive, build, host, marker)


def _launch(context: Context) -> Iterator[tuple[str, Problem]]:
    """Archives that name no build: what a library registers is compared with the code that it would find."""
    for files, places in _together(context):
        for host, elf in ((facts, elf) for facts in files for elf in facts.elf):
            if elf.marker is None:
                continue
            kernel = elf.marker.kernel.replace("\\", "/")
            found = [places[path] for path in archives_among(place_of(elf.member), elf.marker, places)]
            unnamed = [(device, one) for device, one in found if kernel not in one.builds]
            for device, archive in unnamed:
                if 0 < elf.wrappers < archive.wrappers.get(kernel, 0):
                    yield device.name, _further(archive, host, elf, kernel)
            if all(archive.problem is None for _, archive in found) and len(unnamed) == len(found):
                yield from _never_found(host, elf, kernel, unnamed)


def _never_found(
    host: Facts, elf: ElfFacts, kernel: str, archives: list[tuple[Facts, KpackFacts]]
) -> Iterator[tuple[str, Problem]]:
    """Code that cannot be that of its wrapper: none of the kernels is in it, for any target."""
    holders = {
        number: [(device, one) for device, one in archives if number < one.wrappers.get(kernel, 0)]
        for number in elf.launches or {}
    }
    defined = {n: [one.defined.get((kernel, n)) for _, one in held] for n, held in holders.items()}
    strange = strange_wrapper(elf.launches or {}, defined)
    if strange is None:
        return
    for device, archive in holders[strange.number]:
        yield (
            device.name,
            Problem(
                f"its code of {kernel} is that of another build than {host.name}: for wrapper "
                f"{strange.number} it defines {strange.defined}, and {strange.launched} is launched",
                _ONE_SPLIT,
                archive.member,
            ),
        )


def _further(archive: KpackFacts, host: Facts, elf: ElfFacts, kernel: str) -> Problem:
    return Problem(
        f"its code of {kernel} is that of another build than {host.name}: it has code for wrapper "
        f"{archive.wrappers[kernel] - 1}, and there are only {elf.wrappers}",
        _ONE_SPLIT,
        archive.member,
    )


def _origin(context: Context) -> Iterator[tuple[str, Problem]]:
    """Parts without an archive that tells it, such as those of databases; archives gone from their part."""
    if context.blind:
        return
    told = {file for file, _ in _build(context)}
    for files in _installed(context):
        said = [
            (facts, one, one.origin) for facts in files for one in facts.origins if one.origin is not None
        ]
        there = {place_of(one.member) for facts in files for one in facts.archives}
        for host, beside, own in ((facts, one, origin) for facts, one, origin in said if not origin.part):
            folder = posixpath.dirname(place_of(beside.member))
            for facts, one, origin in said:
                if not origin.part or (posixpath.dirname(place_of(one.member)), origin.group) != (
                    folder,
                    own.group,
                ):
                    continue
                if origin.build != own.build and facts.name not in told:
                    yield facts.name, _other_build(one, origin, host, own)
                for target in origin.targets:
                    if posixpath.join(folder, origin.archive(target)) not in there:
                        yield facts.name, _gone(one, origin, target)


def _other_build(one: OriginFacts, origin: SplitOrigin, host: Facts, own: SplitOrigin) -> Problem:
    return Problem(
        f"its files for {origin.part} are of build {origin.build[:12]}, {host.name} is of build "
        f"{own.build[:12]}: libraries would take kernels and databases of another build",
        _ONE_SPLIT,
        one.member,
    )


def _gone(one: OriginFacts, origin: SplitOrigin, target: str) -> Problem:
    return Problem(
        f"it was split with an archive for {target}, {origin.archive(target)}, which is not in the set",
        "split again, or put the archive back",
        one.member,
    )


def _stranger(archive: KpackFacts, build: str, host: Facts, marker: Marker) -> Problem:
    own = f"build {marker.build[:12]}" if marker.build else "none that is named"
    return Problem(
        f"its code of {marker.kernel} was taken out of build {build[:12]}, {host.name} is {own}: a program "
        "would launch kernels of another build",
        _ONE_SPLIT,
        archive.member,
    )


def _lost(elf: ElfFacts, places: dict[str, tuple[Facts, KpackFacts]]) -> Problem | None:
    """Why a library does not find its device code."""
    if elf.marker is None:
        return None
    found = archives_among(place_of(elf.member), elf.marker, places)
    if not found:
        return Problem(
            f"it looks for its device code at {', '.join(elf.marker.search_paths)}, where no package of the "
            "set puts an archive",
            "split it again: a library must stay in the directory that it had when it was split",
            elf.member,
        )
    kernel = elf.marker.kernel.replace("\\", "/")
    held = [places[path][1] for path in found]
    # What an unreadable archive holds is not known; a rule of its own reports it.
    if any(kernel in archive.kernels or archive.problem is not None for archive in held):
        return None
    return Problem(
        f"no archive that it finds has code for {kernel}",
        "split host and device packages from one build",
        elf.member,
    )


RULES = (
    SetRule(
        "set-extras",
        "Every advertised extra brings packages that the set holds, and every extra asked for exists.",
        _extras,
        open_severity="warning",
        by_metadata=True,
    ),
    SetRule(
        "set-device",
        "A package with device packages has one for every requested target, and every one is offered.",
        _device,
        by_metadata=True,
    ),
    SetRule("set-kpack", "A split library finds an archive of the set with its device code.", _kpack),
    SetRule("set-build", "Device code was taken out of this very build of its library.", _build),
    SetRule("set-launch", "Code that names no build has the kernels that its library launches.", _launch),
    SetRule(
        "set-origin",
        "All of a device package is of its host's build, and no archive of its split is gone.",
        _origin,
    ),
)
