"""Other keys for a channel, and new signatures under what it lists, as far as it counted before."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from rocwright.model.channels import Channel
from rocwright.model.trusted import Trusted
from rocwright.store.channel_log import read_state
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.records import read_set
from rocwright.store.sets.sign import sign_set, sign_statements, unsigned
from rocwright.store.trust.guard import Guarded
from rocwright.store.trust.keys import SigningKey
from rocwright.store.trust.roots import Root, Trust, rotate


class Renewed(NamedTuple):
    """The new root, and how many events and sets were signed again."""

    root: Root
    events: int
    sets: int


def renew(
    store: ObjectStore,
    channel: Channel,
    before: Trust,
    trusted: Trusted,
    expires: date,
    signers: Iterable[SigningKey],
    today: date,
) -> Renewed:
    """Write the next root of a channel, and sign its events, sets and statements with its new keys.

    Raises as `rotate`. An interrupted run leaves a channel that serves less than before, never more.
    """
    keys = tuple(signers)
    families = [
        channel_prefix(channel.prefix, one)
        for one in store.folders(f"{channel.prefix}/")
        if not one.startswith("_")
    ]
    # As the keys before let it be seen, on the last day that these held.
    old = Guarded(store, [channel], date.min)
    listed = {prefix: read_state(old, prefix).sets for prefix in families}
    refused = {
        one: {found.key for found in old.refused_statements(one, before)}
        for sets in listed.values()
        for one in sets
    }
    root = rotate(store, channel, trusted, expires, keys, today)
    new = Guarded(store, [channel], today, keys)
    mine = [key for key in keys if key.public in (*trusted.release, *trusted.evidence)]
    events = sets = 0
    if any(key.public in trusted.release for key in keys):
        events = sum(len(new.sign_log(prefix, before=before)) for prefix in families)
    for one, but in refused.items():
        manifest = read_set(store, one)
        if unsigned(store, channel.name, before.trusted, manifest) is None:
            sign_set(store, manifest, [key for key in mine if key.public in trusted.release])
        sign_statements(store, one, mine, but=but)
        sets += 1
    return Renewed(root, events, sets)
