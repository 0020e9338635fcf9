"""What the environment of a build needs: pinned build tools and what the tree's pyproject.toml asks for."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def build_requirements(tools: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The tools' pins, and what the tree asks for besides; builds run without isolation, so it must be there.

    Where both name a package, the pin stands if the tree accepts it, else the tree's own requirement.
    """
    pins = {canonicalize_name(Requirement(text).name): Requirement(text) for text in tools}
    refused: set[str] = set()
    others: list[str] = []
    for text in asked:
        wanted = Requirement(text)
        pin = pins.get(canonicalize_name(wanted.name))
        if pin is None:
            others.append(text)
        elif not _accepts(wanted, pin) or wanted.extras:
            refused.add(canonicalize_name(wanted.name))
            others.append(text)
    kept = [str(pin) for name, pin in pins.items() if name not in refused]
    return tuple(dict.fromkeys([*kept, *others]))


def _accepts(wanted: Requirement, pin: Requirement) -> bool:
    version = next(iter(pin.specifier)).version
    return wanted.url is None and wanted.specifier.contains(version, prereleases=True)


def names(requirements: Sequence[str]) -> frozenset[str]:
    """The canonical names of requirements."""
    return frozenset(canonicalize_name(Requirement(text).name) for text in requirements)
