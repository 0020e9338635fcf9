"""Which Pythons a wheel says it is for, by its tags and Requires-Python."""

from __future__ import annotations

import re

from packaging.specifiers import SpecifierSet

from rocwright.check.environments import read_specifier
from rocwright.check.facts import Facts
from rocwright.wheel.tags import STABLE

_TAG = re.compile(r"(?P<kind>cp|py)3(?P<minor>[0-9]*)")
# Minor versions that are asked about; none older is of interest, and none newer is known.
_OLDEST, _NEWEST = 6, 30


def claimed(facts: Facts) -> frozenset[int]:
    """Minor versions of Python 3 on which the wheel can be installed; none for one of Python 2 alone."""
    wanted = read_specifier(facts.headers.requires_python) or SpecifierSet()
    tagged = frozenset().union(*map(_tagged, facts.tags)) if facts.tags else frozenset()
    # A specifier may ask for a certain bugfix release.
    return frozenset(
        minor for minor in tagged if any(wanted.contains(f"3.{minor}.{patch}") for patch in (0, 2, 99))
    )


def lowest_told(facts: Facts) -> int | None:
    """The lowest Python that a wheel promises to run on; None where it promises nothing in particular."""
    said = facts.headers.requires_python or any(not tag.startswith("py3-") for tag in facts.tags)
    minors = claimed(facts)
    return min(minors) if said and minors and min(minors) > _OLDEST else None


def _tagged(tag: str) -> frozenset[int]:
    python, abi, _ = tag.split("-", 2)
    match = _TAG.fullmatch(python)
    if match is None:
        return frozenset()
    first = int(match["minor"] or _OLDEST)
    if match["kind"] == "cp" and abi not in (*STABLE, "none"):
        return frozenset({first})
    return frozenset(range(max(first, _OLDEST), _NEWEST))
