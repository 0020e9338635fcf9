"""What a check found, and what may pass in spite of it, as statements about the set that was checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import parse_wheel_filename

from rocwright.check.report import Report
from rocwright.check.run import expand
from rocwright.data import load_table
from rocwright.model.findings import Waiver
from rocwright.model.gpu import Families, base_targets, is_target, matching_family
from rocwright.model.manifest import FileEntry, SetManifest, new_set, set_id
from rocwright.model.statement import FINDINGS, about_set, waiver_statement
from rocwright.store.describe import describe_files
from rocwright.store.objects import LocalStore
from rocwright.store.records import read_set, save_set, save_statement
from rocwright.wheel.tags import platform_of

_SETS = "sets/"
_MANIFEST = "/manifest.json"


@dataclass(frozen=True)
class Stated:
    """Ids of the sets that statements were written about, and the statements' keys below the folder."""

    sets: tuple[str, ...]
    statements: tuple[str, ...]


def state_check(folder: Path, paths: Iterable[Path], report: Report, waivers: Sequence[Waiver]) -> Stated:
    """Write the findings and each waiver as statements below `folder`, in the layout of a store.

    They are about every set recorded there that has exactly these files; without one, a set is recorded with
    them: `sets/<id>/manifest.json`. Raises `InvalidInput` and `InvalidWheel` for files that cannot be
    described: about these nothing can be stated.
    """
    entries = describe_files(expand(paths)[0])
    store = LocalStore(folder)
    manifests = _recorded(store, entries) or [_new(entries, report)]
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
    keys = [key for key in store.list(_SETS) if key.endswith(_MANIFEST)]
    manifests = [read_set(store, key.removeprefix(_SETS).removesuffix(_MANIFEST)) for key in keys]
    return [one for one in manifests if {(entry.name, entry.sha256) for entry in one.files} == wanted]


def _new(entries: Sequence[FileEntry], report: Report) -> SetManifest:
    """A set of its own; its sources are not known, its family only where its targets tell."""
    found = (target for looked in report.looked for target in looked.targets if is_target(target))
    targets = base_targets(report.targets if report.targets is not None else found)
    family = matching_family(targets, load_table("families", Families).families)
    tags = (parse_wheel_filename(entry.name)[3] for entry in entries if entry.name.endswith(".whl"))
    platforms = list(filter(None, {platform_of(map(str, of)) for of in tags}))
    return new_set(
        family=family or "-".join(targets) or "none",
        targets=targets,
        platform=platforms[0] if len(platforms) == 1 else "any",
        files=entries,
        sources={},
    )
