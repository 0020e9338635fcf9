"""The place that options ask for: text becomes a `Place`, or a mistake with its remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rocwright.errors import UsageError
from rocwright.gputest.skips.hold import FamilyMembers, Place, near_names, targets_of, where_fits
from rocwright.model.gpu import InvalidTarget
from rocwright.model.skips import SkipEntry
from rocwright.model.version import parse_version

_PLATFORMS = ("linux", "windows")
_ALL = "all"


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
    if platform and platform.lower() not in _PLATFORMS:
        raise UsageError(f"--platform {platform} is none that is known", next_step="write linux or windows")
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
                f"{name!r} is no known family or target", next_step=near_names(name, families)
            )
        found |= meant
    return tuple(sorted(found)) if found else None


def closed(place: Place, targets: Sequence[str], torch: str | None, platform: str) -> Place:
    """The place with what was not asked for taken for none: no GPU, no version; `platform` is this one's.

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
        entry.id: "holds for some targets, platforms or versions only, and not all of these are given"
        for entry in entries
        if where_fits(entry.where, replace(asked, platform=here.platform), families)
        and not where_fits(entry.where, here, families)
    }
