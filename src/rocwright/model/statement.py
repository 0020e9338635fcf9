"""Statements: what was found out about a set, written once, in the shape of an in-toto statement.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md gives the field names. A statement
holds no time and no host of its own accord; where a date matters (a waiver's expiry) it is a field that
somebody set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.findings import Waiver
from rocwright.model.manifest import SetManifest, canonical_json, set_id

IN_TOTO = "https://in-toto.io/Statement/v1"

BUILD = "urn:rocwright:build:v1"
FINDINGS = "urn:rocwright:findings:v1"
WAIVER = "urn:rocwright:waiver:v1"
TEST = "urn:rocwright:test:v1"
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
        raise InvalidData(f"{where} is no statement: {error}", where=where) from error
