"""Adopt a set from an index, a flat page or a folder: found, judged by metadata, recorded; nothing is built.

Where pages and METADATA are all that was read, what is recorded says so: a statement of its own kind, which
no gate takes for a check of the files. Files that were fetched come into the store. Where that is all of them
they are checked as any others, under the contract's policy for wheels that others built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from rocwright.check.report import Report
from rocwright.check.run import CheckRequest
from rocwright.data import load_table
from rocwright.errors import ContractBroken, IntegrityError, RocwrightError
from rocwright.model.gpu import Families, base_targets, is_target
from rocwright.model.sets import (
    ADOPTED,
    BUILD,
    FINDINGS,
    PROVENANCE,
    FileEntry,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
)
from rocwright.pipeline.check_set import check_set, judge_metadata, serve_files
from rocwright.pipeline.find_sets import (
    Finder,
    Judged,
    family_of,
    judged,
    named_targets,
    offered_targets,
    require_targets,
)
from rocwright.store.adopt.fetch import Fetcher, Told
from rocwright.store.adopt.offered import Offered, SetChoice
from rocwright.store.index.set_pages import publish_set_pages
from rocwright.store.index.stated import require_agreement
from rocwright.store.layout import set_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool import describe_files, put_pooled
from rocwright.store.sets.records import (
    Locations,
    read_listed,
    recordable,
    save_locations,
    save_set,
    save_statement,
)
from rocwright.store.sets.stage import record_set
from rocwright.system.files import require_space
from rocwright.wheel.tags import platform_of


class Adopted(msgspec.Struct, frozen=True):
    """A set that was found; `report` is what metadata says of it, `checked` what its files say, if read.

    `recorded` says whether it is in the store now, `index_url` is where its own index is then. `missing` are
    files of it that the index offers and that cannot be had, with why. `asked` are the options that find it
    again.
    """

    manifest: SetManifest
    report: Report
    checked: Report | None
    recorded: bool
    index_url: str | None
    notes: tuple[str, ...]
    requests: int
    received: int
    downloaded: tuple[str, ...]
    missing: Mapping[str, str]
    asked: tuple[str, ...]

    @property
    def set_id(self) -> str:
        """The set's id."""
        return set_id(self.manifest)


class How(msgspec.Struct, frozen=True):
    """What is done with a set that was found.

    `resolve` tries it with pip and uv, `download` fetches its files, checks them and puts them into the
    store: True for all, False for none, None where they have to be fetched anyway. With `dry_run` nothing is
    written. `family` names it where its packages do not; `families` are targets by family, where there are
    more than the built-in families. `asked` are the options that name the place. With `install`, a set whose
    files are here is installed as a whole.
    """

    resolve: bool = True
    download: bool | None = None
    asked: tuple[str, ...] = ()
    dry_run: bool = False
    family: str | None = None
    families: Mapping[str, tuple[str, ...]] | None = None
    install: bool = False


def adopt(
    store: ObjectStore,
    finder: Finder,
    how: How,
    now: datetime,
    *,
    note: Callable[[str], None] = lambda _: None,
) -> Adopted:
    """Find the set that is asked for, look at it, and record it.

    Raises `ContractBroken` naming what does not fit when it is mixed, when pip or uv do not resolve it;
    `IntegrityError` when a file is not what the index says; nothing is recorded in these cases.
    """
    fetcher = finder.fetcher
    families = load_table("families", Families).families if how.families is None else how.families
    found, entries, paths = _gathered(finder, how, families, note)
    known = fetcher.told(found.files)

    def told(one: Offered) -> Told | RocwrightError:
        return known[one.name]

    # Now with the METADATA of each file, not just of one for each version.
    serve = serve_files if how.resolve else None
    report = judge_metadata(found.files, told, finder.contract, wanted=finder.wanted, serve=serve, note=note)
    missing = finder.missing(found.found)
    found = judged(found.found, found.files, report, missing)
    _require_whole(found, finder)
    checked, targets = None, named_targets(found.files, families)
    if len(paths) == len(entries):
        note(f"checking {len(paths)} files")
        checked = _checked(paths.values(), finder, how, note)
        targets = targets or base_targets(
            one for file in checked.looked for one in file.targets if is_target(one)
        )
    require_targets(finder.wanted.targets, targets, found)
    manifest = _manifest(found, entries, how.family, finder.wanted.targets or targets, families)
    require_agreement(manifest)
    asked = _asked(found, finder.wanted, how)
    # Where files are on this machine is nobody else's business; they are in the store then.
    told_again = asked if finder.reading.web is not None else ()
    statements = [_statement(manifest, found, finder, missing, told_again)]
    if checked is not None:
        statements.append(about_set(manifest, FINDINGS, checked.predicate()))
        # Whoever published these files built them.
        statements.append(about_set(manifest, BUILD, {"result": "success"}))
    attested = {one.name: recordable(one.link.provenance) for one in found.files if one.link.provenance}
    if attested:
        # No number: what is attested to this store itself goes before it.
        statements.append(about_set(manifest, PROVENANCE, {"files": attested}))
    index_url = None
    if not how.dry_run:
        index_url = _record(store, manifest, found, known, paths, statements, now)
    web = finder.reading.web
    return Adopted(
        manifest,
        report,
        checked,
        not how.dry_run,
        index_url,
        tuple(dict.fromkeys((*finder.reading.notes, *fetcher.notes))),
        0 if web is None else web.requests,
        0 if web is None else web.received,
        tuple(sorted(fetcher.downloaded)),
        missing,
        asked,
    )


