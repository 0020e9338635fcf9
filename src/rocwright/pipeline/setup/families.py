"""Names of families as people write them, held against the table. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rocwright.errors import UsageError
from rocwright.model.gpu import InvalidTarget, spelled
from rocwright.model.runners import Runners


def words(text: str) -> tuple[str, ...]:
    """A list separated by spaces, `,` or `;`, without repeats."""
    return tuple(dict.fromkeys(word for word in re.split(r"[\s,;]+", text) if word))


def family_names(
    given: Iterable[str], runners: Runners, families: Mapping[str, Sequence[str]], *, where: str
) -> tuple[str, ...]:
    """Families of the table by name, by target, or by how the name begins, whatever the case.

    Raises `InvalidTarget` naming `where` it was written and listing the known families.
    """
    return tuple(dict.fromkeys(_family(name, runners, families, where) for name in given))


def _family(name: str, runners: Runners, families: Mapping[str, Sequence[str]], where: str) -> str:
    rows = list(dict.fromkeys(row.name for row in runners.rows))
    targets = {target for members in families.values() for target in members}
    if name in rows or name in families:
        return name
    head = name.partition("-")[0].lower()
    near = [row for row in rows if row.lower() == name.lower()]
    near = near or [row for row in rows if row.partition("-")[0].lower() == head]
    if len(near) == 1:
        return near[0]
    if spelled(name, targets) in targets:
        return spelled(name, targets)
    raise InvalidTarget(
        f"{where} names {name!r}, which is no known family", next_step=f"families: {' '.join(rows)}"
    )


def on_platform(names: Sequence[str], platform: str, runners: Runners) -> tuple[str, ...]:
    """Those that are built on a platform; what has no row may be tried anywhere."""
    return tuple(
        name for name in names if runners.row(name) is None or runners.on(name, platform) is not None
    )


def asked_for(
    text: str,
    platforms: Sequence[str],
    runners: Runners,
    families: Mapping[str, Sequence[str]],
    *,
    where: str,
) -> dict[str, tuple[str, ...]]:
    """`all`, `none` or names: the families that an input asks for, by platform.

    Raises `UsageError` for a family that is built on none of the platforms, and for `all` or `none` beside
    other names.
    """
    given = words(text)
    special = [word for word in given if word.lower() in ("all", "none")]
    if special and len(given) > 1:
        raise UsageError(
            f"{where} has {special[0]!r} beside other names: {text!r}", next_step="give one of them alone"
        )
    if special:
        every = special[0].lower() == "all"
        return {one: runners.tier_families(one, "nightly") if every else () for one in platforms}
    names = family_names(given, runners, families, where=where)
    found = {one: on_platform(names, one, runners) for one in platforms}
    missing = [name for name in names if not any(name in held for held in found.values())]
    if missing and platforms:
        there = dict.fromkeys(name for one in platforms for name in runners.tier_families(one, "nightly"))
        raise UsageError(
            f"{where} names {', '.join(missing)}, which is not built on {' or '.join(platforms)}",
            next_step=f"families there: {' '.join(there)}",
        )
    return found
