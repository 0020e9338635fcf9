"""Signatures as objects: what is signed for which object, where that lies, and whose it is.

A signature of one key is one object, `_signatures/<name>.<key id>.json` beside the folder of what it signs;
that of a manifest is `_signatures/<key id>.json`. What is signed stands in it whole. An event's says
in which channel the event stands, under which number, and behind which other event: nobody can use it in
another place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rocwright.errors import IntegrityError, InvalidData
from rocwright.model.sets import BYPASS, PROMOTION, WAIVER, canonical_json, parse_statement
from rocwright.model.trusted import Role, Trusted
from rocwright.store.layout import LOG
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.trust.keys import SigningKey, holders, key_id, read_envelope, signed_envelope

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope

SET_TYPE = "application/vnd.rocwright.set+json"
STATEMENT_TYPE = "application/vnd.in-toto+json"
EVENT_TYPE = "application/vnd.rocwright.channel-event+json"
MARK_TYPE = "application/vnd.rocwright.channel-mark+json"
PLACE_SCHEMA = "rocwright.signed-place/1"
SIGNATURES = "_signatures/"
STATEMENTS = "_statements/"
_EVENT = re.compile(r"(?P<number>\d{8})-[0-9a-f]{16}\.json")
# Statements that somebody answers for; all others say what was found out.
_RELEASE = (WAIVER, BYPASS, PROMOTION)


class SignedPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is signed for an object of a log: which bytes, in which channel, behind what.

    `name` is that of the object, `sha256` of its bytes, `before` that of what is signed for the event before
    it (empty for the first). `said` are the bytes as text, for people and for a lost object.
    """

    prefix: str
    name: str
    sha256: str
    before: str
    said: str
    schema: str = PLACE_SCHEMA


class Forged(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """An object that is whole, and counts for nothing: it is not signed as it has to be."""

    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}"


def signature_key(key: str, public: str) -> str:
    """Where the signature of an object lies, with this key."""
    folder, _, name = key.rpartition("/")
    stem = name.removesuffix(".json")
    if f"{folder.rpartition('/')[2]}/" in (LOG, STATEMENTS):
        return f"{folder.rpartition('/')[0]}/{SIGNATURES}{stem}.{key_id(public)}.json"
    return f"{folder}/{SIGNATURES}{key_id(public)}.json"


def save_signature(store: ObjectStore, key: str, kind: str, body: bytes, signer: SigningKey) -> str:
    """Sign what stands, or will stand, under a key; returns the signature's own key."""
    where = signature_key(key, signer.public)
    data = signed_envelope(kind, body, (signer,))
    # A forger may have put anything there, so that nothing else could be.
    if read_there(store, where) != data:
        store.put_bytes(where, data, overwrite=True)
    return where


