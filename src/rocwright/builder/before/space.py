"""How much of the disk a build takes: an estimate from the size of its sources, by file system."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rocwright.builder.before.host import HostFacts
from rocwright.builder.before.needs import SpaceRow
from rocwright.builder.before.problem import Problem
from rocwright.builder.before.tools import some
from rocwright.builder.before.tree import Place
from rocwright.builder.decide.family import FamilyPlan

# What is refused is half of the estimate: projects differ, and somebody who knows his must not be stopped.
_SURE = 0.5


class Need(msgspec.Struct, frozen=True):
    """Bytes that will be written on one file system, and those free there; `places` are the directories."""

    size: int
    free: int
    places: tuple[str, ...]


def estimate_space(plan: FamilyPlan, host: HostFacts, row: SpaceRow) -> tuple[Need, ...]:
    """What each file system has to hold; what an earlier build left in its tree is there already."""
    pythons = len({build.python for build in plan.builds})
    requirements = len({name for tree in host.trees for name in tree.brings})
    parts: list[tuple[Place, float]] = []
    wheels = compiled = 0.0
    for tree in host.trees:
        objects = tree.size * row.objects * (1 + len(plan.targets))
        parts.append((tree.place, max(0.0, objects * (1 + row.staged * pythons) - tree.built)))
        wheels += objects * row.wheel * pythons
        compiled += objects
    parts.append((host.output, wheels))
    # Installed twice, to build against and to be proven, and about twice as large as they are packed.
    installed = row.environment + row.requirement * requirements
    parts.append((host.work, installed * pythons + 4 * wheels))
    if host.unpacking is not None:
        parts.append((host.unpacking.place, host.unpacking.files * row.unpacked))
    if host.temporary is not None:
        # Of what is made at once, never more than comes of all of it.
        parts.append((host.temporary, min(compiled, _jobs(plan) * row.temporary)))
    needs: dict[int, Need] = {}
    for place, size in parts:
        if not place.writable:
            # Another finding, and perhaps a place of which nothing is known.
            continue
        before = needs.get(place.file_system, Need(0, place.free, ()))
        needs[place.file_system] = Need(before.size + int(size), place.free, (*before.places, place.path))
    return tuple(needs.values())


def _jobs(plan: FamilyPlan) -> int:
    asked = [build.env.get("MAX_JOBS", "") for build in plan.builds]
    return max((int(text) for text in asked if text.isdigit()), default=1)


def space_problems(plan: FamilyPlan, host: HostFacts, row: SpaceRow) -> Iterator[Problem]:
    """File systems that are too small for certain."""
    for need in estimate_space(plan, host, row):
        if need.free < need.size * _SURE:
            yield Problem(
                f"{_about(plan, host)} take about {need.size / 1e9:.1f} GB on the file system of "
                f"{some(need.places)}, where {need.free / 1e9:.1f} GB are free",
                "free some, or move the checkouts, --work-dir or --output-dir to another file system",
            )


def tight_space(plan: FamilyPlan, host: HostFacts, row: SpaceRow) -> Iterator[str]:
    """Sentences on file systems that may turn out to be too small."""
    for need in estimate_space(plan, host, row):
        if need.size * _SURE <= need.free < need.size:
            yield (
                f"space may get scarce: {_about(plan, host)} take about {need.size / 1e9:.1f} GB on the file "
                f"system of {some(need.places)}, where {need.free / 1e9:.1f} GB are free (an estimate)"
            )


def _about(plan: FamilyPlan, host: HostFacts) -> str:
    size = sum(tree.size for tree in host.trees)
    targets, pythons = len(plan.targets), len({build.python for build in plan.builds})
    rocm = " with a ROCm of their own" if host.unpacking is not None else ""
    return (
        f"builds of {size / 1e9:.1f} GB of sources for {targets} GPU target{'s' * (targets != 1)} and "
        f"{pythons} Python{'s' * (pythons != 1)}{rocm}"
    )
