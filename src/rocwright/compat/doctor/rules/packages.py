"""Rules about distributions: doubles, versions that do not fit, mixtures, other files than were installed."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case, Distribution, Environment
from rocwright.compat.doctor.observations import Observation, Whose
from rocwright.model.patterns import fits
from rocwright.model.sets import FileEntry, SetManifest

_SHOWN = 3
_ROCM = re.compile(r"rocm(?P<version>[0-9]+(?:\.[0-9a-z]+)*)")
# What some builds put behind it: 6.3.0.git8fc9aa, 6.2.0.lw.git1234.
_SOURCE = re.compile(r"\.(?:lw|git[0-9a-f]+)(?:\.|$)")
# How PyTorch names wheels that are for something else.
_FOREIGN_LOCAL = re.compile(r"cu[0-9]+.*|cpu.*|xpu.*")


def unreadable(case: Case) -> Iterator[Observation]:
    """Metadata that cannot be read."""
    assert case.environment is not None
    for text in case.environment.unreadable:
        place, _, why = text.partition(": ")
        step = f"rm -r {shlex.quote(place)}, then reinstall what it belonged to"
        yield Observation("unreadable", "wrong", f"{place}: {why}", step, place, "environment")


def duplicate(case: Case) -> Iterator[Observation]:
    """A project that is installed twice in one place."""
    environment = case.environment
    assert environment is not None
    found = defaultdict(list)
    for one in environment.family:
        found[one.name, one.directory].append(one)
    for (name, directory), several in found.items():
        if len(several) > 1:
            versions = ", ".join(sorted({one.version for one in several}))
            detail = f"{name} is installed {len(several)} times in {directory}: {versions}; files are mixed"
            # Each call takes one of them away.
            once = mend.uninstall(environment, [name])
            step = " && ".join([*([once] * len(several)), mend.install(case, _pinned(case, several))])
            yield Observation("duplicate", "wrong", detail, step, name, "environment")


def _pinned(case: Case, several: list[Distribution]) -> str:
    """The version that belongs here: the set's, else the one that names a ROCm, else the project's latest."""
    name = several[0].name
    entries = case.manifest.files if case.manifest is not None else ()
    version = next((entry.version for entry in entries if entry.project == name), "")
    version = version or next((one.version for one in several if rocm_of(one.version)), "")
    return f"{name}=={version}" if version else name


def overlap(case: Case) -> Iterator[Observation]:
    """Files that two projects claim."""
    environment = case.environment
    assert environment is not None
    found = defaultdict(list)
    for one in environment.shared:
        names = tuple(sorted({owner.partition(" ")[0] for owner in one.owners}))
        if len(names) > 1:
            found[names].append(one.path)
    for names, paths in found.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        detail = f"{' and '.join(names)} both claim {paths[0]}{more}: removing one breaks the other"
        kept = environment.named(names[0])
        step = mend.uninstall(environment, names[1:])
        if kept is not None:
            step += f" && {mend.reinstall(case, kept)}"
        yield Observation("overlap", "wrong", detail, step, " ".join(names), "environment")


def requirements(case: Case) -> Iterator[Observation]:
    """What members of the family require, and is not there or does not fit."""
    environment = case.environment
    assert environment is not None
    installed = {one.name: one for one in reversed(environment.distributions)}
    bad = 0
    for one, wanted in _needs(environment):
        name = canonicalize_name(wanted.name)
        there = installed.get(name)
        if there is None:
            verdict, state = "missing", "is not installed"
        elif not _contains(wanted, there.version):
            verdict, state = "wrong", f"is {there.version}"
        else:
            continue
        bad += 1
        text = f"{wanted.name}{_extras(wanted)}{wanted.specifier}"
        yield Observation(
            "requirements",
            verdict,  # type: ignore[arg-type]
            f"{one.name} {one.version} requires {text}; {name} {state}",
            mend.install(case, text),
            f"{one.name} {name}",
            "environment",
        )
    members = {one.name for one in environment.family}
    if members and not bad:
        detail = f"requirements of {', '.join(sorted(members))} are installed and fit"
        yield Observation("requirements", "ok", detail, section="environment")


def _extras(wanted: Requirement) -> str:
    return f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else ""


def _contains(wanted: Requirement, version: str) -> bool:
    try:
        return wanted.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def _needs(environment: Environment) -> Iterator[tuple[Distribution, Requirement]]:
    """Each member of the family with each of its requirements that holds here.

    The extras of a distribution that others ask for count, too: torch asks for rocm[libraries].
    """
    members = {one.name: one for one in reversed(environment.family)}
    asked: dict[str, set[str]] = {name: {""} for name in members}
    waiting = [(name, "") for name in sorted(members)]
    told = set()
    while waiting:
        name, extra = waiting.pop(0)
        for text in members[name].requires:
            wanted = applying(text, environment, extra)
            if wanted is None or (name, text) in told:
                continue
            told.add((name, text))
            yield members[name], wanted
            other = str(canonicalize_name(wanted.name))
            for more in sorted(wanted.extras - asked.get(other, wanted.extras)):
                asked[other].add(more)
                waiting.append((other, more))


def applying(text: str, environment: Environment, extra: str = "") -> Requirement | None:
    """The requirement, where its marker holds here and with that extra; None else, or for a malformed one."""
    try:
        wanted = Requirement(text)
        holds = wanted.marker is None or wanted.marker.evaluate({**environment.markers, "extra": extra})
    except (InvalidRequirement, UndefinedEnvironmentName):
        return None
    return wanted if holds else None


def rocm_of(version: str) -> str:
    """The ROCm that a framework's version names: 7.10.0 for `2.9.0+rocm7.10.0`; empty without one."""
    match = _ROCM.search(_local(version.partition("+")[2]))
    return _SOURCE.split(match["version"])[0] if match else ""