class Seals:
    """The signatures of a store, each read and verified once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._read: dict[str, Envelope | None] = {}
        self._holds: dict[str, bool] = {}

    def forget(self, key: str) -> None:
        """Read this signature again when it is asked for."""
        self._read.pop(key, None)
        self._holds.pop(key, None)

    def bodies(self, key: str, kind: str, keys: Iterable[str]) -> dict[bytes, frozenset[str]]:
        """What the holders of these keys signed for the object under `key`, and who of them did."""
        found: dict[bytes, frozenset[str]] = {}
        for public in dict.fromkeys(keys):
            where = signature_key(key, public)
            envelope = self._envelope(where)
            if envelope is None or envelope.payload_type != kind:
                continue
            # One place, one key.
            if where not in self._holds:
                self._holds[where] = bool(holders(envelope, (public,)))
            if self._holds[where]:
                found[envelope.payload] = found.get(envelope.payload, frozenset()) | {public}
        return found

    def _envelope(self, where: str) -> Envelope | None:
        if self._read.get(where) is None:
            data = read_there(self._store, where)
            try:
                self._read[where] = None if data is None else read_envelope(data, where=where)
            except IntegrityError:
                self._read[where] = None
        return self._read[where]


def why_not(count: int, needed: int, role: str, others: int = 0) -> str:
    """Why an object with so many signatures counts for nothing."""
    if count:
        return f"{count} of the {needed} signatures of {role} that it needs"
    if others:
        return f"it is signed for something else, or with a key that is not trusted with {role}"
    return f"it is not signed with a key that is trusted with {role}"


# -- statements


def role_of(predicate_type: str) -> Role:
    """Who has to sign a statement of this type."""
    return "release" if predicate_type in _RELEASE else "evidence"


def statement_refused(seals: Seals, key: str, data: bytes, set_digest: str, trusted: Trusted) -> str | None:
    """Why a statement counts for nothing; None where it counts."""
    roles: tuple[Role, ...] = ("release", "evidence")
    signed = {role: seals.bodies(key, STATEMENT_TYPE, trusted.keys(role)) for role in roles}
    for role, bodies in signed.items():
        for body, who in bodies.items():
            if body != data and len(who) >= trusted.threshold(role) and _named(key, body):
                # It is signed, and damaged: whoever reads it is told.
                return None
    try:
        said = parse_statement(data, where=key)
    except InvalidData:
        return "it is no statement, and nobody signed it"
    if not said.about(set_digest):
        return "it is about something else"
    role = role_of(said.predicate_type)
    count = len(signed[role].get(data, ()))
    if count >= trusted.threshold(role):
        return None
    return why_not(count, trusted.threshold(role), role, sum(map(len, signed.values())))


def promotes_elsewhere(data: bytes, channel: str) -> bool:
    """Whether this is the statement of a promotion to another channel, which has keys of its own or none."""
    try:
        said = parse_statement(data, where="")
    except InvalidData:
        return False
    return said.predicate_type == PROMOTION and said.predicate.get("to") != channel


def _named(key: str, body: bytes) -> bool:
    return key.endswith(f"-{hashlib.sha256(body).hexdigest()[:32]}.json")


# -- logs


class Sealed(NamedTuple):
    """The objects of a log that count: `names` with the sha256 of each; others are `refused`, with why.

    `behind` are the digests of what is signed for events that count, with their numbers; `places` what is
    signed at all, and by whom.
    """

    names: Mapping[str, str]
    refused: Mapping[str, str]
    behind: Mapping[str, int]
    places: Mapping[str, tuple[SignedPlace, frozenset[str]]]


def sealed_log(seals: Seals, prefix: str, names: Sequence[str], trusted: Trusted) -> Sealed:
    """Which of the objects in the log at `prefix` count, by their names, and why others do not.

    An event counts when enough keys signed it for this place, behind an event that counts and has a lower
    number. Nothing that a forger adds or removes makes another event count.
    """
    keys, needed = trusted.keys("release"), trusted.threshold("release")
    found: dict[str, str] = {}
    refused: dict[str, str] = {}
    places: dict[str, tuple[SignedPlace, frozenset[str]]] = {}
    # What is signed for the events that count, and their numbers.
    behind = {"": 0}
    for name in names:
        match = _EVENT.fullmatch(name)
        kind = MARK_TYPE if match is None else EVENT_TYPE
        best, others = frozenset[str](), 0
        number = 0 if match is None else int(match["number"])
        for body, who in seals.bodies(f"{prefix}{LOG}{name}", kind, keys).items():
            place = _place(body)
            if (
                place is None
                or (place.prefix, place.name) != (prefix, name)
                or (match is not None and behind.get(place.before, number) >= number)
            ):
                others += 1
            elif len(who) > len(best):
                best = who
                places[name] = (place, who)
        if len(best) < needed:
            refused[name] = why_not(len(best), needed, "release", others)
            continue
        place = places[name][0]
        found[name] = place.sha256
        if match is not None:
            behind[digest_of(place)] = number
    return Sealed(found, refused, behind, places)


def last_before(behind: Mapping[str, int], name: str) -> str:
    """The digest of the last event with a lower number than that of an event; two may have the same."""
    number = int(name[:8])
    lower = [(at, digest) for digest, at in behind.items() if at < number]
    return max(lower)[1] if lower else ""


def digest_of(place: SignedPlace) -> str:
    """The digest of what is signed for an event, by which the next one names it."""
    return hashlib.sha256(canonical_json(place)).hexdigest()


def place_of(prefix: str, name: str, data: bytes, before: str) -> SignedPlace:
    """What is to be signed for an object of a log."""
    return SignedPlace(
        prefix, name, hashlib.sha256(data).hexdigest(), before, data.decode("utf-8", "replace")
    )


def kind_of(name: str) -> str:
    """The payload type for an object of a log."""
    return MARK_TYPE if _EVENT.fullmatch(name) is None else EVENT_TYPE


def _place(body: bytes) -> SignedPlace | None:
    try:
        return msgspec.json.decode(body, type=SignedPlace)
    except msgspec.MsgspecError:
        return None
