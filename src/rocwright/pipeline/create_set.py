"""A set from files that people have: described, checked, recorded, and listed where that is asked for.

What a check found, and what may pass in spite of it, is stated about the set that was checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from rocwright.check.report import Report
from rocwright.check.run import expand
from rocwright.data import load_table
from rocwright.errors import ContractBroken, InvalidInput, UsageError
from rocwright.model.findings import Waiver
from rocwright.model.gpu import Families, base_targets, is_target, matching_family
from rocwright.model.sets import (
    BUILD,
    FINDINGS,
    FileEntry,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
    waiver_statement,
)
from rocwright.store.index.stated import require_agreement
from rocwright.store.layout import file_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool import describe_files, read_metadata, wanted_objects
from rocwright.store.sets.records import read_set, recorded_sets, save_set, save_statement
from rocwright.store.sets.stage import record_set
from rocwright.store.statements import verdict_on
from rocwright.wheel.tags import parse_wheel_name, platform_of


class About(msgspec.Struct, frozen=True):
    """What is told of a set that its files do not tell; None where they do.

    `families` are targets by family, where there are more than the built-in families.
    """

    family: str | None = None
    targets: tuple[str, ...] | None = None
    platform: str | None = None
    sources: Mapping[str, str] | None = None
    families: Mapping[str, tuple[str, ...]] | None = None


class Given(msgspec.Struct, frozen=True):
    """The files of a set to be: as the set lists them, and where each lies, by its name."""

    entries: tuple[FileEntry, ...]
    paths: Mapping[str, Path]


class Planned(msgspec.Struct, frozen=True):
    """A checked set that is not recorded yet; `problem` says why it may not be."""

    manifest: SetManifest
    files: Mapping[str, Path]
    report: Report
    statements: tuple[Statement, ...]
    problem: str | None

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against recording it."""
        return self.problem is None

    def require_passed(self) -> None:
        """Raise `ContractBroken` when it may not be recorded."""
        if self.problem is not None:
            raise ContractBroken(self.problem, next_step="resolve the findings, then create the set again")

    @property
    def set_id(self) -> str:
        """The id that the set will have."""
        return set_id(self.manifest)


class NeededObject(msgspec.Struct, frozen=True):
    """An object that a set needs in the store, its size in bytes, and whether it is there."""

    key: str
    size: int
    present: bool


def given_files(paths: Iterable[Path]) -> Given:
    """Describe the wheels and sdists among these files and directly in these directories.

    Raises `InvalidInput` when there are none, `InvalidWheel` for such that cannot be described.
    """
    files = expand(paths)[0]
    entries = describe_files(files)
    if not entries:
        raise InvalidInput(
            "no wheels or sdists to make a set of", next_step="give files, or directories that contain them"
        )
    return Given(tuple(entries), {path.name: path for path in files})


def plan_set(given: Given, report: Report, about: About, waivers: Sequence[Waiver], now: datetime) -> Planned:
    """The set of these files, which `report` looked at, with what is to be told of it; nothing is written."""
    manifest = described_set(given.entries, report, about)
    require_agreement(manifest)
    statements = (
        about_set(manifest, FINDINGS, report.predicate()),
        about_set(manifest, BUILD, {"result": "success"}),
        *(waiver_statement(manifest, waiver) for waiver in waivers),
    )
    problem = verdict_on(manifest, statements, now.date()).problem
    return Planned(manifest, given.paths, report, statements, problem)


def parse_sources(texts: Iterable[str]) -> dict[str, str]:
    """Sources from `NAME=COMMIT`; raises `UsageError` for other text or a name given twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, pin = text.partition("=")
        if not name or not pin or name in found:
            raise UsageError(
                f"--source {text} {'gives a name twice' if name in found else 'is not NAME=COMMIT'}",
                next_step="write it like torch=1a2b3c4d",
            )
        found[name] = pin
    return found


def described_set(entries: Sequence[FileEntry], report: Report, about: About | None = None) -> SetManifest:
    """The manifest of these files; what is not given follows from them.

    Without targets those that the files hold code for, without a family that of these targets, without a
    platform that of the wheels' tags, `any` where they have none or several.
    """
    about = about or About()
    found = (target for looked in report.looked for target in looked.targets if is_target(target))
    stated = about.targets if about.targets is not None else report.targets
    targets = base_targets(found) if stated is None else tuple(stated)
    families = load_table("families", Families).families if about.families is None else about.families
    family = about.family or matching_family(base_targets(targets), families)
    tags = (parse_wheel_name(entry.name)[3] for entry in entries if entry.name.endswith(".whl"))
    platforms = list(filter(None, {platform_of(map(str, of)) for of in tags}))
    return new_set(
        family=family or "-".join(base_targets(targets)) or "none",
        targets=targets,
        platform=about.platform or (platforms[0] if len(platforms) == 1 else "any"),
        files=entries,
        sources=about.sources or {},
    )


def wanted_by(store: ObjectStore, planned: Planned) -> tuple[NeededObject, ...]:
    """Every object of the set's files, and whether the store has it; for `--dry-run`."""
    found = []
    for entry in planned.manifest.files:
        for key in wanted_objects(entry):
            whole = key == file_key(entry.sha256, entry.name)
            size = entry.size if whole else len(read_metadata(planned.files[entry.name]))
            found.append(NeededObject(key, size, store.exists(key)))
    return tuple(found)


def create_set(
    store: ObjectStore,
    planned: Planned,
    now: datetime,
) -> None:
    """Put the files into the store and record the set with its statements and its own pages.

    Again after an interruption completes it; files that are there are not sent again.
    """
    planned.require_passed()
    record_set(store, planned.manifest, planned.files, planned.statements, now)


# -- a check as statements about its set


class Stated(msgspec.Struct, frozen=True):
    """Ids of the sets that statements were written about, and the statements' keys below the folder."""

    sets: tuple[str, ...]
    statements: tuple[str, ...]


def state_check(folder: Path, paths: Iterable[Path], report: Report, waivers: Sequence[Waiver]) -> Stated:
    """Write the findings and each waiver as statements below `folder`, in the layout of a store.

    They are about every set recorded there that has exactly these files; without such a set, it is recorded
    with them: `sets/<id>/manifest.json`. Raises `InvalidInput` and `InvalidWheel` for files that cannot be
    described: about these nothing can be stated.
    """
    entries = describe_files(expand(paths)[0])
    store = LocalStore(folder)
    manifests = _recorded(store, entries) or [described_set(entries, report)]
    statements = []
    for manifest in manifests:
        save_set(store, manifest)
        said = [about_set(manifest, FINDINGS, report.predicate())]
        said += [waiver_statement(manifest, waiver) for waiver in waivers]
        statements += [save_statement(store, set_id(manifest), one) for one in said]
    return Stated(tuple(map(set_id, manifests)), tuple(statements))


def _recorded(store: LocalStore, entries: Sequence[FileEntry]) -> list[SetManifest]:
    """Sets in the store that are made of exactly these files."""
    wanted = {(entry.name, entry.sha256) for entry in entries}
    manifests = [read_set(store, digest) for digest in recorded_sets(store)]
    return [one for one in manifests if {(entry.name, entry.sha256) for entry in one.files} == wanted]
