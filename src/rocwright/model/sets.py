"""Sets and statements: what was built, and what is found out about it later.

A set is an immutable, closed list of files whose name is the digest of its content. Results of checks and
tests are statements about its digest: they arrive hours later and must not change the set's id.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.findings import Waiver
from rocwright.model.variants import InvalidVariant, Variants

SET_SCHEMA = "rocwright.set/1"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
# All of an entry at once: sets have thousands of them.
_ENTRY = re.compile(rf"{_FILE_NAME.pattern} {_SHA256.pattern} (?:{_SHA256.pattern}|None)")


class FileEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One distribution file: a wheel or an sdist.

    `sha256` and `metadata_sha256` are lower-case hex, `size` is in bytes. `project` is the normalised name
    (PEP 503), `version` the normalised version (PEP 440), `requires_python` the specifier as METADATA
    spells it. `metadata_sha256` is the digest of the wheel's METADATA member, None for an sdist: the
    dependencies of an sdist may be computed while it is built, so no sidecar can speak for it.
    `depends` names the projects in its Requires-Dist lines, normalised and sorted: pages are published in
    their order. `variant` is what an index states of a wheel that is a variant.
    """

    name: str
    sha256: str
    size: int
    project: str
    version: str
    requires_python: str | None = None
    metadata_sha256: str | None = None
    depends: tuple[str, ...] = ()
    # Left out of the JSON where there is none: ids of sets without variants are what they were.
    variant: Variants | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        # What many files have in common is in memory once: an index holds millions of them.
        share = msgspec.structs.force_setattr
        share(self, "project", sys.intern(self.project))
        share(self, "version", sys.intern(self.version))
        if self.requires_python:
            share(self, "requires_python", sys.intern(self.requires_python))
        if self.depends:
            share(self, "depends", tuple(map(sys.intern, self.depends)))
        if self.size >= 0 and _ENTRY.fullmatch(f"{self.name} {self.sha256} {self.metadata_sha256}"):
            return
        # The name becomes part of a path and of a URL, so nothing that could leave a directory passes.
        if _FILE_NAME.fullmatch(self.name) is None:
            raise InvalidData(f"{self.name!r} is not a file name of a wheel or sdist")
        for digest in (self.sha256, self.metadata_sha256):
            if digest is not None and _SHA256.fullmatch(digest) is None:
                raise InvalidData(f"{digest!r} is not a sha256 in lower-case hex", where=self.name)
        if self.size < 0:
            raise InvalidData(f"size {self.size} is negative", where=self.name)


class SetManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A closed set: these files, for these GPU targets, from these sources.

    `files` are sorted by name, `targets` sorted; `sources` maps a source's name to its pin (a commit, a
    package version). Raises `InvalidData` when two files share a name or the order is not canonical.
    """

    family: str
    targets: tuple[str, ...]
    platform: str
    files: tuple[FileEntry, ...]
    sources: dict[str, str]
    schema: str = SET_SCHEMA

    def __post_init__(self) -> None:
        if self.schema != SET_SCHEMA:
            raise InvalidData(
                f"schema {self.schema!r} of a set manifest is unknown; this version reads {SET_SCHEMA!r}",
                next_step="use the version of rocwright that wrote it",
            )
        names = [entry.name for entry in self.files]
        if not names:
            raise InvalidData("a set needs at least one file")
        if names != sorted(names) or list(self.targets) != sorted(self.targets):
            raise InvalidData("files and targets of a set manifest must be sorted", next_step="use new_set()")
        twice = sorted({name for name, following in pairwise(names) if name == following})
        if twice:
            raise InvalidData(f"a set contains these file names twice: {', '.join(twice)}")


def new_set(
    *,
    family: str,
    targets: Iterable[str],
    platform: str,
    files: Iterable[FileEntry],
    sources: Mapping[str, str],
) -> SetManifest:
    """A manifest in canonical order; raises `InvalidData` for no files or a name that occurs twice."""
    return SetManifest(
        family=family,
        targets=tuple(sorted(set(targets))),
        platform=platform,
        files=tuple(sorted(files, key=lambda entry: entry.name)),
        sources=dict(sorted(sources.items())),
    )


def canonical_json(value: object) -> bytes:
    """JSON with sorted keys, no white space, UTF-8: the same value gives the same bytes everywhere."""
    return msgspec.json.encode(value, order="sorted")


def set_id(manifest: SetManifest) -> str:
    """The set's name: hex sha256 of its canonical JSON."""
    return hashlib.sha256(canonical_json(manifest)).hexdigest()