def mixed(case: Case) -> Iterator[Observation]:
    """Packages of several sets: ROCm in two versions, frameworks for another one."""
    environment = case.environment
    assert environment is not None
    rocm = [one for one in environment.family if fits(one.name, case.table.rocm)]
    frameworks = [one for one in environment.family if fits(one.name, case.table.frameworks)]
    torch = environment.named("torch")
    wanted = rocm_of(torch.version) if torch else ""
    leading = next((one for one in rocm if one.name == "rocm"), rocm[0] if rocm else None)
    expected = wanted or (leading.version if leading else "")
    others = [one for one in rocm if _local(one.version) != _local(expected)]
    if others and expected:
        named = ", ".join(f"{one.name} {one.version}" for one in others)
        whose = f"torch {torch.version} is built for" if torch and wanted else "the others are"
        # As an index spells a version with a local part.
        version = next((one.version for one in rocm if one not in others), expected)
        step = mend.install(case, *(f"{one.name}=={version}" for one in others))
        yield Observation("mixed", "wrong", f"{named}: {whose} ROCm {expected}", step, "rocm", "environment")
    for one in frameworks:
        cause = _other_build(one, expected, torch, case.table.extensions)
        if cause:
            yield Observation("mixed", "wrong", cause, _again(case, one, torch), one.name, "environment")


def _other_build(
    one: Distribution, expected: str, torch: Distribution | None, extensions: Sequence[str]
) -> str:
    """Why a framework is of another build than the rest; empty where it is not.

    `extensions` are those that PyPI has, too, under versions without a word about ROCm.
    """
    own = rocm_of(one.version)
    if own and expected and _local(own) != _local(expected):
        return f"{one.name} {one.version} is built for ROCm {own}, the rest here for {expected}"
    local = one.version.partition("+")[2]
    for_rocm = torch is not None and rocm_of(torch.version)
    plain = fits(one.name, extensions) and (not local or _FOREIGN_LOCAL.fullmatch(local))
    if for_rocm and plain and torch is not None:
        return f"{one.name} {one.version} names no ROCm version: it is PyPI's, torch {torch.version} is not"
    return ""


