"""Attestations of files (PEP 740): taken in when they hold, put where pages of indexes point, verified again.

An attestation is a Sigstore bundle about one file, made where it was built; nothing here signs. Whether one
holds, `pypi-attestations` decides, by the root of trust that it has. What it refuses is never published.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from rocwright.errors import IntegrityError, InvalidInput, MissingTool, UsageError, see_who_may_read
from rocwright.model.channels import Publisher
from rocwright.model.sets import (
    PROVENANCE,
    FileEntry,
    SetManifest,
    about_set,
    canonical_json,
    set_id,
)
from rocwright.store.layout import set_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import provenance, read_statements, save_statement

if TYPE_CHECKING:
    from pypi_attestations import Attestation

ENDINGS = (".attestation", ".sigstore.json", ".sigstore")
_FIND_OUT = "find out who changed it; attest the set again (rocwright set attest)"


class Attested(msgspec.Struct, frozen=True):
    """What `attest_set` wrote: keys by the file's name, and the statement's key; none where all was there."""

    provenance: Mapping[str, str]
    statement: str | None


def attest_set(
    store: ObjectStore,
    manifest: SetManifest,
    files: Iterable[Path],
    publishers: Sequence[Publisher],
    *,
    at: str,
    by: str = "",
    offline: bool = False,
) -> Attested:
    """Take in attestations of files of a recorded set; those that it has already stay.

    `files` are attestations as PEP 740 has them, Sigstore bundles, or folders with some. `offline` asks
    nobody for the root of trust. Raises `InvalidInput` for what is no attestation or about another file,
    `IntegrityError` for one that does not hold or is of none of the `publishers`, `UsageError` without any
    and for a store without a public address; then nothing is written.
    """
    if not publishers:
        raise UsageError(
            "no publisher is known, so no attestation can be judged",
            next_step="name the workflow in rocwright.toml: [[channels.publisher]], repository, workflow",
        )
    digest = set_id(manifest)
    base = _base(store, digest)
    entries = {entry.name: entry for entry in manifest.files}
    found: dict[str, list[tuple[Publisher, dict[str, Any]]]] = {}
    for path in _paths(files):
        one = _read(path)
        entry = _about(one, entries, path)
        publisher = _publisher(one, entry, publishers, path, offline=offline)
        found.setdefault(entry.name, []).append((publisher, one.model_dump(mode="json")))
    known = _own(store, digest)
    written: dict[str, str] = {}
    for name, attestations in found.items():
        before = json.loads(store.read(known[name])) if name in known else None
        data = _object(before, attestations)
        _require_holding(data, entries[name], where=name, offline=offline)
        key = _key(digest, name, data)
        if known.get(name) != key:
            store.put_bytes(key, data)
            written[name] = key
    statements = read_statements(store, digest, PROVENANCE)
    said_now = provenance(digest, statements)
    # Of other files only where the store has moved: somebody may be about to state more of these.
    files_now = {
        name: key for name, key in {**known, **written}.items() if said_now.get(name) != base + quote(key)
    }
    if not files_now:
        return Attested({}, None)
    told = {"files": files_now, "base": base, "number": len(statements) + 1, "at": at, "by": by}
    said = about_set(manifest, PROVENANCE, {name: value for name, value in told.items() if value})
    return Attested(written, save_statement(store, digest, said))


def verify_provenance(
    store: ObjectStore,
    manifest: SetManifest,
    publishers: Sequence[Publisher] = (),
    *,
    offline: bool = False,
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """Names of the files whose provenance in the store holds, and what is wrong, as key and text.

    Where `publishers` are given, each attestation has to be of one of them: anybody can have a workflow.
    Without `pypi-attestations` none holds, and only what is damaged is told.
    """
    digest = set_id(manifest)
    entries = {entry.name: entry for entry in manifest.files}
    held, wrong = [], []
    for name, key in _own(store, digest).items():
        data = read_there(store, key)
        if data is None:
            wrong.append((key, "it is missing"))
        elif name not in entries or key != _key(digest, name, data):
            wrong.append((key, "it was changed: its name has another digest"))
        else:
            try:
                _require_holding(data, entries[name], publishers, where=key, offline=offline)
                held.append(name)
            except IntegrityError as error:
                wrong.append((key, error.what))
            except MissingTool:
                continue
    return tuple(held), wrong


def attested(store: ObjectStore, set_digest: str) -> tuple[str, ...]:
    """Names of the files that have provenance in the store, not verified."""
    return tuple(_own(store, set_digest))


def _own(store: ObjectStore, set_digest: str) -> dict[str, str]:
    """Keys of provenance in the store by the file's name."""
    said = provenance(set_digest, read_statements(store, set_digest, PROVENANCE), whole=False)
    return {name: place for name, place in sorted(said.items()) if "://" not in place}