def parse_set(data: bytes, *, where: str) -> SetManifest:
    """Read a manifest; raises `InvalidData` naming the field that does not fit."""
    try:
        return msgspec.json.decode(data, type=SetManifest)
    except (msgspec.MsgspecError, InvalidVariant) as error:
        raise InvalidData(
            f"{where} is not a set manifest: {error}",
            where=where,
            next_step="give the manifest.json that lies in sets/ID/ of a store",
        ) from error


IN_TOTO = "https://in-toto.io/Statement/v1"

BUILD = "urn:rocwright:build:v1"
FINDINGS = "urn:rocwright:findings:v1"
WAIVER = "urn:rocwright:waiver:v1"
TEST = "urn:rocwright:test:v1"
# What tests of wheels showed and took, whatever set the wheels are in.
REPORT = "urn:rocwright:test-report:v1"
PROMOTION = "urn:rocwright:promotion:v1"
# Every file of the set is in the store; a bypass of tests that nothing can run.
RECEIPT = "urn:rocwright:receipt:v1"
BYPASS = "urn:rocwright:bypass:v1"
# A set was found on an index, and looked at as far as metadata goes: no check of its files.
ADOPTED = "urn:rocwright:adopted:v1"
# Somebody's command was run on the set, in search of the first bad one.
TRIAL = "urn:rocwright:trial:v1"
# A set was made of another one by giving its files another version.
REVERSION = "urn:rocwright:reversion:v1"
# Where attestations of its files are (PEP 740), which are checked by whoever is to believe them.
PROVENANCE = "urn:rocwright:provenance:v1"

# The subject that stands for the set itself; file names cannot contain a colon.
SET_SUBJECT = "rocwright:set"


class Subject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a statement is about: a name and its digests by algorithm."""

    name: str
    digest: dict[str, str]

    @property
    def sha256(self) -> str | None:
        """The hex sha256, None where another algorithm was used."""
        return self.digest.get("sha256")


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One fact about digests: type and content."""

    subject: tuple[Subject, ...]
    predicate_type: str
    predicate: dict[str, Any]
    type_: str = msgspec.field(name="_type", default=IN_TOTO)

    def __post_init__(self) -> None:
        if self.type_ != IN_TOTO:
            raise InvalidData(f"a statement of type {self.type_!r} cannot be read; expected {IN_TOTO}")

    def about(self, set_digest: str) -> bool:
        """Whether the set with this id is among the subjects."""
        return any(subject.sha256 == set_digest for subject in self.subject if subject.name == SET_SUBJECT)


def about_set(manifest: SetManifest, predicate_type: str, predicate: Mapping[str, Any]) -> Statement:
    """A statement about a set: its id and every file's digest are the subjects."""
    subjects = [Subject(SET_SUBJECT, {"sha256": set_id(manifest)})]
    subjects += [Subject(entry.name, {"sha256": entry.sha256}) for entry in manifest.files]
    return Statement(subject=tuple(subjects), predicate_type=predicate_type, predicate=dict(predicate))


def waiver_statement(manifest: SetManifest, waiver: Waiver) -> Statement:
    """The statement that lets a set pass in spite of a rule: rule, files, reason, last day."""
    return about_set(manifest, WAIVER, msgspec.to_builtins(waiver))


def waivers_about(set_digest: str, statements: Iterable[Statement]) -> tuple[Waiver, ...]:
    """The waivers that statements give this very set; raises `InvalidData` for one that cannot be read."""
    found = []
    for item in statements:
        if item.predicate_type != WAIVER or not item.about(set_digest):
            continue
        try:
            found.append(msgspec.convert(item.predicate, Waiver))
        except msgspec.ValidationError as error:
            raise InvalidData(f"a waiver statement does not fit its schema: {error}") from error
    return tuple(found)


def statement_id(statement: Statement) -> str:
    """Hex sha256 of the statement's canonical JSON."""
    return hashlib.sha256(canonical_json(statement)).hexdigest()


def parse_statement(data: bytes, *, where: str) -> Statement:
    """Read a statement; raises `InvalidData` naming the field that does not fit."""
    try:
        return msgspec.json.decode(data, type=Statement)
    except msgspec.MsgspecError as error:
        raise InvalidData(f"{where} is not a statement: {error}", where=where) from error
