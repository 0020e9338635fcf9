"""What a lost object said, by trying: its name holds the digest of its content, so a right guess is a proof.

Events of a channel and statements say little, and mostly something that other objects say, too: which set,
what was done, when, give or take some hours. Nothing is taken for true here but what has the digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import product
from typing import Literal, get_args

import msgspec

from rocwright.model.channels import Asked, Suite
from rocwright.model.sets import BUILD, RECEIPT, SetManifest, Statement, about_set, canonical_json
from rocwright.store.channel_log import Event, names_event
from rocwright.store.damage import fits_name, told_by
from rocwright.store.statements import RESULTS, SuiteResult, result_statement

# An event is written when all is checked and stored, and tells when that began.
_BEFORE, _AFTER = timedelta(hours=6), timedelta(minutes=10)
_FORM = "%Y-%m-%dT%H:%M:%SZ"
# Stands for the time while all else is written.
_TIME = "0000-00-00T00:00:00Z"


class Clues(msgspec.Struct):
    """What a store says elsewhere: sets, also several together, who did something, why, and when."""

    sets: dict[tuple[str, ...], None] = msgspec.field(default_factory=dict)
    people: dict[str, None] = msgspec.field(default_factory=lambda: {"": None})
    reasons: dict[str, None] = msgspec.field(default_factory=lambda: {"": None})
    times: dict[str, None] = msgspec.field(default_factory=dict)


def guessed_event(key: str, written: datetime, known: Clues) -> bytes | None:
    """The event that stood under a key, written at about this time by the store's clock."""
    actions: tuple[Literal["list", "yank", "drop"], ...] = ("list", "yank", "drop")
    frames = [
        canonical_json(Event(action, sets, at=_TIME, reason=reason, by=by))
        for sets, action, by, reason in product(known.sets, actions, known.people, known.reasons)
        # To withdraw a set one has to say why.
        if reason or action != "yank"
    ]
    for times in (known.times, list(_around(written))):
        for frame in frames:
            found = _timed(key, frame, times)
            if found is not None and names_event(key, found):
                return found
    return None


def _around(written: datetime) -> Iterator[str]:
    """Each second, those next to the time first."""
    for seconds in range(int(_BEFORE.total_seconds())):
        yield (written - timedelta(seconds=seconds)).strftime(_FORM)
        if seconds and seconds < _AFTER.total_seconds():
            yield (written + timedelta(seconds=seconds)).strftime(_FORM)


def _timed(key: str, frame: bytes, times: Iterable[str]) -> bytes | None:
    head, _, tail = frame.partition(_TIME.encode())
    told = told_by(key) or "-"
    begun = hashlib.sha256(head)
    for time in times:
        one = begun.copy()
        one.update(time.encode() + tail)
        if one.hexdigest().startswith(told):
            return head + time.encode() + tail
    return None


def guessed_statement(
    key: str, written: datetime, manifest: SetManifest, suites: Iterable[Suite], known: Clues
) -> bytes | None:
    """The statement that stood under a key: of a receipt, a build, or a test without further words."""
    kind = key.rpartition("/")[2].rpartition("-")[0]
    if kind == "receipt":
        frame = canonical_json(about_set(manifest, RECEIPT, {"uploaded": _TIME}))
        return _timed(key, frame, known.times) or _timed(key, frame, _around(written))
    for said in _statements(kind, manifest, suites):
        data = canonical_json(said)
        if fits_name(key, hashlib.sha256(data).hexdigest()):
            return data
    return None


def _statements(kind: str, manifest: SetManifest, suites: Iterable[Suite]) -> Iterator[Statement]:
    if kind == "build":
        for result in ("success", "failure"):
            yield about_set(manifest, BUILD, {"result": result})
    if kind == "test":
        for suite, result, attempt, target, runner, device in product(
            suites, RESULTS, range(1, 6), ("", *manifest.targets), (True, False), get_args(Asked)
        ):
            found = SuiteResult(
                suite.name, manifest.family, result, runner, attempt, target=target, device=device
            )
            yield result_statement(manifest, found)


def guessed_manifest(
    set_digest: str,
    described: SetManifest,
    *,
    families: Iterable[str],
    targets: Iterable[tuple[str, ...]],
    sources: Iterable[dict[str, str]],
) -> SetManifest | None:
    """The manifest with this id among those with the files of `described`."""
    for family, platform, of, made in product(families, ("linux", "windows", "any"), targets, sources):
        one = msgspec.structs.replace(
            described, family=family, platform=platform, targets=tuple(sorted(of)), sources=made
        )
        if hashlib.sha256(canonical_json(one)).hexdigest() == set_digest:
            return one
    return None
