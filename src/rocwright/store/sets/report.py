"""What a store knows of its sets and channels: for people, as JSON, and for the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

import msgspec

from rocwright.errors import IntegrityError, InvalidData, NoObject, RocwrightError
from rocwright.model.channels import Channel, Channels
from rocwright.model.findings import Override
from rocwright.model.sets import (
    ADOPTED,
    BUILD,
    BYPASS,
    FINDINGS,
    PROMOTION,
    RECEIPT,
    REVERSION,
    TEST,
    WAIVER,
    SetManifest,
    Statement,
    set_id,
)
from rocwright.store.channel_log import read_log
from rocwright.store.damage import Tell, as_damage, refuse
from rocwright.store.gate import Decision, Objection, decide, policy_for
from rocwright.store.layout import channel_prefix, file_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore, beneath
from rocwright.store.sets.find import channel_families, current_of, the_family
from rocwright.store.sets.records import (
    lost_statements,
    read_set,
    read_statements,
    recorded_sets,
    refuse_closing,
)
from rocwright.store.sets.sign import signed_by, unsigned
from rocwright.store.statements import Opening, check_files, verdict_on
from rocwright.store.trust.guard import as_gate_sees, minding, refused_statements, trusted_now
from rocwright.store.trust.seals import Forged


class SetReport(msgspec.Struct, frozen=True):
    """A set with everything known about it.

    `checked` is what its findings come to today, `said` its statements as sentences, `channels` where it is
    listed, with why it is withdrawn there or None, `decisions` what the gate of each channel says today.
    """

    set_id: str
    manifest: SetManifest
    checked: str
    said: tuple[str, ...]
    channels: dict[str, str | None]
    decisions: dict[str, Decision]
    signed_by: tuple[str, ...]


class ListedSetLine(msgspec.Struct, frozen=True):
    """A set in a list, and the channels that list it."""

    set_id: str
    manifest: SetManifest
    channels: dict[str, str | None]

    @property
    def listed(self) -> str:
        """The channels in one line; those that withdrew it in brackets."""
        return " ".join(name if why is None else f"({name})" for name, why in self.channels.items())


def report_set(
    store: ObjectStore, channels: Channels, set_digest: str, today: date, tell: Tell = refuse
) -> SetReport:
    """Read a set and all about it; `tell` is told of what is damaged of that.

    Raises `IntegrityError` for a manifest that is damaged: nothing else says what the set is.
    """
    manifest = read_set(store, set_digest)
    try:
        statements = read_statements(store, set_digest, tell=tell)
        found = verdict_on(manifest, statements, today)
        waived = f", waived: {'; '.join(map(str, found.waivers))}" if found.waivers else ""
        overridden = f", overridden: {'; '.join(map(str, found.overrides))}" if found.overrides else ""
        checked = f"passed{waived}{overridden}" if found.problem is None else found.problem
    except RocwrightError as error:
        statements, checked = (), error.what
    decisions = {}
    for channel in channels.channel:
        named = channels.named(channel.name)
        decisions[channel.name] = consider(store, channels, named, set_digest, today).decision
    return SetReport(
        set_id=set_digest,
        manifest=manifest,
        checked=checked,
        said=tuple(sorted(filter(None, map(sentence, statements)))),
        channels=_States(store, channels, tell).places(set_digest, manifest.family),
        decisions=decisions,
        signed_by=signed_by(store, set_digest),
    )


def list_sets(
    store: ObjectStore,
    channels: Channels,
    channel: str | None = None,
    family: str | None = None,
    tell: Tell = refuse,
) -> tuple[ListedSetLine, ...]:
    """Recorded sets by id, or those of a channel, oldest first; of one family where it is given.

    `tell` is told of what is damaged; a set without a whole manifest is left out.
    """
    if channel is None:
        ids = list(recorded_sets(store, tell))
    else:
        named = channels.named(channel)
        families = (the_family(store, named, family),) if family else channel_families(store, named)
        ids = [
            one for name in families for one in read_log(store, channel_prefix(named.prefix, name)).state.sets
        ]
    found = _whole(store, ids, tell)
    states = _States(store, channels, tell)
    return tuple(
        ListedSetLine(one, manifest, states.places(one, manifest.family))
        for one, manifest in found
        if family in (None, manifest.family)
    )


def _whole(store: ObjectStore, ids: list[str], tell: Tell) -> Iterator[tuple[str, SetManifest]]:
    for one in ids:
        try:
            yield one, read_set(store, one)
        except (IntegrityError, NoObject) as error:
            tell(as_damage(error))


class _States:
    """States of channels, each read once."""

    def __init__(self, store: ObjectStore, channels: Channels, tell: Tell) -> None:
        self._store, self._channels, self._tell = store, channels, tell
        self._known: dict[str, dict[str, dict[str, str | None]]] = {}

    def places(self, set_digest: str, family: str) -> dict[str, str | None]:
        """The channels that list a set, with why it is withdrawn there, or None."""
        if family not in self._known:
            self._known[family] = {}
            for channel in self._channels.channel:
                log = read_log(self._store, channel_prefix(channel.prefix, family))
                for one in log.damaged:
                    self._tell(one)
                state = log.state
                self._known[family][channel.name] = {one: state.yanked.get(one) for one in state.sets}
        of = self._known[family]
        return {name: sets[set_digest] for name, sets in of.items() if set_digest in sets}


def sentence(statement: Statement) -> str:
    """A statement in a line, as far as this version knows its type."""
    said = statement.predicate
    inner = said.get("required")
    required = inner if isinstance(inner, dict) else said
    on = f"{required.get('suite')} on {required.get('target') or required.get('family')}"
    until = f"until {said.get('expires')}: {said.get('reason')}"
    by = f", by {said['by']}" if said.get("by") else ""
    detail = f": {said['detail']}" if said.get("detail") else ""
    missing = said.get("missing")
    without = f", without {', '.join(sorted(missing))}" if isinstance(missing, dict) and missing else ""
    policy = ", as wheels that others built" if said.get("policy") == "adopted" else ""
    made_of = str(said.get("from"))[:12]
    lines = {
        ADOPTED: f"adopted from {said.get('from')}, by its metadata{without}",
        BUILD: f"build {said.get('result')}",
        FINDINGS: f"check {'passed' if said.get('passed') is True else 'found errors'}{policy}{_taken(said)}",
        WAIVER: f"waiver of {said.get('rule')} for {said.get('file', '*')}, {until}",
        TEST: f"test {on} {said.get('result')}{detail}",
        BYPASS: f"bypass of {on}, {until}{by}",
        PROMOTION: f"promotion to {said.get('to')} by rule {said.get('rule')}{by}",
        RECEIPT: f"receipt of every file at {said.get('uploaded')}",
        REVERSION: f"made of set {made_of}: ROCm {said.get('old')} became {said.get('new')}",
    }
    return lines.get(statement.predicate_type, f"statement {statement.predicate_type}")


def _taken(said: Mapping[str, object]) -> str:
    """What was taken away from the rules of a check, as far as it can be read."""
    try:
        found = msgspec.convert(said.get("overrides", ()), tuple[Override, ...])
    except msgspec.ValidationError:
        return ", with overrides that cannot be read"
    return f", overridden: {'; '.join(map(str, found))}" if found else ""


# -- what a channel listed and withdrew, when and by whom


class ChannelEvent(msgspec.Struct, frozen=True):
    """An event of a channel.

    `at` is by the clock of who wrote it, `recorded` by that of the store (both RFC 3339, UTC).
    """

    number: int
    action: str
    sets: tuple[str, ...]
    at: str
    recorded: str
    reason: str
    by: str


class History(msgspec.Struct, frozen=True):
    """All events of a channel in order, what it serves now, and whether its pages show that already.

    `current` is the set that installers take, which need not be the set that was listed last.
    """

    prefix: str
    current: str | None
    sets: tuple[str, ...]
    yanked: dict[str, str]
    shown: bool
    events: tuple[ChannelEvent, ...]


def history_of(store: ObjectStore, prefix: str, tell: Tell = refuse) -> History:
    """The history of the channel at `prefix`; `tell` is told of what of it is damaged."""
    log = read_log(store, prefix, whole=True)
    for one in log.damaged:
        tell(one)
    current = None
    try:
        current = current_of(store, log.state)
    except (IntegrityError, NoObject) as error:
        tell(as_damage(error))
    return History(
        prefix=prefix,
        current=current,
        sets=log.state.sets,
        yanked=dict(log.state.yanked),
        shown=log.finished,
        events=tuple(
            ChannelEvent(
                number=number,
                action=event.action,
                sets=event.sets,
                at=event.at,
                recorded=stored.modified.strftime("%Y-%m-%dT%H:%M:%SZ"),
                reason=event.reason,
                by=event.by,
            )
            for stored, number, event in log.said
            if event is not None
        ),
    )


# -- whether a set may go into a channel: what the store knows of it, given to the gate


class Considered(msgspec.Struct, frozen=True):
    """A set, the statements about it, and the gate's decision."""

    manifest: SetManifest
    statements: tuple[Statement, ...]
    decision: Decision


