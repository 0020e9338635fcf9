"""Test reports and the store: what a set's tests showed, as statements that the gate reads.

Reports are kept beside their set, for later ones to be compared with. A run that gave no report is stated as
cancelled although a machine for it exists: that closes the gate, and no bypass opens it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import get_args

import msgspec
import zstandard
from packaging.version import InvalidVersion, Version

from rocwright.errors import InvalidData, UsageError
from rocwright.gputest.report.find import find_reports, settled
from rocwright.gputest.report.judge import shard_state
from rocwright.gputest.report.values import Judged, Report, SetPoint, ShardState, State, passed_of, ran_of
from rocwright.model.channels import Asked, Channels
from rocwright.model.gpu import base_targets, is_target
from rocwright.model.sets import SetManifest, canonical_json
from rocwright.model.testing import Ran
from rocwright.store.layout import set_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_set, read_statements, received, recorded_sets, save_statement
from rocwright.store.sets.state import Said, statements_of
from rocwright.store.statements import Result

_FOLDER = "_tests/"
# What is kept of the detail of a failure.
_DETAIL = 4000
# Sets that the plots go back.
HISTORY = 30


class Stated(msgspec.Struct, frozen=True):
    """What was written about a set: keys of statements and of reports."""

    statements: tuple[str, ...]
    reports: tuple[str, ...]


class Compared(msgspec.Struct, frozen=True):
    """What a report is compared with: earlier reports (None: nothing), what they are called, and the sets of
    the family that were tested before, oldest first."""

    reports: tuple[Report, ...] | None = None
    name: str = ""
    history: tuple[SetPoint, ...] = ()


def compare_with(
    previous: str, told: Ran, opened: Callable[[], ObjectStore], channels: Channels, set_digest: str = ""
) -> Compared:
    """The reports to compare with: a directory, or a set in the store; by default the set of its family that
    was tested before `set_digest`.

    The store is opened where it is needed. Raises `UsageError` where `previous` holds no report.
    """
    store = opened() if set_digest or (previous and not Path(previous).is_dir()) else None
    earlier: tuple[str, ...] = ()
    if store is not None and set_digest:
        earlier = earlier_sets(store, read_set(store, set_digest).family, but=set_digest)
    points = history(store, earlier) if store is not None else ()
    if not previous:
        if store is None or not earlier:
            return Compared(history=points)
        return Compared(kept_reports(store, earlier[-1]), f"set {earlier[-1][:12]}", points)
    if store is None or Path(previous).is_dir():
        reports, name = find_reports((Path(previous),), told=told), previous
    else:
        digest = resolve_set(store, channels, previous)
        reports, name = kept_reports(store, digest), f"set {digest[:12]}"
    if not any(one.results for one in reports):
        raise UsageError(
            f"there is no report in {name} to compare with",
            next_step="name a directory of reports, or a set that `rocwright test report --set` was run for",
        )
    return Compared(reports, name, points)


def state_tested(
    store: ObjectStore,
    channels: Channels,
    set_digest: str,
    reports: Sequence[Report],
    judged: Judged,
    *,
    suite: str = "",
    attempt: int | None = None,
    today: date,
) -> Stated:
    """State what the reports say of the set, for each suite and target, and keep them beside it.

    Without `suite` each suite of the gate that a report is of. Raises `UsageError` where the reports are of
    another torch, target or suite, or do not say of which: nothing is written then.
    """
    manifest = read_set(store, set_digest)
    _require_version(manifest, reports)
    said = what_to_state(manifest, channels, reports, judged, suite=suite, attempt=attempt)
    # All of them are made before the first is written.
    made = [one for each in said for one in statements_of(manifest, channels, each, today)]
    kept = keep_reports(store, set_digest, reports)
    return Stated(tuple(save_statement(store, set_digest, one) for one in made), kept)


def what_to_state(
    manifest: SetManifest,
    channels: Channels,
    reports: Sequence[Report],
    judged: Judged,
    *,
    suite: str = "",
    attempt: int | None = None,
) -> tuple[Said, ...]:
    """The results to state, pure; raises `UsageError` as `state_tested`."""
    asked = {one.name for one in channels.suite}
    ran = sorted({one.suite for one in judged.shards} - {""})
    suites = [suite] if suite else [one for one in ran if one in asked]
    if not suites:
        raise UsageError(
            f"no channel asks for the suites of these reports: {', '.join(ran) or 'they do not say which'}",
            next_step=f"say which: --suite, one of {', '.join(sorted(asked))}",
        )
    found: list[Said] = []
    for name in suites:
        # A run of which not even the suite is known may be one of each.
        states = [one for one in judged.shards if one.suite in ("", name)]
        if not states:
            raise UsageError(
                f"no report is of the suite {name}; they are of {', '.join(ran)}",
                next_step="leave out --suite, or name that one",
            )
        last = max((one.ran.attempt for one in states if one.ran), default=1)
        number = last if attempt is None else attempt
        for device in get_args(Asked):
            # What an emulator played is stated as that, and never among what GPUs showed.
            alike = [one for one in states if one.emulated == (device == "emulated")]
            per = channels.per(name, device) or "target"
            for target, own in _by_target(manifest, alike, per=per) if alike else ():
                result: Result = _RESULTS[_worst(own)]
                detail = _detail(own, judged)
                found.append(Said(name, target, result, attempt=number, detail=detail, device=device))
    return tuple(found)


_RESULTS: dict[State, Result] = {"passed": "passed", "failed": "failed", "no report": "cancelled"}


def _worst(states: Sequence[ShardState]) -> State:
    order: tuple[State, ...] = ("failed", "no report", "passed")
    return min((one.state for one in states), key=order.index)


def _by_target(
    manifest: SetManifest, states: Sequence[ShardState], *, per: str
) -> list[tuple[str, list[ShardState]]]:
    """The runs of each target; without a report and target it is a run of all of them."""
    if per != "target" or not manifest.targets:
        return [("", list(states))]
    own: dict[str, list[ShardState]] = {}
    everywhere: list[ShardState] = []
    for one in states:
        target = _target_of(manifest, one)
        if target:
            own.setdefault(target, []).append(one)
        elif one.state == "no report" and not one.counts:
            everywhere.append(one)
        else:
            raise UsageError(
                f"nothing says on which GPU {one.name} ran",
                next_step=f"give --target, one of: {' '.join(manifest.targets)}",
            )
    named = own or {target: [] for target in manifest.targets}
    return [(target, [*found, *everywhere]) for target, found in named.items()]


def _target_of(manifest: SetManifest, one: ShardState) -> str:
    if not one.target:
        return ""
    ran = base_targets([one.target])[0] if is_target(one.target) else one.target
    if ran in manifest.targets:
        return ran
    did = "ran" if one.ran else "is expected"
    raise UsageError(
        f"{one.name} {did} on {one.target}; the set is for {' '.join(manifest.targets)}",
        next_step="give the reports of this set",
    )


def _detail(states: Sequence[ShardState], judged: Judged) -> str:
    names = {one.name for one in states}
    counts: dict[str, int] = {}
    for one in states:
        for verdict, number in one.counts.items():
            counts[verdict] = counts.get(verdict, 0) + number
    new = sum(
        case.finding == "NEW" and case.shard in names for group in judged.groups for case in group.cases
    )
    told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())) or "no test"
    silent = sum(one.state == "no report" for one in states)
    by = {one.emulation.told() for one in states if one.emulation}
    told += f"; emulated by {'; '.join(sorted(by))}" if by else ""
    told += f"; {new} new failures" if new else ""
    return told + (f"; {silent} of {len(states)} runs gave no report" if silent else "")


def _require_version(manifest: SetManifest, reports: Sequence[Report]) -> None:
    """What was tested is what is served: a report of another torch says nothing of this set."""
    served = {entry.version for entry in manifest.files if entry.project == "torch"}
    for one in reports:
        if served and one.ran.torch and not any(_same(one.ran.torch, version) for version in served):
            raise UsageError(
                f"{one.name} tested torch {one.ran.torch}; the set has {', '.join(sorted(served))}",
                next_step="give the reports of this set, or name the set that they are of",
            )


def _same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def keep_reports(store: ObjectStore, set_digest: str, reports: Iterable[Report]) -> tuple[str, ...]:
    """Write reports beside their set, once; returns their keys. Reports without any result are not kept."""
    keys = []
    for one in reports:
        if not one.results:
            continue
        data = canonical_json(_shortened(one))
        digest = hashlib.sha256(data).hexdigest()[:16]
        name = re.sub(r"[^A-Za-z0-9._+-]+", "-", one.name).strip("-.+") or "run"
        key = f"{set_prefix(set_digest)}{_FOLDER}{name}-{digest}.json.zst"
        # The name says the content; packed bytes may differ from one version of zstd to the next.
        if not store.exists(key):
            store.put_bytes(key, zstandard.ZstdCompressor(level=9).compress(data))
        keys.append(key)
    return tuple(keys)


def _shortened(report: Report) -> Report:
    results = tuple(
        msgspec.structs.replace(one, detail=one.detail[-_DETAIL:] if one.bad else "")
        for one in report.results
    )
    return msgspec.structs.replace(report, results=results, notes=())


def kept_reports(store: ObjectStore, set_digest: str) -> tuple[Report, ...]:
    """The reports that are kept beside a set; raises `InvalidData` for a report that cannot be read."""
    found = []
    for stored in store.list(f"{set_prefix(set_digest)}{_FOLDER}"):
        try:
            data = zstandard.ZstdDecompressor().decompress(store.read(stored.key))
            found.append(msgspec.json.decode(data, type=Report))
        except (zstandard.ZstdError, msgspec.MsgspecError) as error:
            raise InvalidData(
                f"{stored.key} is not a kept report: {error}",
                where=stored.key,
                next_step="delete that object",
            ) from error
    return settled(found)


def earlier_sets(store: ObjectStore, family: str, *, but: str = "") -> tuple[str, ...]:
    """Ids of the sets of a family with kept reports, oldest first, those before the set `but` where that is
    in the store."""
    dated = []
    until = received(read_statements(store, but)) if but else None
    for digest in recorded_sets(store):
        if digest == but or "_tests" not in store.folders(set_prefix(digest)):
            continue
        at = received(read_statements(store, digest)) or ""
        if read_set(store, digest).family == family and (until is None or at <= until):
            dated.append((at, digest))
    return tuple(digest for _, digest in sorted(dated))


def history(store: ObjectStore, sets: Sequence[str]) -> tuple[SetPoint, ...]:
    """What each set came to by its kept reports, in the given order."""
    points = []
    for digest in sets[-HISTORY:]:
        manifest = read_set(store, digest)
        reports = kept_reports(store, digest)
        states = [shard_state(one) for one in reports]
        torch = [entry.version for entry in manifest.files if entry.project == "torch"]
        points.append(
            SetPoint(
                set_id=digest,
                label=torch[0] if torch else digest[:12],
                ran=sum(ran_of(one.counts) for one in states),
                passed=sum(passed_of(one.counts) for one in states),
                seconds=round(sum(one.seconds for one in reports), 3),
                state=_worst(states) if states else "no report",
            )
        )
    return tuple(points)
