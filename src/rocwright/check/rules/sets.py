"""Rules about a set: all files together."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import Requirement

from rocwright.check.context import Context, exact_version, parsed_requirements, required_name
from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem, SetRule


def _one_version(context: Context) -> Iterator[tuple[str, Problem]]:
    for project, files in sorted(context.by_project.items()):
        versions = {facts.version: facts.name for facts in reversed(files)}
        if len(versions) > 1:
            yield (
                versions[max(versions)],
                Problem(
                    f"{project} is there in {len(versions)} versions: {', '.join(sorted(versions))}",
                    "remove the files of the older build; a set holds one version of each package",
                ),
            )


def _ownership(context: Context) -> Iterator[tuple[str, Problem]]:
    """Two packages that own one path: uninstalling one breaks the other."""
    owner: dict[str, Facts] = {}
    for facts in context.files:
        for member in facts.members:
            first = owner.setdefault(member.name, facts)
            # Wheels of one project for several Pythons are never installed together.
            if first.project != facts.project:
                yield (
                    facts.name,
                    Problem(
                        f"it also belongs to {first.name}; uninstalling one deletes the other's file",
                        "give each path to one package",
                        member.name,
                    ),
                )


def _pins(context: Context) -> Iterator[tuple[Facts, Requirement, str]]:
    for facts in context.files:
        for requirement in parsed_requirements(facts):
            version = exact_version(requirement)
            if version is not None:
                yield facts, requirement, version


def _pins_resolve(context: Context) -> Iterator[tuple[str, Problem]]:
    for facts, requirement, _ in _pins(context):
        name = required_name(requirement)
        held = sorted({one.version for one in context.by_project.get(name, ())})
        # As an installer compares: 2.9 equals 2.9.0, and a pin without a local part admits any.
        if held and not any(requirement.specifier.contains(version, prereleases=True) for version in held):
            yield (
                facts.name,
                Problem(
                    f"it requires {requirement}, the set holds {name} {', '.join(held)}",
                    "build the set from one state, so that its packages fit each other",
                ),
            )


def _closed(context: Context) -> Iterator[tuple[str, Problem]]:
    for facts, requirement, version in _pins(context):
        name = required_name(requirement)
        # A local version exists on no public index, and rocm's own names belong to this index.
        ours = "+" in version or name == "rocm" or name.startswith("rocm-")
        if ours and name not in context.by_project:
            yield (
                facts.name,
                Problem(
                    f"it requires {requirement}, which is not among these files",
                    "check the whole set together, or make sure that the index holds it",
                ),
            )


RULES = (
    SetRule("set-one-version", "A package is there in one version.", _one_version),
    SetRule("set-ownership", "No path belongs to two packages.", _ownership),
    SetRule("set-pins", "Exact pins fit the versions in the set.", _pins_resolve),
    # Of a set that claims to be complete this is an error, of a few wheels looked at alone a warning.
    SetRule("set-closed", "Exact pins to the set's own packages are answered inside it.", _closed),
)
