"""Write a channel's landing page, and the same as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from rocwright.data import load_table
from rocwright.model.channels import Channel, LandingTable
from rocwright.model.manifest import canonical_json
from rocwright.store.channel.log import read_log
from rocwright.store.index.listed import ListedSet
from rocwright.store.landing.lines import index_of, pip_line, require_address, uv_line
from rocwright.store.landing.offers import Offer, offers_of
from rocwright.store.landing.page import landing_page
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import read_listed

LANDING_SCHEMA = "rocwright.landing/1"


class _Family(msgspec.Struct, frozen=True):
    log: str
    offers: tuple[Offer, ...]


class _Earlier(msgspec.Struct, frozen=True):
    """What an earlier page was made of."""

    schema: str
    table: str
    families: dict[str, _Family]


def landing_pages(
    channel: Channel,
    families: Mapping[str, Sequence[ListedSet]],
    base: str,
    table: LandingTable | None = None,
) -> Mapping[str, bytes]:
    """The page of a channel and its JSON, by key; `families` are the listed sets, oldest first.

    `base` is the address of the store as clients know it, ending with `/`. Raises `InvalidInput` for an
    address that cannot stand in a command line.
    """
    table = table or load_table("landing", LandingTable)
    offered = {family: ("", offers_of(family, sets, table)) for family, sets in families.items()}
    return _pages(channel, offered, base, table)


def write_landing(
    store: ObjectStore, channel: Channel, *, base: str | None = None, table: LandingTable | None = None
) -> tuple[str, ...]:
    """Bring the landing page of a channel into line with the logs of its families; returns the keys written.

    `base` is the address of the store as clients know it (default: what the store says). Families whose log
    has not changed since the last page are taken from its JSON, so that one promotion reads one family.
    """
    table = table or load_table("landing", LandingTable)
    written: dict[str, None] = {}
    seen = None
    # Two publishers of different families write the same page: whoever writes looks again afterwards.
    while (logs := _logs(store, channel)) != seen:
        seen = logs
        pages = _from_logs(store, channel, logs, base, table)
        changed = [key for key, data in pages.items() if read_there(store, key) != data]
        for key in changed:
            store.put_bytes(key, pages[key], overwrite=True)
        written |= dict.fromkeys(changed)
    return tuple(written)


def _logs(store: ObjectStore, channel: Channel) -> dict[str, tuple[str, tuple[str, ...]]]:
    """For each family the digest of its log, and the sets to offer."""
    found = {}
    for family in store.folders(f"{channel.prefix}/"):
        log = read_log(store, channel_prefix(channel.prefix, family))
        if log.events:
            # The names of events are digests of what they say.
            digest = hashlib.sha256(canonical_json([one.key for one in log.events])).hexdigest()
            state = log.state
            found[family] = (digest, tuple(one for one in state.sets if one not in state.yanked))
    return found


def _from_logs(
    store: ObjectStore,
    channel: Channel,
    logs: Mapping[str, tuple[str, tuple[str, ...]]],
    base: str | None,
    table: LandingTable,
) -> Mapping[str, bytes]:
    key = f"{channel.prefix}/_landing.json"
    earlier = _earlier(store, key)
    named = hashlib.sha256(canonical_json(table)).hexdigest()
    known = earlier.families if earlier is not None and earlier.table == named else {}
    offered = {}
    for family, (digest, sets) in logs.items():
        before = known.get(family)
        if before is not None and before.log == digest:
            offered[family] = (digest, before.offers)
        else:
            listed = [read_listed(store, one) for one in sets]
            offered[family] = (digest, offers_of(family, listed, table))
    if base is None:
        base = store.url(f"{channel.prefix}/").removesuffix(f"{channel.prefix}/")
    return _pages(channel, offered, base, table)


def _earlier(store: ObjectStore, key: str) -> _Earlier | None:
    try:
        data = read_there(store, key)
        found = msgspec.json.decode(data, type=_Earlier) if data is not None else None
    except msgspec.MsgspecError:
        # Of another version, or spoiled: it is no source of facts, only saves reading them again.
        return None
    return found if found is not None and found.schema == LANDING_SCHEMA else None


def _pages(
    channel: Channel,
    offered: Mapping[str, tuple[str, tuple[Offer, ...]]],
    base: str,
    table: LandingTable,
) -> Mapping[str, bytes]:
    require_address(base)
    ordered = {family: offered[family] for family in sorted(offered)}
    offers = [offer for _, found in ordered.values() for offer in found]
    data = {
        "schema": LANDING_SCHEMA,
        "channel": channel.name,
        "base": base,
        "table": hashlib.sha256(canonical_json(table)).hexdigest(),
        "families": {
            family: {"log": log, "offers": [_with_lines(offer, channel, base) for offer in found]}
            for family, (log, found) in ordered.items()
        },
    }
    return {
        f"{channel.prefix}/_landing.json": canonical_json(data),
        f"{channel.prefix}/index.html": landing_page(channel, offers, base, table).encode(),
    }


def _with_lines(offer: Offer, channel: Channel, base: str) -> dict[str, object]:
    index = index_of(offer, channel.prefix, base)
    lines = {"index": index, "pip": pip_line(offer, index), "uv": uv_line(offer, index)}
    return {**msgspec.structs.asdict(offer), **lines}
