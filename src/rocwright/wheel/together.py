"""Which wheels are installed together, and where their members get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rocwright.wheel.read import Wheel, WheelMember

_SCHEMES = ("platlib", "purelib")


def installed_together(wheels: Sequence[Wheel]) -> list[list[Wheel]]:
    """All wheels, unless a project is there several times: then those with the same tags."""
    if max(Counter(wheel.name for wheel in wheels).values(), default=1) == 1:
        return [list(wheels)] if wheels else []
    by_tags: dict[str, list[Wheel]] = {}
    for wheel in wheels:
        by_tags.setdefault(" ".join(sorted(wheel.tags)), []).append(wheel)
    return list(by_tags.values())


def installed_path(wheel: Wheel, member: WheelMember) -> str:
    """A member's path in site-packages; below `.data`, other schemes keep their path in the wheel."""
    top, _, rest = member.name.partition("/")
    scheme, _, below = rest.partition("/")
    data = wheel.dist_info.removesuffix(".dist-info") + ".data"
    return below if top == data and scheme in _SCHEMES else member.name


def place_of(name: str) -> str:
    """Where a member gets, by its name alone; `<scheme>/…` in front where it does not go to site-packages.

    `x-1.data/platlib/a` becomes `a`, `x-1.data/scripts/b` becomes `<scripts>/b`. Headers go below the
    project's name, so those of two projects never meet; their path stays.
    """
    top, _, rest = name.partition("/")
    scheme, _, below = rest.partition("/")
    if not top.endswith(".data") or not below:
        return name
    if scheme in _SCHEMES:
        return below
    return f"<{scheme}>/{below}" if scheme in ("scripts", "data") else name
