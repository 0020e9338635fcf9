"""Plan another version of ROCm for a closed set of wheels and sdists; decides everything, writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.errors import ContractBroken, InvalidInput, UsageError
from rocwright.wheel.reversion.members import reversion_table
from rocwright.wheel.reversion.sdists import OpenSdist, open_sdist, plan_sdist
from rocwright.wheel.reversion.values import Changes, FileChange, PlannedDistribution, ReversionPlan
from rocwright.wheel.reversion.versions import (
    Change,
    Rule,
    accepts,
    edit_requirement,
    exact_versions,
    new_version,
    parse_requirement,
    parsed_pin,
    rocm_version,
)
from rocwright.wheel.reversion.wheels import OpenWheel, open_whole, plan_wheel
from rocwright.wheel.tags import platform_of

_PLATFORMS: Mapping[str, Mapping[str, str]] = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    "windows": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
}


def plan_reversion(paths: Iterable[Path], rule: Rule) -> ReversionPlan:
    """What becomes of the files of a set, all of them, so that it is as closed afterwards as it was before.

    Own projects are those among the files. Every exact pin among them must name a version that is there, and
    no pin may name the old ROCm outside of them. Raises `ContractBroken` where that does not hold,
    `InvalidVersion` for a version that cannot be converted, `UsageError` where nothing is to be done, and
    `InvalidWheel` for a file that cannot be read or not be taken over.
    """
    opened = [_open(path) for path in sorted(paths, key=lambda path: path.name)]
    if not opened:
        raise UsageError("no files are given", next_step="name wheels or sdists")
    abouts = [one.about for one in opened]
    changes = _changes(abouts, rule)
    problems = list(dict.fromkeys(_problems(abouts, changes)))
    if problems:
        raise ContractBroken(
            "\n".join(problems),
            next_step="give all files of the set and no other; none was changed",
        )
    files = tuple(_planned(one, changes) for one in opened)
    names = [file.name for file in files]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise ContractBroken(f"two files would be called {double}", next_step="give only one of them")
    return ReversionPlan(str(changes.rocm.old), str(changes.rocm.new), files)


def _open(path: Path) -> OpenWheel | OpenSdist:
    if path.name.endswith(".whl"):
        return open_whole(path)
    if path.name.endswith(".tar.gz"):
        return open_sdist(path)
    raise InvalidInput(
        f"{path.name} is neither a wheel nor an sdist",
        where=path,
        next_step="give .whl and .tar.gz files only",
    )


def _planned(one: OpenWheel | OpenSdist, changes: Changes) -> FileChange:
    known = changes.projects.get(one.about.project, ())
    new = next((change.new for change in known if change.old == one.about.version), one.about.version)
    if isinstance(one, OpenWheel):
        return plan_wheel(one, new, changes)
    return plan_sdist(one, new, changes)


def _changes(abouts: Sequence[PlannedDistribution], rule: Rule) -> Changes:
    """Old and new versions; raises when files are of several ROCms, of none, or of one that stays."""
    found: dict[Version, str] = {}
    for about in abouts:
        named = rocm_version(about.version, own=about.own)
        if named is not None:
            found.setdefault(named, about.path.name)
    if not found:
        raise UsageError(
            "no file carries a version of ROCm, so there is nothing to change",
            next_step="give the files of a candidate or nightly, such as torch-2.10.0+rocm7.13.0rc2-….whl",
        )
    if len(found) > 1:
        listed = ", ".join(f"{version} ({file})" for version, file in sorted(found.items()))
        raise ContractBroken(
            f"the files are of several versions of ROCm: {listed}",
            next_step="give the files of one set; none was changed",
        )
    old = next(iter(found))
    projects: dict[str, dict[Version, Change]] = {}
    texts: dict[str, str] = {}
    for about in abouts:
        new = new_version(about.version, rule, own=about.own)
        projects.setdefault(about.project, {})[about.version] = Change(about.version, new)
        if new != about.version:
            texts |= {about.spelled: str(new), str(about.version): str(new)}
    rocm = Change(old, new_version(old, rule, own=True))
    texts[str(old)] = str(rocm.new)
    by_project = {project: tuple(versions.values()) for project, versions in projects.items()}
    return Changes(rocm, by_project, texts)


def _problems(abouts: Sequence[PlannedDistribution], changes: Changes) -> Iterator[str]:
    """Requirements that do not resolve inside the set before, or would not any more."""
    for about in abouts:
        for text, requirement in zip(about.requires, about.parsed, strict=True):
            project = canonicalize_name(requirement.name)
            mine = changes.projects.get(project)
            if mine is None:
                yield from _outside(about, text, requirement, changes)
            elif requirement.url is not None:
                yield f"{about.path.name} requires {text}: an address instead of a version"
            else:
                yield from _inside(about, text, requirement, mine, changes)


def _inside(
    about: PlannedDistribution, text: str, requirement: Requirement, mine: Sequence[Change], changes: Changes
) -> Iterator[str]:
    before = accepts(requirement, [change.old for change in mine])
    if not before and exact_versions(requirement):
        there = ", ".join(str(change.old) for change in mine)
        yield f"{about.path.name} requires {text}, but the set has {there}"
    edited = parse_requirement(edit_requirement(text, changes.projects, about.path.name), about.path.name)
    if before and not accepts(edited, [change.new for change in mine]):
        there = ", ".join(str(change.new) for change in mine)
        yield f"{about.path.name} requires {text}, which {there} would not satisfy"


def _outside(
    about: PlannedDistribution, text: str, requirement: Requirement, changes: Changes
) -> Iterator[str]:
    """A pin on what is built for the old ROCm and is not among the files."""
    own = reversion_table().is_own(canonicalize_name(requirement.name))
    for pin in exact_versions(requirement):
        version = parsed_pin(pin)
        named = None if version is None else rocm_version(version, own=own)
        if named == changes.rocm.old and _applies(about, requirement):
            yield f"{about.path.name} requires {text}, which is not among the files"


def _applies(about: PlannedDistribution, requirement: Requirement) -> bool:
    """Whether a requirement can hold where the file can be installed, with any of its extras."""
    marker = requirement.marker
    if marker is None:
        return True
    platform = platform_of(about.tags)
    environments = [_PLATFORMS[platform]] if platform else list(_PLATFORMS.values())
    return any(
        marker.evaluate({**environment, "extra": extra})
        for environment in environments
        for extra in ("", *about.extras)
    )