def _gathered(
    finder: Finder, how: How, families: Mapping[str, tuple[str, ...]], note: Callable[[str], None]
) -> tuple[Judged, tuple[FileEntry, ...], dict[str, Path]]:
    """The set that is asked for, its entries, and those of its files that are here, each fetched once.

    A file that cannot be had is as good as not offered: without it the set may be another, or none.
    """
    fetcher = finder.fetcher
    lost: list[Offered] = []
    while True:
        found = finder.newest(lost)
        note(f"{found.name}: {len(found.files)} files")
        named = offered_targets(found, finder.reading.catalogue, families)
        if named:
            require_targets(finder.wanted.targets, named, found)
        # Where names tell no targets, the files do.
        blind = bool(finder.wanted.targets) and not named
        fetcher.bringing = how.download is True or (blind and how.download is None)
        unknown = [
            one for one in found.files if one.link.sha256 is None and one.name not in fetcher.downloaded
        ]
        if fetcher.web is not None and unknown and fetcher.whole:
            note(f"fetching {len(unknown)} files: the index gives no sha256 for them")
        entries = fetcher.entries(found.files)
        there = [one for one in found.files if one.name not in fetcher.gone]
        here = fetcher.bringing or fetcher.web is None
        wanted = [one for one in there if here or one.name in fetcher.downloaded]
        paths = _files(fetcher, wanted, entries, note)
        lost = [one for one in found.files if one.name in fetcher.gone]
        if not lost:
            return found, entries, paths


def _checked(paths: Iterable[Path], finder: Finder, how: How, note: Callable[[str], None]) -> Report:
    """What the contract's policy for wheels that others built finds in the files of a whole set."""
    targets = finder.wanted.targets or None
    asked = CheckRequest(tuple(paths), targets=targets, closed=True, contract=finder.contract, adopted=True)
    return check_set(asked, install=how.install, note=note if how.install else lambda _: None)


def _asked(found: Judged, wanted: SetChoice, how: How) -> tuple[str, ...]:
    """The options of `rocwright set create` that find just this set again."""
    words = [*how.asked, "--project", found.found.root[0], "--version", found.found.root[1]]
    for python in wanted.pythons:
        words += ["--python", python]
    if wanted.targets:
        words += ["--target", ",".join(wanted.targets)]
    if wanted.platform != "linux":
        words += ["--platform", wanted.platform]
    return (*words, *(("--family", how.family) if how.family else ()))


def _require_whole(found: Judged, finder: Finder) -> None:
    if not found.whole:
        raise ContractBroken(
            f"{found.name} is not a complete set:\n"
            + "\n".join(f"  - {problem}" for problem in found.problems),
            where=finder.reading.name,
            next_step="take another set: --list-sets shows all",
        )


def _manifest(
    found: Judged,
    entries: Sequence[FileEntry],
    family: str | None,
    targets: tuple[str, ...],
    families: Mapping[str, tuple[str, ...]],
) -> SetManifest:
    """The set; the same from whatever kind of index, so it says nothing of where it was found."""
    platforms = {platform_of(one.tags) for one in found.files} - {None}
    return new_set(
        family=family or family_of(found.files, targets, families),
        targets=targets or families.get(family or "", ()),
        platform=str(platforms.pop()) if len(platforms) == 1 else "any",
        files=entries,
        sources={"rocm": found.found.label} if found.found.label else {},
    )


def _statement(
    manifest: SetManifest, found: Judged, finder: Finder, missing: Mapping[str, str], asked: Sequence[str]
) -> Statement:
    """What was looked at, and what came of it: no check of any content."""
    about = {
        "basis": "metadata",
        "from": finder.reading.name,
        "root": found.name,
        "asked": list(asked),
        "missing": dict(missing),
        "notes": list(dict.fromkeys((*finder.reading.notes, *finder.fetcher.notes))),
    }
    return about_set(manifest, ADOPTED, {**about, **found.report.predicate()})


def _files(
    fetcher: Fetcher, files: Iterable[Offered], entries: Sequence[FileEntry], note: Callable[[str], None]
) -> dict[str, Path]:
    """The files themselves by name, as far as they can be had; each is what its entry says."""
    by_name = {entry.name: entry for entry in entries}
    wanted = [one for one in files if one.name in by_name]
    missing = sum(by_name[one.name].size for one in wanted if one.name not in fetcher.downloaded)
    if fetcher.web is not None:
        require_space(fetcher.scratch, missing, purpose="downloading the set")
    paths = fetcher.paths(wanted, note)
    for there in describe_files(paths.values()):
        said = by_name[there.name]
        if said != there:
            raise IntegrityError(
                f"{said.name} contains other metadata than its index gives",
                where=said.name,
                next_step="tell whoever runs the index: what installers resolve there is not what they get",
            )
    return paths


def _record(
    store: ObjectStore,
    manifest: SetManifest,
    found: Judged,
    known: Mapping[str, Told | RocwrightError],
    paths: Mapping[str, Path],
    statements: Sequence[Statement],
    now: datetime,
) -> str:
    """Write the set and its own index; returns the address of that."""
    digest = set_id(manifest)
    if len(paths) == len(manifest.files):
        record_set(store, manifest, paths, statements, now)
    else:
        beside = (name for name, told in known.items() if isinstance(told, Told) and told.beside)
        places = {one.name: recordable(one.link.url) for one in found.files}
        # Before the set: whoever finds it finds its files.
        save_locations(store, digest, Locations(places, tuple(sorted(places.keys() & beside))))
        save_set(store, manifest)
        # What came whole all the same need not come again.
        for entry in manifest.files:
            if entry.name in paths:
                put_pooled(store, paths[entry.name], entry)
        for statement in statements:
            save_statement(store, digest, statement)
    publish_set_pages(store, read_listed(store, digest))
    return store.url(set_prefix(digest))
