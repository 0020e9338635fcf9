"""What a user should know before a build, though it stops nothing."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.builder.before.host import HostFacts
from rocwright.builder.before.needs import needs
from rocwright.builder.before.space import tight_space
from rocwright.builder.decide.family import FamilyPlan

# Windows' limit for a path, and what a build adds to those of its sources: build\\temp…\\….obj.
_LONGEST, _ADDED = 260, 60


def find_advice(plan: FamilyPlan, host: HostFacts) -> tuple[str, ...]:
    """Sentences for the user, none when there is nothing to say."""
    return (*tight_space(plan, host, needs().space), *_long_paths(plan, host))


def _long_paths(plan: FamilyPlan, host: HostFacts) -> Iterator[str]:
    if plan.platform != "windows":
        return
    for tree in host.trees:
        length = len(tree.place.path) + 1 + tree.longest + _ADDED
        if length > _LONGEST:
            yield (
                f"{tree.project}: paths will have up to about {length} characters, and Windows takes "
                f"{_LONGEST}: check out to a short directory such as C:/b"
            )
