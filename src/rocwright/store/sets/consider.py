"""Whether a recorded set may go into a channel: what the store knows of it, given to the gate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from rocwright.errors import InvalidData
from rocwright.model.channels import Channel, Channels
from rocwright.model.manifest import SetManifest, set_id
from rocwright.model.statement import Statement
from rocwright.store.channel.log import State, read_state
from rocwright.store.gate.decide import Decision, decide
from rocwright.store.gate.policy import Objection, policy_for
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.records import read_set, read_statements
from rocwright.store.sets.sign import signers, unsigned


@dataclass(frozen=True)
class Considered:
    """A set, what was said about it, and the gate's decision."""

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
    """Read a set and everything said about it, and decide; nothing is written.

    A set that was withdrawn from the channel stays out of it, whoever promotes what is newest, unless `again`
    says that it is meant. Raises `IntegrityError` for a manifest or signature that was changed.
    """
    manifest = read_set(store, set_digest)
    against = list(_against(store, channels, channel, manifest, again=again))
    try:
        statements = read_statements(store, set_digest)
    except InvalidData as error:
        statements = ()
        against.insert(0, Objection("unreadable", error.what))
    policy = policy_for(manifest, channels, channel, today, against)
    return Considered(manifest, statements, decide(set_digest, statements, policy))


def _against(
    store: ObjectStore, channels: Channels, channel: Channel, manifest: SetManifest, *, again: bool
) -> Iterator[Objection]:
    digest = set_id(manifest)
    if channel.keys and not signers(store, manifest, channel.keys):
        yield Objection("unsigned", unsigned(channel, digest))
    if channel.after is not None:
        before = _state(store, channels.named(channel.after), manifest)
        if digest not in before.sets:
            yield Objection("unstaged", f"{channel.after} does not list set {digest[:12]}")
        elif digest in before.yanked:
            yield Objection("unstaged", f"withdrawn from {channel.after}: {before.yanked[digest]}")
    here = _state(store, channel, manifest)
    if digest in here.yanked and not again:
        yield Objection("withdrawn", f"withdrawn from {channel.name}: {here.yanked[digest]}")


def _state(store: ObjectStore, channel: Channel, manifest: SetManifest) -> State:
    return read_state(store, channel_prefix(channel.prefix, manifest.family))
