"""Where sources contradict each other about a feature, for each version of PyTorch and platform."""

from __future__ import annotations

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rocwright.compat.claimed.facts import Facts
from rocwright.model.compat_features import Statement
from rocwright.model.project import PLATFORMS


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
                here = tuple(row for row in said if holds(row, version, platform))
                clash = tuple(
                    row
                    for row in here
                    if any(
                        row.answer != other.answer and set(row.targets) == set(other.targets)
                        for other in here
                    )
                )
                if clash:
                    found.append(Conflict(topic.name, str(version), platform, clash))
    return tuple(found)


def holds(row: Statement, torch: Version, platform: str) -> bool:
    """Whether a statement is about this version of PyTorch on this platform."""
    return (not row.platforms or platform in row.platforms) and within(row.torch, torch)


def within(specifier: str, version: Version) -> bool:
    """Whether a version is meant; an alpha or a patch belongs to its line, `2.9a0` and `2.9.1` to 2.9."""
    line = Version(f"{version.major}.{version.minor}.{version.micro}")
    return line in SpecifierSet(specifier)