def _again(case: Case, one: Distribution, torch: Distribution | None) -> str:
    assert case.environment is not None
    pins = [f"torch=={torch.version}"] if torch is not None and torch.name != one.name else []
    removed = mend.uninstall(case.environment, [one.name])
    return f"{removed} && {mend.install(case, one.name, *pins)}"


def _local(version: str) -> str:
    """`7.10.0.dev0+efed3c` as a local version spells it."""
    return version.lower().replace("+", ".").replace("-", ".")


def whose(one: Distribution, manifest: SetManifest) -> tuple[Whose, str]:
    """Whether a distribution is the set's, and why (not).

    The file that it was installed from is known where an address was given; else METADATA tells, which
    installers copy as it is. Of what was built from an sdist only the version can be compared.
    """
    entries = [entry for entry in manifest.files if entry.project == one.name]
    if not entries:
        return "unknown", "the set has no such project"
    same = [entry for entry in entries if entry.version == _normal(one.version)]
    if not same:
        versions = ", ".join(sorted({entry.version for entry in entries}))
        return "other", f"the set has {versions}"
    if one.origin_sha256:
        known = {entry.sha256 for entry in same}
        if one.origin_sha256 in known:
            return "set", "installed from a file of the set"
        return (
            "other",
            f"installed from {one.origin}, whose sha256 {one.origin_sha256[:12]}… is not in the set",
        )
    return _by_metadata(one, same)


def _normal(version: str) -> str:
    """As a manifest spells a version; METADATA may spell it in another way."""
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _by_metadata(one: Distribution, same: list[FileEntry]) -> tuple[Whose, str]:
    digests = {entry.metadata_sha256 for entry in same if entry.metadata_sha256}
    if not digests:
        return "set", "the version is the set's (an sdist: there is nothing else to compare)"
    if one.metadata_sha256 in digests:
        return "set", "its METADATA is the set's"
    return "other", "the version is the set's, its METADATA is not: another build"


def from_set(case: Case) -> Iterator[Observation]:
    """Say of each distribution whether it is the set's; only with a set."""
    environment, manifest = case.environment, case.manifest
    assert environment is not None
    if manifest is None:
        return
    name = f"set {case.set_id[:12]}"
    versions = {entry.project: entry.version for entry in manifest.files}
    for one in environment.family:
        answer, why = whose(one, manifest)
        said = f"{one.name} {one.version}"
        if answer == "set":
            detail = f"{said} is from {name}: {why}"
            yield Observation("set", "ok", detail, about=one.name, section="environment")
        elif answer == "unknown":
            detail = f"{said} is not from {name}: {why}"
            yield Observation("set", "note", detail, about=one.name, section="environment")
        else:
            step = mend.install(case, f"{one.name}=={versions[one.name]}", again=True, alone=True)
            detail = f"{said} is not from {name}: {why}"
            yield Observation("set", "wrong", detail, step, one.name, "environment")


def files(case: Case) -> Iterator[Observation]:
    """Distributions with files that differ from RECORD, or one observation that all are whole."""
    environment = case.environment
    assert environment is not None
    bad = 0
    for one in environment.family:
        if not one.recorded:
            detail = f"{one.name} {one.version} has no RECORD: its files cannot be compared"
            yield Observation("files", "note", detail, mend.reinstall(case, one), one.name, "environment")
        if not one.bad_files:
            continue
        bad += 1
        shown = ", ".join(f"{problem.path} is {problem.kind}" for problem in one.problems[:_SHOWN])
        more = one.bad_files - len(one.problems[:_SHOWN])
        detail = f"{one.name} {one.version}: {shown}" + (f" and {more} more" if more else "")
        gone = all(problem.kind == "missing" for problem in one.problems)
        yield Observation(
            "files",
            "missing" if gone else "wrong",
            detail,
            mend.reinstall(case, one),
            one.name,
            "environment",
        )
    if environment.family and not bad:
        detail = (
            f"no file of {', '.join(sorted({one.name for one in environment.family}))} is missing or changed"
        )
        yield Observation("files", "ok", detail, section="environment")