def consider(
    store: ObjectStore,
    channels: Channels,
    channel: Channel,
    set_digest: str,
    today: date,
    *,
    again: bool = False,
) -> Considered:
    """Read a set and all statements about it, and decide; nothing is written.

    A set that was withdrawn from the channel stays out of it, whoever promotes what is newest, unless `again`
    says that it is meant. Raises `IntegrityError` for a manifest or signature that was changed.
    """
    manifest = read_set(store, set_digest)
    store = minding(store, channel, today)
    ignored = refused_statements(store, channel, set_digest)
    against = list(_against(store, channels, channel, manifest, again=again))
    try:
        seen = as_gate_sees(store, channel, today)
        statements = read_statements(seen, set_digest, tell=refuse_closing)
    except (InvalidData, IntegrityError) as error:
        statements = ()
        look = (Opening(("set", "verify", set_digest)),)
        against.insert(0, Objection("unreadable", error.what, look))
    recheck = check_files(_files_at(store, manifest), _root(store))
    policy = policy_for(manifest, channels, channel, today, against, recheck, _ignored(ignored))
    return Considered(manifest, statements, decide(set_digest, statements, policy))


def _ignored(refused: Sequence[Forged]) -> str:
    """That statements count for nothing, for people; empty where all count."""
    if not refused:
        return ""
    others = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"left out, as nobody whom the channel trusts signed it: {refused[0]}{others}"


