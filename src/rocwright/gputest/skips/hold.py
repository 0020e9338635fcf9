"""Where and when entries hold: pure questions of an entry, a place and a day."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Literal

from rocwright.gputest.skips.versions import version_fits
from rocwright.model.skips import Here, SkipEntry, SkipWhere

FamilyMembers = Mapping[str, tuple[str, ...]]
State = Literal["holds", "elsewhere", "expired"]


@dataclass(frozen=True)
class Place:
    """A place that leaves things open: None stands for any; an empty text or tuple for none."""

    targets: tuple[str, ...] | None = None
    platform: str | None = None
    torch: str | None = None
    python: str | None = None
    rocm: str | None = None


def place_of(here: Here) -> Place:
    """The place of one machine. A version that is not known fits no entry that asks for one."""
    targets = (here.target,) if here.target else ()
    return Place(targets, here.platform, here.torch, here.python, here.rocm)


def entries_that_hold(
    entries: Iterable[SkipEntry], here: Here, families: FamilyMembers, today: date
) -> tuple[SkipEntry, ...]:
    """Those that hold here today, in order; `families` are the members of each family.

    An entry holds up to and with the day that it expires. Raises `InvalidVersion` for versions of `here`.
    """
    place = place_of(here)
    return tuple(entry for entry in entries if state_of(entry, place, families, today) == "holds")


def state_of(entry: SkipEntry, place: Place, families: FamilyMembers, today: date) -> State:
    """Whether an entry holds at a place; of a place that leaves things open: in some of it."""
    if not where_fits(entry.where, place, families):
        return "elsewhere"
    return "expired" if is_expired(entry, today) else "holds"


def is_expired(entry: SkipEntry, today: date) -> bool:
    """Whether the entry's last day is past."""
    return entry.expires is not None and entry.expires < today


def where_fits(where: SkipWhere, place: Place, families: FamilyMembers) -> bool:
    """Whether every field that is given fits the place."""
    if where.targets and place.targets is not None:
        meant = targets_of(where.targets, families)
        # Features of a target (xnack) do not make another GPU.
        if not any(target.partition(":")[0] in meant for target in place.targets):
            return False
    if where.platforms and place.platform is not None and place.platform not in where.platforms:
        return False
    versions = ((where.torch, place.torch), (where.rocm, place.rocm), (where.python, place.python))
    return all(
        not specifier or version is None or (version != "" and version_fits(specifier, version))
        for specifier, version in versions
    )


def known_names(families: FamilyMembers) -> tuple[str, ...]:
    """Every family and target that an entry may name."""
    return tuple(dict.fromkeys([*families, *(target for members in families.values() for target in members)]))


def targets_of(names: Iterable[str], families: FamilyMembers) -> frozenset[str]:
    """The targets that families, targets and beginnings with a star (`gfx94*`) mean; unknown names: none."""
    targets = {target for members in families.values() for target in members}
    found: set[str] = set()
    for name in names:
        if name in families:
            found.update(families[name])
        elif name.endswith("*"):
            found.update(target for target in targets if target.startswith(name[:-1]))
        elif name in targets:
            found.add(name)
    return frozenset(found)


def near_names(name: str, families: FamilyMembers) -> str:
    """What may have been meant by an unknown target or family, for a message."""
    near = get_close_matches(name, known_names(families), n=3)
    return f"perhaps {' or '.join(near)}" if near else "known families: " + " ".join(sorted(families))


def overlap(one: SkipWhere, other: SkipWhere, families: FamilyMembers) -> bool:
    """Whether there may be a place where both hold.

    Two ranges of versions are taken to overlap; a release line is compared with the other specifier.
    """
    apart = not targets_of(one.targets, families) & targets_of(other.targets, families)
    if one.targets and other.targets and apart:
        return False
    if one.platforms and other.platforms and not set(one.platforms) & set(other.platforms):
        return False
    pairs = ((one.torch, other.torch), (one.rocm, other.rocm), (one.python, other.python))
    return all(_lines_overlap(*pair) for pair in pairs)


def _lines_overlap(one: str, other: str) -> bool:
    line, other_line = release_line(one), release_line(other)
    if line is None and other_line is None:
        return True
    if line is not None and other_line is not None:
        return line == other_line or line.startswith(other_line + ".") or other_line.startswith(line + ".")
    # One line against a range: does the line's first release fit it?
    chosen, specifier = (line, other) if line is not None else (other_line, one)
    return not specifier or chosen is None or version_fits(specifier, chosen)


def release_line(specifier: str) -> str | None:
    """`2.10` for `==2.10.*` and `2.10`; None for any other specifier."""
    text = specifier.strip().removeprefix("==").strip().removesuffix(".*")
    plain = text.replace(".", "").isdigit()
    return text if plain and (specifier.strip().endswith(".*") or text == specifier.strip()) else None
