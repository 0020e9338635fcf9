"""Where sources contradict each other about a feature, for each version of PyTorch and platform."""

from __future__ import annotations

from itertools import combinations

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rocwright.compat.claimed.facts import Facts
from rocwright.model.compat_releases import Statement
from rocwright.model.platforms import PLATFORMS


class Conflict(msgspec.Struct, frozen=True):
    """A topic of which sources say yes and no for one version of PyTorch on one platform."""

    topic: str
    torch: str
    platform: str
    statements: tuple[Statement, ...]


def find_conflicts(facts: Facts) -> tuple[Conflict, ...]:
    """Every contradiction, oldest version first; what is said of different GPUs is none."""
    found = []
    for topic in facts.features.topic:
        said = [row for row in facts.statements if row.topic == topic.id]
        for version in facts.torch_versions:
            for platform in PLATFORMS:
                here = [row for row in said if holds(row, version, platform)]
                pairs = [pair for pair in combinations(here, 2) if contradict(*pair)]
                if pairs:
                    clash = tuple(row for row in here if any(row in pair for pair in pairs))
                    found.append(Conflict(topic.name, str(version), platform, clash))
    return tuple(found)


def contradict(one: Statement, other: Statement) -> bool:
    """Whether two statements that hold at once say yes and no of the same GPUs.

    What names a platform is surer of it than what names none, which was said of Linux.
    """
    return (
        one.answer != other.answer
        and set(one.targets) == set(other.targets)
        and ("windows" in one.platforms) == ("windows" in other.platforms)
    )


def holds(row: Statement, torch: Version, platform: str) -> bool:
    """Whether a statement is about this version of PyTorch on this platform."""
    return (not row.platforms or platform in row.platforms) and within(row.torch, torch)


def within(specifier: str, version: Version) -> bool:
    """Whether a version is meant; an alpha or a patch belongs to its line, `2.9a0` and `2.9.1` to 2.9."""
    line = Version(f"{version.major}.{version.minor}.{version.micro}")
    return line in SpecifierSet(specifier)


def same_line(version: str, lines: tuple[str, ...]) -> bool:
    """Whether a version is of one of these lines: 2.9.1 of 2.9."""
    return Version(version).release[:2] in {Version(line).release[:2] for line in lines}