def _against(
    store: ObjectStore, channels: Channels, channel: Channel, manifest: SetManifest, *, again: bool
) -> Iterator[Objection]:
    digest = set_id(manifest)
    trusted = trusted_now(store, channel)
    why = None if trusted is None else unsigned(store, channel.name, trusted, manifest)
    if why is not None:
        sign = Opening(
            ("set", "sign", digest, "--key", "key.pem"), f"key.pem is a key that {channel.name} trusts"
        )
        yield Objection("unsigned", why, (sign,))
    places = [channels.named(channel.after)] if channel.after is not None else []
    logs = [read_log(store, channel_prefix(one.prefix, manifest.family)) for one in (*places, channel)]
    for one in sorted({one for log in logs for one in log.unsure}):
        repair = Opening(("set", "repair"), "it brings back what the log said")
        yield Objection("unreadable", f"nobody knows what a log says: {one}", (repair,))
    for aside in lost_statements(store, digest):
        repair = Opening(("set", "repair", "--from", "STORE"), "STORE has that statement")
        yield Objection("unreadable", f"a statement was lost, nobody knows what it said: {aside}", (repair,))
    if channel.after is not None:
        before = logs[0].state
        stage = ("set", "promote", digest, "--to", channel.after)
        if digest not in before.sets:
            yield Objection("unstaged", f"{channel.after} does not list set {digest[:12]}", (Opening(stage),))
        elif digest in before.yanked:
            why = f"withdrawn from {channel.after}: {before.yanked[digest]}"
            yield Objection("unstaged", why, (Opening((*stage, "--again"), "that reason no longer applies"),))
    here = logs[-1].state
    if digest in here.yanked and not again:
        why = f"withdrawn from {channel.name}: {here.yanked[digest]}"
        words = ("set", "promote", digest, "--to", channel.name, "--again")
        yield Objection("withdrawn", why, (Opening(words, "that reason no longer applies"),))


def _files_at(store: ObjectStore, manifest: SetManifest) -> list[str]:
    """Where a check finds the set's files on this machine; none where they are not all there."""
    keys = [file_key(entry.sha256, entry.name) for entry in manifest.files]
    plain = beneath(store)
    if not isinstance(plain, LocalStore) or not all(map(store.exists, keys)):
        return []
    return [str(plain.root / key) for key in keys]


def _root(store: ObjectStore) -> str:
    plain = beneath(store)
    return str(plain.root) if isinstance(plain, LocalStore) else "STORE"
