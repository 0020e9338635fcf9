"""A set that came out of another one by giving its files another version: what is said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.manifest import FileEntry, SetManifest, new_set, set_id
from rocwright.model.statement import (
    BUILD,
    REVERSION,
    Statement,
    about_set,
    waiver_statement,
    waivers_about,
)
from rocwright.store.layout import file_key
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.download import download
from rocwright.store.sets.records import located


class Renamed(msgspec.Struct, frozen=True):
    """A file before and after: names and hex sha256."""

    old_name: str
    old_sha256: str
    new_name: str
    new_sha256: str


def fetch_set(store: ObjectStore, manifest: SetManifest, folder: Path) -> list[Path]:
    """Download the files of a recorded set, each compared with its digest.

    Raises `InvalidInput` where files lie outside of the store, `IntegrityError` for other bytes.
    """
    elsewhere = sorted(located(store, set_id(manifest)))
    if elsewhere:
        raise InvalidInput(
            f"{len(elsewhere)} files of set {set_id(manifest)[:12]} are not in the store: {elsewhere[0]}, …",
            next_step="adopt the set with its files: rocwright set create --from-index URL --download",
        )
    paths = []
    for entry in manifest.files:
        path = folder / entry.name
        download(store, file_key(entry.sha256, entry.name), path, entry.sha256)
        paths.append(path)
    return paths


def reversioned(
    manifest: SetManifest, files: Iterable[FileEntry], *, old_rocm: str, new_rocm: str
) -> SetManifest:
    """The manifest of the new set: for the same targets, from the same sources; ROCm's version among them."""
    sources = {name: new_rocm if pin == old_rocm else pin for name, pin in manifest.sources.items()}
    return new_set(
        family=manifest.family,
        targets=manifest.targets,
        platform=manifest.platform,
        files=files,
        sources=sources,
    )


def inherited(
    manifest: SetManifest,
    made: SetManifest,
    statements: Iterable[Statement],
    names: Mapping[str, str],
    *,
    old_rocm: str,
    new_rocm: str,
) -> list[Statement]:
    """What is said of the new set: what it was made of, how that was built, what may pass in it as before.

    `names` are new file names by old one. Verdicts of tests are not taken over: the bytes are others.
    """
    said = tuple(statements)
    digest = set_id(manifest)
    after = {entry.name: entry for entry in made.files}
    files = [
        Renamed(entry.name, entry.sha256, names[entry.name], after[names[entry.name]].sha256)
        for entry in manifest.files
    ]
    predicate = {"from": digest, "old": old_rocm, "new": new_rocm, "files": msgspec.to_builtins(files)}
    built = [item for item in said if item.predicate_type == BUILD and item.about(digest)]
    return [
        about_set(made, REVERSION, predicate),
        *(about_set(made, BUILD, item.predicate) for item in built),
        *(waiver_statement(made, waiver) for waiver in waivers_about(digest, said)),
    ]
