"""Which set of a channel people get: installers take the highest version, not what was listed last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.version import Version

from rocwright.model.manifest import SetManifest
from rocwright.store.channel.log import ChannelState
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.records import read_set

Versions = Mapping[str, Version]


def versions_of(manifest: SetManifest) -> Versions:
    """The highest version that a set has of each project."""
    found: dict[str, Version] = {}
    for entry in manifest.files:
        version = Version(entry.version)
        if version >= found.setdefault(entry.project, version):
            found[entry.project] = version
    return found


def current_of(store: ObjectStore, state: ChannelState) -> str | None:
    """The set that installers take from a channel when nobody asks for a version; None where all are yanked.

    Raises `IntegrityError` for a manifest that was changed.
    """
    best = ranked({one: versions_of(read_set(store, one)) for one in state.open}, state.open)
    return best[-1] if best else None


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
