"""Where and when entries hold: pure questions of an entry, a place and a day.

A place is that of a machine, or what options ask for. Nightlies and candidates belong to the release that
follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Literal

import msgspec
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import Version

from rocwright.errors import UsageError
from rocwright.model.gpu import InvalidTarget
from rocwright.model.suites import Here, SkipEntry, SkipWhere
from rocwright.model.version import parse_version

FamilyMembers = Mapping[str, tuple[str, ...]]
State = Literal["holds", "elsewhere", "expired"]
_BARE = re.compile(r"[0-9]+(\.[0-9]+)*")
PLATFORMS = ("linux", "windows")
_ALL = "all"


class Place(msgspec.Struct, frozen=True):
    """A place that leaves things open: None stands for any; an empty text or tuple for none."""

    targets: tuple[str, ...] | None = None
    platform: str | None = None
    torch: str | None = None
    python: str | None = None
    rocm: str | None = None


def place_of(here: Here) -> Place:
    """The place of one machine. A version that is not known fits no entry that asks for a version."""
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


def parse_specifier(text: str) -> SpecifierSet:
    """A version specifier; a bare `2.10` means that release line, `==2.10.*`.

    Raises `packaging.specifiers.InvalidSpecifier`.
    """
    bare = text.strip()
    return SpecifierSet(f"=={bare}.*" if _BARE.fullmatch(bare) else bare)


def is_specifier(text: str) -> bool:
    """Whether `parse_specifier` reads the text."""
    try:
        parse_specifier(text)
    except InvalidSpecifier:
        return False
    return True


def version_fits(specifier: str, version: str) -> bool:
    """Whether a version as a wheel gives it (`2.10.0a0+rocm7.10.0a20251124`) is meant by a specifier.

    A nightly of 2.10 is built from what becomes 2.10, so it is judged as 2.10.0: `>=2.10` and `==2.10.*` mean
    it, `<2.10` does not. Only a clause that names a pre-release or a local version itself
    (`>=2.10.0a20251101`) is compared with the whole version. Raises `InvalidVersion`.
    """
    whole = parse_version(version)
    release = Version(
        ".".join(map(str, whole.release)) + (f".post{whole.post}" if whole.post is not None else "")
    )
    return all(
        clause.contains(whole if _is_exact_about(clause) else release, prereleases=True)
        for clause in parse_specifier(specifier)
    )


def _is_exact_about(clause: Specifier) -> bool:
    if clause.operator == "===":
        return True
    named = Version(clause.version.removesuffix(".*"))
    return named.is_prerelease or named.local is not None


def release_line(specifier: str) -> str | None:
    """`2.10` for `==2.10.*` and `2.10`; None for any other specifier."""
    text = specifier.strip().removeprefix("==").strip().removesuffix(".*")
    plain = text.replace(".", "").isdigit()
    return text if plain and (specifier.strip().endswith(".*") or text == specifier.strip()) else None


def asked_place(
    families: FamilyMembers,
    *,
    targets: Sequence[str] = (),
    platform: str | None = None,
    torch: str | None = None,
    python: str | None = None,
    rocm: str | None = None,
) -> Place:
    """The place of a question; what is None, empty or `all` stays open.

    `targets` are families and targets, several in one text with commas. Raises `InvalidTarget`, `UsageError`
    for an unknown platform, `InvalidVersion`.
    """
    if platform and platform.lower() not in PLATFORMS:
        raise UsageError(f"--platform {platform} is not known", next_step="write linux or windows")
    versions = {"torch": torch, "python": python, "rocm": rocm}
    open_ended = {name: None if not text or text == _ALL else text for name, text in versions.items()}
    for text in filter(None, open_ended.values()):
        parse_version(text)
    return Place(
        targets=_targets(targets, families), platform=platform.lower() if platform else None, **open_ended
    )


def _targets(texts: Sequence[str], families: FamilyMembers) -> tuple[str, ...] | None:
    names = [word for text in texts for word in re.split(r"[\s,;]+", text) if word]
    found: set[str] = set()
    for name in names:
        if name == _ALL:
            return None
        meant = targets_of((name.partition(":")[0],), families)
        if not meant:
            raise InvalidTarget(
                f"{name!r} is not a known family or target", next_step=near_names(name, families)
            )
        found |= meant
    return tuple(sorted(found)) if found else None


def closed(place: Place, targets: Sequence[str], torch: str | None, platform: str) -> Place:
    """The place with what was not asked for taken for none: no GPU, no version; `platform` is this machine's.

    `targets` and `torch` are what was given: `all` stays open.
    """
    return Place(
        targets=place.targets if targets else (),
        platform=place.platform or platform,
        torch=place.torch if torch else "",
        python=place.python or "",
        rocm=place.rocm or "",
    )


def unknown_of(
    entries: Sequence[SkipEntry], here: Place, asked: Place, families: FamilyMembers
) -> dict[str, str]:
    """Entries that may hold at the place that was asked for, but not as it was closed; with the reason."""
    return {
        entry.id: "applies only to some targets, platforms or versions, and not all of these are given"
        for entry in entries
        if where_fits(entry.where, msgspec.structs.replace(asked, platform=here.platform), families)
        and not where_fits(entry.where, here, families)
    }