def _key(set_digest: str, name: str, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()[:32]
    return f"{set_prefix(set_digest)}_provenance/{digest}/{name}.provenance"


def _base(store: ObjectStore, set_digest: str) -> str:
    """Where clients find the root of the store; raises `UsageError` where it has no public address."""
    prefix = set_prefix(set_digest)
    url = store.url(prefix).removesuffix(prefix)
    if not url.startswith(("https://", "http://")):
        raise UsageError(
            "the store has no public address, and pages name provenance by its whole address (PEP 740)",
            next_step="say where people find it: ROCWRIGHT_PUBLIC_URL=https://…",
        )
    return url


def _paths(files: Iterable[Path]) -> Iterator[Path]:
    for path in files:
        if not path.is_dir():
            yield path
            continue
        within = sorted(one for one in path.iterdir() if one.name.endswith(ENDINGS))
        if not within:
            raise InvalidInput(
                f"{path} contains no attestations",
                where=path,
                next_step=f"give files, or a folder with some; they end with {', '.join(ENDINGS)}",
            )
        yield from within


def _read(path: Path) -> Attestation:
    """An attestation from a file, in its own form or as a Sigstore bundle."""
    library = _library()
    from pydantic import ValidationError
    from sigstore.errors import Error as SigstoreError
    from sigstore.models import Bundle

    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
    try:
        found: Attestation = (
            library.Attestation.from_bundle(Bundle.from_json(data))
            if b'"mediaType"' in data
            else library.Attestation.model_validate_json(data)
        )
    except (ValidationError, library.AttestationError, SigstoreError, ValueError) as error:
        raise InvalidInput(
            f"{path} is no attestation: {_first(error)}",
            where=path,
            next_step="give what `pypi-attestations sign` or a workflow wrote: NAME.publish.attestation",
        ) from error
    return found


def _about(one: Attestation, entries: Mapping[str, FileEntry], path: Path) -> FileEntry:
    """The file of the set that an attestation is about, by its name and digest."""
    subjects = one.statement.get("subject") if isinstance(one.statement, dict) else None
    match subjects:
        case [{"name": str(name), "digest": {"sha256": str(sha256)}}]:
            pass
        case _:
            raise InvalidInput(
                f"{path} is not about exactly one file", where=path, next_step="attest each file by itself"
            )
    entry = entries.get(name)
    if entry is None or entry.sha256 != sha256:
        what = "not in the set" if entry is None else "in the set with another sha256"
        raise InvalidInput(
            f"{path} is about {name}, which is {what}",
            where=path,
            next_step="give the attestations of the files that the set was created from",
        )
    return entry


def _publisher(
    one: Attestation, entry: FileEntry, publishers: Sequence[Publisher], path: Path, *, offline: bool
) -> Publisher:
    """The publisher whose attestation it is."""
    refusals = []
    for publisher in publishers:
        refusal = _refusal(one, entry, _described(publisher), offline=offline)
        if refusal is None:
            return publisher
        refusals.append(f"for {publisher.repository}, {publisher.workflow}: {refusal}")
    raise IntegrityError(
        f"{path} does not hold {'; '.join(refusals)}",
        where=path,
        next_step="have the workflow attest the files again, or name another one that you trust",
    )


def _refusal(
    one: Attestation, entry: FileEntry, publisher: Mapping[str, str], *, offline: bool
) -> str | None:
    """Why the library refuses an attestation; None where it does not."""
    library = _library()
    from pydantic import TypeAdapter
    from sigstore.errors import Error as SigstoreError

    who = TypeAdapter(library.Publisher).validate_python(publisher)
    try:
        with _quiet():
            one.verify(who, library.Distribution(name=entry.name, digest=entry.sha256), offline=offline)
    except (library.AttestationError, SigstoreError, ValueError) as error:
        return _first(error)
    return None


def _described(publisher: Publisher) -> dict[str, str]:
    """As PEP 740 has a publisher in provenance, in the library's words."""
    workflow = "workflow" if publisher.kind == "GitHub" else "workflow_filepath"
    told = {"kind": publisher.kind, "repository": publisher.repository, workflow: publisher.workflow}
    return {**told, **({"environment": publisher.environment} if publisher.environment else {})}


def _compared(described: Mapping[str, Any]) -> dict[str, Any]:
    """What of a publisher stands in certificates, too."""
    return {name: value for name, value in described.items() if name not in ("environment", "claims")}


def _object(before: Any, attestations: Iterable[tuple[Publisher, dict[str, Any]]]) -> bytes:
    """A provenance object: attestations by publisher, those of before first, each once."""
    bundles: list[dict[str, Any]] = [] if before is None else before["attestation_bundles"]
    for publisher, one in attestations:
        who = _described(publisher)
        bundle = next((it for it in bundles if it["publisher"] == who), None)
        if bundle is None:
            bundle = {"publisher": who, "attestations": []}
            bundles.append(bundle)
        if one not in bundle["attestations"]:
            bundle["attestations"].append(one)
    return canonical_json({"version": 1, "attestation_bundles": bundles})


def _require_holding(
    data: bytes, entry: FileEntry, publishers: Sequence[Publisher] = (), *, where: str, offline: bool
) -> None:
    """Raise `IntegrityError` unless the library takes provenance, and each attestation in it, of the file.

    Where `publishers` are given, of these and of no others.
    """
    library = _library()
    from pydantic import ValidationError

    try:
        found = library.Provenance.model_validate_json(data)
    except ValidationError as error:
        raise IntegrityError(
            f"{where} is no provenance: {_first(error)}", where=where, next_step=_FIND_OUT
        ) from error
    named = [_compared(_described(one)) for one in publishers]
    for bundle in found.attestation_bundles:
        who = bundle.publisher.model_dump(exclude_none=True)
        for one in bundle.attestations:
            refusal = _refusal(one, entry, who, offline=offline)
            if refusal is not None:
                raise IntegrityError(
                    f"{where}: an attestation of {entry.name} does not hold: {refusal}",
                    where=where,
                    next_step=_FIND_OUT,
                )
        if named and _compared(who) not in named:
            raise IntegrityError(
                f"{where}: an attestation of {entry.name} is of {who.get('repository')}, which with this "
                "workflow is none of the publishers under [[channels.publisher]]",
                where=where,
                next_step=_FIND_OUT,
            )


def _first(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:300]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's warning that it works offline, which was asked for."""
    import logging

    log = logging.getLogger("sigstore._internal.tuf")
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def _library() -> Any:
    try:
        import pypi_attestations
    except ImportError as error:
        raise MissingTool(
            "attestations need the package pypi-attestations", next_step="pip install 'rocwright[attest]'"
        ) from error
    return pypi_attestations
