"""Requirements among files that get another version together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, Specifier
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.errors import InvalidWheel

_CLAUSE = re.compile(r"(?P<operator>===|==|~=|>=|<=)(?P<space>\s*)(?P<version>[^\s,;()]+)")
EXACT = ("==", "===")


@dataclass(frozen=True)
class Change:
    """A version and the one that takes its place."""

    old: Version
    new: Version


def parse_requirement(text: str, file: str) -> Requirement:
    """A requirement; raises `InvalidWheel` naming the file."""
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        raise InvalidWheel(f"{file} requires {text!r}: {error}", where=file) from error


def edit_requirement(text: str, changes: Mapping[str, Sequence[Change]], file: str) -> str:
    """A requirement with the clauses that name an old version naming the new one; all else as written.

    `changes` are by normalised project. Name, extras, markers and addresses are never touched.
    """
    requirement = parse_requirement(text, file)
    mine = changes.get(canonicalize_name(requirement.name), ())
    if not mine or requirement.url is not None:
        return text
    # No quoted text stands before the first semicolon: what follows it is the marker.
    head, mark, tail = text.partition(";")

    def replaced(match: re.Match[str]) -> str:
        new = _replacement(match["operator"], match["version"], mine)
        return match[0] if new is None else f"{match['operator']}{match['space']}{new}"

    edited = _CLAUSE.sub(replaced, head) + mark + tail
    again = parse_requirement(edited, file)
    if (again.name, again.extras, str(again.marker)) != (
        requirement.name, requirement.extras, str(requirement.marker)
    ):  # fmt: skip
        raise InvalidWheel(f"{file} requires {text!r}, which is not understood", where=file)
    return edited


def _replacement(operator: str, text: str, changes: Sequence[Change]) -> str | None:
    """The version that a clause names from now on; None for the one it has."""
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    for change in changes:
        if version == change.old:
            return str(change.new)
        # `==7.13.0rc1` accepts 7.13.0rc1+asan.
        if operator != "===" and version == Version(change.old.public):
            return change.new.public
    return None


def exact_versions(requirement: Requirement) -> list[str]:
    """The versions that a requirement pins; patterns (`==7.*`) pin none."""
    return [
        clause.version
        for clause in requirement.specifier
        if clause.operator in EXACT and not clause.version.endswith(".*")
    ]


def accepts(requirement: Requirement, versions: Sequence[Version]) -> bool:
    """Whether any of the versions satisfies a requirement."""
    return any(requirement.specifier.contains(version, prereleases=True) for version in versions)


def parsed_pin(text: str) -> Version | None:
    """The version of a pin; None for what is none (`===anything`)."""
    try:
        Specifier(f"=={text}")
        return Version(text)
    except (InvalidSpecifier, InvalidVersion):
        return None
