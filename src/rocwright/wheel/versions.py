"""Which version of each project of a family a folder of wheels holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rocwright.errors import ContractBroken
from rocwright.model.project import Project
from rocwright.wheel.tags import platform_of


@dataclass(frozen=True)
class FamilyVersions:
    """Project → version, normalised, in the order of the projects; `missing` are those a release may lack."""

    versions: dict[str, str]
    missing: tuple[str, ...]
    platform: str


def family_versions(names: Iterable[str], projects: Sequence[Project], platform: str) -> FamilyVersions:
    """Versions of the projects among wheels with these file names; wheels of other projects do not matter.

    What may be missing depends on the platform that the projects' wheels are for; `platform` (`linux`,
    `windows`) is taken where their tags do not tell. Raises `ContractBroken` with everything that is wrong: a
    `.whl` without a valid name, several versions of a project, a project that is not there.
    """
    wanted = {project.name: project for project in projects}
    found: dict[str, dict[str, list[str]]] = {}
    platforms: set[str | None] = set()
    wrong: list[str] = []
    for name in sorted(names):
        try:
            project, version, _, tags = parse_wheel_filename(name)
        except InvalidWheelFilename as error:
            wrong.append(f"{name} is no valid wheel name: {error}")
            continue
        if project in wanted:
            found.setdefault(project, {}).setdefault(str(version), []).append(name)
            platforms.add(platform_of(map(str, tags)))
    platforms.discard(None)
    if len(platforms) > 1:
        wrong.append("wheels for Linux and for Windows are mixed")
    else:
        platform = next(filter(None, platforms), platform)
    for name, by_version in found.items():
        if len(by_version) > 1:
            files = ", ".join(file for files in by_version.values() for file in files)
            wrong.append(f"{len(by_version)} versions of {name} are there: {files}")
    absent = [name for name in wanted if name not in found]
    optional = tuple(name for name in absent if wanted[name].optional(platform))
    wrong += [f"no wheel of {name} is there" for name in absent if name not in optional]
    if wrong:
        raise ContractBroken(
            "\n".join(wrong),
            next_step="look for builds that failed, and start each build with an empty output folder",
        )
    versions = {name: next(iter(found[name])) for name in wanted if name in found}
    return FamilyVersions(versions, optional, platform)
