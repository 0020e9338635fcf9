"""What a requirement says, and what a name: exact pins, markers, the target of a device package."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from rocwright.model.gpu import is_target


def exact_pin(requirement: Requirement) -> str | None:
    """The version that a requirement names with `==`, normalised; None for any other specifier."""
    for one in requirement.specifier:
        if one.operator in ("==", "===") and not one.version.endswith("*"):
            try:
                return str(Version(one.version))
            except InvalidVersion:
                return None
    return None


def applies(
    requirement: Requirement, environments: Collection[Mapping[str, str]], extras: Collection[str]
) -> bool:
    """Whether a requirement holds in some environment, for some extra or without any."""
    marker = requirement.marker
    if marker is None:
        return True
    try:
        return any(
            marker.evaluate({**environment, "extra": extra})
            for environment in environments
            for extra in ("", *extras)
        )
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return True


def device_of(project: str) -> tuple[str, str]:
    """A device package's name without its target, and the target; `""` for any other."""
    words = project.split("-")
    for at in range(1, len(words)):
        if is_target(tail := "-".join(words[at:])):
            return project.removesuffix(tail), tail
    return project, ""


def plain(requirement: Requirement) -> str:
    """A requirement without its marker."""
    return str(requirement).partition(";")[0].strip()
