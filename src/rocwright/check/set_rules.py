"""The contract of a set: pure rules over the facts of all its files together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rocwright.check.facts import Facts
from rocwright.check.report import Severity
from rocwright.check.rules import exact_version

# The file the finding is about, cause, next step.
SetProblem = tuple[str, str, str]


@dataclass(frozen=True)
class SetRule:
    """One clause about a whole set."""

    id: str
    severity: Severity
    check: Callable[[Sequence[Facts]], Iterator[SetProblem]]


def _one_version(files: Sequence[Facts]) -> Iterator[SetProblem]:
    versions: dict[str, dict[str, str]] = {}
    for facts in files:
        versions.setdefault(facts.project, {}).setdefault(facts.version, facts.name)
    for project, found in sorted(versions.items()):
        if len(found) > 1:
            yield (
                found[max(found)],
                f"{project} is there in {len(found)} versions: {', '.join(sorted(found))}",
                "remove the files of the older build; a set holds one version of each package",
            )


def _ownership(files: Sequence[Facts]) -> Iterator[SetProblem]:
    """Two packages that own one path: uninstalling one breaks the other."""
    owner: dict[str, Facts] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for facts in files:
        for member in facts.members:
            first = owner.setdefault(member.name, facts)
            # Wheels of one project for several Pythons are never installed together.
            if first.project != facts.project:
                shared.setdefault((first.name, facts.name), []).append(member.name)
    for (first_name, second_name), names in sorted(shared.items()):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield (
            second_name,
            f"{names[0]}{more} also belongs to {first_name}; uninstalling one deletes the other's file",
            "give each path to one package",
        )


def _pins(files: Sequence[Facts]) -> Iterator[tuple[Facts, Requirement, str]]:
    for facts in files:
        for text in facts.requires:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue  # reported for the file itself
            version = exact_version(requirement)
            if version is not None:
                yield facts, requirement, version


def _pins_resolve(files: Sequence[Facts]) -> Iterator[SetProblem]:
    there: dict[str, set[str]] = {}
    for facts in files:
        there.setdefault(facts.project, set()).add(facts.version)
    for facts, requirement, _ in _pins(files):
        name = canonicalize_name(requirement.name)
        held = sorted(there.get(name, ()))
        # As an installer compares: 2.9 equals 2.9.0, and a pin without a local part admits any.
        if held and not any(requirement.specifier.contains(version, prereleases=True) for version in held):
            yield (
                facts.name,
                f"it requires {requirement}, the set holds {name} {', '.join(held)}",
                "build the set from one state, so that its packages fit each other",
            )


def _pins_inside(files: Sequence[Facts]) -> Iterator[SetProblem]:
    projects = {facts.project for facts in files}
    for facts, requirement, version in _pins(files):
        name = canonicalize_name(requirement.name)
        # A local version exists on no public index, and rocm's own names belong to this index.
        ours = "+" in version or name == "rocm" or name.startswith("rocm-")
        if ours and name not in projects:
            yield (
                facts.name,
                f"it requires {requirement}, which is not among these files",
                "check the whole set together, or make sure that the index holds it",
            )


SET_RULES: tuple[SetRule, ...] = (
    SetRule("set-one-version", "error", _one_version),
    SetRule("set-ownership", "error", _ownership),
    SetRule("set-pins", "error", _pins_resolve),
)
# Of a set that claims to be complete this is an error, of a few wheels looked at alone a warning.
CLOSED_RULE = SetRule("set-closed", "warning", _pins_inside)
