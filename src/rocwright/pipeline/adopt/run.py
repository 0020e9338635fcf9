"""Adopt a set from an index, a flat page or a folder: found, judged by metadata, recorded; nothing is built.

Only pages and METADATA are read. What is recorded says so: a statement of its own kind, which no gate takes
for a check of the files. With `download` the files come into the store and are checked as any others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rocwright.check.report import Report
from rocwright.check.run import Asked
from rocwright.data import load_table
from rocwright.errors import ContractBroken, IntegrityError, RocwrightError
from rocwright.model.gpu import Families, base_targets, matching_family
from rocwright.model.manifest import FileEntry, SetManifest, new_set, set_id
from rocwright.model.statement import ADOPTED, FINDINGS, Statement, about_set
from rocwright.pipeline.adopt.find import Finder, Judged, judged
from rocwright.pipeline.adopt.judge import judge_metadata
from rocwright.pipeline.check_set import check_set, serve_files
from rocwright.store.adopt.fetch import Fetcher, Told
from rocwright.store.adopt.locations import Locations, recordable, save_locations
from rocwright.store.adopt.offered import Offered
from rocwright.store.adopt.pins import device_of
from rocwright.store.index.set_pages import publish_set_pages
from rocwright.store.layout import MULTI_ARCH, set_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool.describe import describe_files
from rocwright.store.sets.records import read_listed, save_set, save_statement
from rocwright.store.sets.stage import record_set
from rocwright.system.files import require_space
from rocwright.wheel.tags import platform_of

_LIBRARIES = "rocm-sdk-libraries-"


@dataclass(frozen=True)
class Adopted:
    """A set that was found; `report` is what metadata says of it, `checked` what its files say, if read.

    `recorded` says whether it is in the store now, `index_url` is where its own index is then.
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

    @property
    def set_id(self) -> str:
        """The set's id."""
        return set_id(self.manifest)


@dataclass(frozen=True)
class How:
    """What is done with a set that was found.

    `resolve` tries it with pip and uv, `download` fetches its files, checks them and puts them into the
    store; with `dry_run` nothing is written. `family` names it where its packages do not; `families` are
    targets by family, where there are more than the built-in ones.
    """

    resolve: bool = True
    download: bool = False
    dry_run: bool = False
    family: str | None = None
    families: Mapping[str, tuple[str, ...]] | None = None


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
    found = finder.newest()
    note(f"{found.name}: {len(found.files)} files")
    fetcher = finder.fetcher
    entries = fetcher.entries(found.files)
    known = fetcher.told(found.files)

    def told(one: Offered) -> Told | RocwrightError:
        return known[one.name]

    # Now with the METADATA of each file, not just of one for each version.
    serve = serve_files if how.resolve else None
    report = judge_metadata(found.files, told, finder.contract, serve=serve, note=note)
    found = judged(found.found, found.files, report)
    _require_whole(found, finder)
    families = load_table("families", Families).families if how.families is None else how.families
    manifest = _manifest(found, entries, how.family, families)
    here = how.download or finder.reading.web is None
    checked, statements = None, [_statement(manifest, found, finder)]
    paths: dict[str, Path] = {}
    if here:
        paths = _files(fetcher, found.files, entries, note)
        note(f"checking {len(paths)} files")
        checked = check_set(Asked(tuple(paths.values()), closed=True, contract=finder.contract))
        statements.append(about_set(manifest, FINDINGS, checked.predicate()))
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
    )


def _require_whole(found: Judged, finder: Finder) -> None:
    if not found.whole:
        raise ContractBroken(
            f"{found.name} is no whole set:\n" + "\n".join(f"  - {problem}" for problem in found.problems),
            where=finder.reading.name,
            next_step="take another set: --list-sets shows all",
        )


def _manifest(
    found: Judged, entries: Sequence[FileEntry], family: str | None, families: Mapping[str, tuple[str, ...]]
) -> SetManifest:
    """The set; the same from whatever kind of index, so it says nothing of where it was found."""
    targets = base_targets(target for one in found.files if (target := device_of(one.project)[1]))
    family = family or _family(found.files, targets, families)
    platforms = {platform_of(one.tags) for one in found.files} - {None}
    return new_set(
        family=family,
        targets=targets or families.get(family, ()),
        platform=str(platforms.pop()) if len(platforms) == 1 else "any",
        files=entries,
        sources={"rocm": found.found.label} if found.found.label else {},
    )


def _family(
    files: Iterable[Offered], targets: tuple[str, ...], families: Mapping[str, tuple[str, ...]]
) -> str:
    """By the targets of device packages, or by the name of the one package with libraries; else `none`."""
    spelled = {name.lower(): name for name in families}
    named = [one.project.removeprefix(_LIBRARIES) for one in files if one.project.startswith(_LIBRARIES)]
    if not targets:
        return spelled.get(named[0], named[0]) if len(set(named)) == 1 else "none"
    return matching_family(targets, families) or (targets[0] if len(targets) == 1 else MULTI_ARCH)


def _statement(manifest: SetManifest, found: Judged, finder: Finder) -> Statement:
    """What was looked at, and what came of it: no check of any content."""
    about = {
        "basis": "metadata",
        "from": finder.reading.name,
        "root": found.name,
        "notes": list(dict.fromkeys((*finder.reading.notes, *finder.fetcher.notes))),
    }
    return about_set(manifest, ADOPTED, {**about, **found.report.predicate()})


def _files(
    fetcher: Fetcher, files: Iterable[Offered], entries: Sequence[FileEntry], note: Callable[[str], None]
) -> dict[str, Path]:
    """The files themselves by name; each is what its entry says, METADATA included."""
    missing = sum(entry.size for entry in entries if entry.name not in fetcher.downloaded)
    if fetcher.web is not None:
        require_space(fetcher.scratch, missing, purpose="downloading the set")
    paths = fetcher.paths(files, note)
    for said, there in zip(entries, describe_files(paths.values()), strict=True):
        if said != there:
            raise IntegrityError(
                f"{said.name} has other metadata inside than its index says",
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
    if paths:
        record_set(store, manifest, paths, statements, now)
    else:
        beside = (name for name, told in known.items() if isinstance(told, Told) and told.beside)
        places = {one.name: recordable(one.link.url) for one in found.files}
        # Before the set: whoever finds it finds its files.
        save_locations(store, digest, Locations(places, tuple(sorted(places.keys() & beside))))
        save_set(store, manifest)
        for statement in statements:
            save_statement(store, digest, statement)
    publish_set_pages(store, read_listed(store, digest))
    return store.url(set_prefix(digest))
