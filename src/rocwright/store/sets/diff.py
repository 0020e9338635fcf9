"""What moved between two sets: a pure function of their manifests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from rocwright.model.gpu import in_order
from rocwright.model.sets import FileEntry, SetManifest, set_id

# So many names stand in the sentence; the rest is counted.
_NAMED = 4


class Moved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project, source or file before and after; None where it is not there."""

    name: str
    before: str | None
    after: str | None


class SetDiff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How set `after` differs from set `before`.

    `projects` are those whose versions differ (several joined by spaces), `sources` those whose pins do.
    `added` and `removed` are names of files, `rebuilt` names that both have with different bytes. Sizes are
    in bytes, of all files.
    """

    before: str
    after: str
    summary: str
    projects: tuple[Moved, ...] = ()
    sources: tuple[Moved, ...] = ()
    targets_added: tuple[str, ...] = ()
    targets_removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    size_before: int = 0
    size_after: int = 0
    family: Moved | None = None
    platform: Moved | None = None


def diff_sets(before: SetManifest, after: SetManifest) -> SetDiff:
    """What moved from one set to the other, and a sentence that says it."""
    old = {entry.name: entry for entry in before.files}
    new = {entry.name: entry for entry in after.files}
    both = sorted(old.keys() & new.keys())
    found = SetDiff(
        before=set_id(before),
        after=set_id(after),
        summary="",
        projects=_moved(_versions(before.files), _versions(after.files)),
        sources=_moved(before.sources, after.sources),
        targets_added=in_order(set(after.targets) - set(before.targets)),
        targets_removed=in_order(set(before.targets) - set(after.targets)),
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        rebuilt=tuple(name for name in both if old[name].sha256 != new[name].sha256),
        size_before=sum(entry.size for entry in before.files),
        size_after=sum(entry.size for entry in after.files),
        family=_other("family", before.family, after.family),
        platform=_other("platform", before.platform, after.platform),
    )
    return msgspec.structs.replace(found, summary=_sentence(found))


def _other(name: str, before: str, after: str) -> Moved | None:
    return Moved(name, before, after) if before != after else None


def _versions(files: Iterable[FileEntry]) -> dict[str, str]:
    found: dict[str, set[str]] = {}
    for entry in files:
        found.setdefault(entry.project, set()).add(entry.version)
    return {project: " ".join(sorted(versions)) for project, versions in found.items()}


def _moved(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Moved, ...]:
    names = sorted(before.keys() | after.keys())
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return tuple(Moved(name, old, new) for name, old, new in pairs if old != new)


def _sentence(found: SetDiff) -> str:
    if found.before == found.after:
        return "the same set"
    other = (one for one in (found.family, found.platform) if one is not None)
    parts = [f"{one.name} {one.before} became {one.after}" for one in other]
    moved = [one for one in found.projects if one.before is not None and one.after is not None]
    parts += _part("moved: ", _together(moved))
    parts += _part("new: ", _together([one for one in found.projects if one.before is None]))
    parts += _part("gone: ", _together([one for one in found.projects if one.after is None]))
    parts += _part("targets added: ", found.targets_added)
    parts += _part("targets gone: ", found.targets_removed)
    parts += _part("same names, other bytes: ", found.rebuilt)
    named = {one.name for one in found.projects}
    files = [name for name in (*found.added, *found.removed) if _project(name) not in named]
    parts += _part("other files: ", files)
    quiet = [f"{one.name} {_short(one.before)} to {_short(one.after)}" for one in found.sources]
    parts += _part("sources: ", quiet)
    return "; ".join(parts) or "the files are the same"


def _together(projects: Iterable[Moved]) -> list[str]:
    """Projects with the versions between which they moved; what moved together under its host's name.

    Packages for one GPU target each have the version of their host, which has the shortest name.
    """
    groups: dict[tuple[str | None, str | None], list[str]] = {}
    for one in projects:
        groups.setdefault((one.before, one.after), []).append(one.name)
    said = []
    for (old, new), names in groups.items():
        first, *others = sorted(names, key=lambda name: (len(name), name))
        who = f"{first} (and {len(others)} with it)" if len(others) > 1 else " and ".join((first, *others))
        said.append((first, f"{who} {' to '.join(version for version in (old, new) if version is not None)}"))
    return [words for _, words in sorted(said)]


def _project(name: str) -> str:
    return name.partition("-")[0].replace("_", "-").lower()


def _short(pin: str | None) -> str:
    """A commit as people write it; anything else as it is."""
    if pin is None:
        return "none"
    return pin[:10] if len(pin) == 40 and all(digit in "0123456789abcdef" for digit in pin) else pin


def _part(start: str, words: Iterable[str]) -> list[str]:
    named = list(words)
    more = len(named) - _NAMED
    text = ", ".join(named[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return [start + text] if named else []
