"""Whether a recorded set may go into a channel: what the store knows of it, given to the gate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from rocwright.errors import InvalidData
from rocwright.model.channels import Channel, Channels
from rocwright.model.manifest import SetManifest, set_id
from rocwright.model.statement import Statement
from rocwright.store.channel.log import ChannelState, read_state
from rocwright.store.gate.decide import Decision, Objection, decide, policy_for
from rocwright.store.gate.statements import Opening, check_files
from rocwright.store.layout import channel_prefix, file_key
from rocwright.store.objects.local import LocalStore
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
        look = (Opening(("set", "verify", set_digest)),)
        against.insert(0, Objection("unreadable", error.what, look))
    recheck = check_files(_places(store, manifest), _root(store))
    policy = policy_for(manifest, channels, channel, today, against, recheck)
    return Considered(manifest, statements, decide(set_digest, statements, policy))


def _against(
    store: ObjectStore, channels: Channels, channel: Channel, manifest: SetManifest, *, again: bool
) -> Iterator[Objection]:
    digest = set_id(manifest)
    if channel.keys and not signers(store, manifest, channel.keys):
        sign = Opening(
            ("set", "sign", digest, "--key", "key.pem"), f"key.pem is a key that {channel.name} trusts"
        )
        yield Objection("unsigned", unsigned(channel, digest), (sign,))
    if channel.after is not None:
        before = _state(store, channels.named(channel.after), manifest)
        stage = ("set", "promote", digest, "--to", channel.after)
        if digest not in before.sets:
            yield Objection("unstaged", f"{channel.after} does not list set {digest[:12]}", (Opening(stage),))
        elif digest in before.yanked:
            why = f"withdrawn from {channel.after}: {before.yanked[digest]}"
            yield Objection("unstaged", why, (Opening((*stage, "--again"), "that reason holds no more"),))
    here = _state(store, channel, manifest)
    if digest in here.yanked and not again:
        why = f"withdrawn from {channel.name}: {here.yanked[digest]}"
        words = ("set", "promote", digest, "--to", channel.name, "--again")
        yield Objection("withdrawn", why, (Opening(words, "that reason holds no more"),))


def _places(store: ObjectStore, manifest: SetManifest) -> list[str]:
    """Where a check finds the set's files on this machine; none where they are not all there."""
    keys = [file_key(entry.sha256, entry.name) for entry in manifest.files]
    if not isinstance(store, LocalStore) or not all(map(store.exists, keys)):
        return []
    return [str(store.root / key) for key in keys]


def _root(store: ObjectStore) -> str:
    return str(store.root) if isinstance(store, LocalStore) else "STORE"


def _state(store: ObjectStore, channel: Channel, manifest: SetManifest) -> ChannelState:
    return read_state(store, channel_prefix(channel.prefix, manifest.family))
