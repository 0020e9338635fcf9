"""What a check found, and what may pass in spite of it, as statements about the set that was checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.check.report import Report
from rocwright.check.run import expand
from rocwright.model.findings import Waiver
from rocwright.model.manifest import FileEntry, SetManifest, set_id
from rocwright.model.statement import FINDINGS, about_set, waiver_statement
from rocwright.pipeline.create_set import described_set
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.sets.records import read_set, recorded_sets, save_set, save_statement


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
