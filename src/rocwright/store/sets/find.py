"""Which set is meant: by its id, the beginning of an id, as newest, or as what people get from a channel.

Of a channel people get what installers take: the highest version, not what was listed last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

from packaging.version import Version

from rocwright.errors import InvalidInput
from rocwright.model.channels import Channel, Channels
from rocwright.model.sets import SetManifest
from rocwright.model.version import cached_version
from rocwright.store.channel_log import ChannelState, known_log
from rocwright.store.layout import LOG, channel_prefix, set_prefix
from rocwright.store.objects.protocol import ObjectStore, side_by_side
from rocwright.store.sets.records import manifest_key, read_set, set_folders

Versions = Mapping[str, Version]
# The platform of a set without files for a certain one.
_ANY = "any"


def versions_of(manifest: SetManifest) -> Versions:
    """The highest version that a set has of each project."""
    found: dict[str, Version] = {}
    for entry in manifest.files:
        version = cached_version(entry.version)
        if version >= found.setdefault(entry.project, version):
            found[entry.project] = version
    return found


def manifests_of(store: ObjectStore, ids: Iterable[str]) -> dict[str, SetManifest]:
    """The sets with these ids, read side by side; raises as `read_set`."""
    wanted = tuple(ids)
    return dict(zip(wanted, side_by_side(store, partial(read_set, store), wanted), strict=True))


def current_of(store: ObjectStore, state: ChannelState) -> str | None:
    """The set that installers take from a channel when nobody asks for a version; None where all are yanked.

    Raises `IntegrityError` for a manifest that was changed.
    """
    sets = manifests_of(store, state.open)
    best = ranked({one: versions_of(manifest) for one, manifest in sets.items()}, state.open)
    return best[-1] if best else None


def by_platform(sets: Mapping[str, SetManifest], listed: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The ids `listed`, in their order, for each platform that they are for; sets for any stand with each."""
    ids = tuple(listed)
    platforms = sorted({sets[one].platform for one in ids} - {_ANY}) or [_ANY]
    return {
        platform: tuple(one for one in ids if sets[one].platform in (platform, _ANY))
        for platform in platforms
    }


def outranks(one: Versions, other: Versions) -> bool:
    """Whether somebody who may have both would take `one` for any of the projects of `other`."""
    return any(one[project] > other[project] for project in one.keys() & other.keys())


def ranked(sets: Mapping[str, Versions], listed: Iterable[str]) -> tuple[str, ...]:
    """The ids `listed` (oldest first) by the versions of the projects that all have, the lowest first.

    Installers take pre-releases only where there is nothing else.
    """
    ids = tuple(listed)
    common = sorted(set.intersection(*(set(sets[one]) for one in ids))) if ids else []
    return tuple(sorted(ids, key=lambda one: [_rank(sets[one][project]) for project in common]))


def _rank(version: Version) -> tuple[bool, Version]:
    return not version.is_prerelease, version


_DIGITS = re.compile(r"[0-9a-f]{8,64}")
_HOW = "give 8 or more digits of its id, a channel and family such as release:gfx94X-dcgpu, or newest"
NEWEST = "newest"


def resolve_set(
    store: ObjectStore, channels: Channels, text: str, *, newest_in: str | None = None, family: str = ""
) -> str:
    """The id of the set that `text` names.

    All 64 digits of an id, the first 8 or more where only one set has them, or `CHANNEL:FAMILY` for the
    set that installers take from there; the family may be left out where the channel has one. `newest`, or
    `newest:FAMILY`, is the set that installers take from the first channel: the highest version there that
    was not withdrawn; from the channel `newest_in` where that is given. Raises `InvalidInput` for text that
    names no set, or several.
    """
    channel, colon, named = text.partition(":")
    if not colon and _DIGITS.fullmatch(text):
        return _by_digits(store, text)
    if channel == NEWEST:
        first = channels.named(newest_in or channels.channel[0].name)
        return current_set(store, first, named or family)
    if not colon and channel not in {name for one in channels.channel for name in (one.name, one.prefix)}:
        raise InvalidInput(f"{text!r} names no set", next_step=_HOW)
    chosen, family = named_place(store, channels, text)
    return current_set(store, chosen, family)


def current_set(store: ObjectStore, channel: Channel, family: str = "") -> str:
    """The set of a family that installers take from a channel: the highest version; see `the_family`."""
    family = the_family(store, channel, family)
    current = current_of(store, known_log(store, channel_prefix(channel.prefix, family)).state)
    if current is None:
        raise InvalidInput(
            f"{channel.name} lists no set for {family}, or only withdrawn ones",
            next_step="rocwright set list shows the sets of the store",
        )
    return current


def named_place(store: ObjectStore, channels: Channels, text: str) -> tuple[Channel, str]:
    """The channel and family that `CHANNEL:FAMILY` names; the family may be left out where there is one."""
    name, _, family = text.partition(":")
    channel = channels.named(name)
    return channel, the_family(store, channel, family)


def the_family(store: ObjectStore, channel: Channel, family: str = "") -> str:
    """The family itself where the channel has it, or its only family; raises `InvalidInput` else."""
    families = channel_families(store, channel)
    if family in families:
        return family
    there = f"families: {', '.join(families)}" if families else "it lists nothing"
    how = (
        _HOW
        if families
        else f"rocwright set promote SET --to {channel.name}; rocwright set list shows the sets"
    )
    if family:
        raise InvalidInput(f"{channel.name} has no family {family!r}; {there}", next_step=how)
    if len(families) != 1:
        raise InvalidInput(f"{channel.name} alone does not name a set; {there}", next_step=how)
    return families[0]


def channel_families(store: ObjectStore, channel: Channel) -> tuple[str, ...]:
    """Families that something was ever listed for in a channel, sorted."""
    found = store.folders(f"{channel.prefix}/")
    return tuple(
        name
        for name in found
        if not name.startswith("_") and store.folders(f"{channel.prefix}/{name}/").count(LOG.rstrip("/"))
    )


def _by_digits(store: ObjectStore, digits: str) -> str:
    if len(digits) == 64 and store.exists(manifest_key(digits)):
        return digits
    # Also one whose manifest is lost: who reads it says so.
    found = [name for name in set_folders(store) if name.startswith(digits) and _has_any(store, name)]
    if not found:
        what = f"the store has no set {digits}" if len(digits) == 64 else f"no set's id begins with {digits}"
        raise InvalidInput(what, next_step="rocwright set list shows its sets")
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} sets begin with {digits}: {', '.join(one[:16] for one in found[:5])}",
            next_step="give more digits",
        )
    return found[0]


def _has_any(store: ObjectStore, name: str) -> bool:
    return bool(store.list(set_prefix(name)))
