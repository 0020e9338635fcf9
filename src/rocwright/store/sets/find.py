"""From what people write to a set: an id, the beginning of one, or a channel for its current set."""

from __future__ import annotations

import re

from rocwright.errors import InvalidInput, UsageError
from rocwright.model.channels import Channel, Channels
from rocwright.store.channel.log import read_state
from rocwright.store.channel.order import current_of
from rocwright.store.layout import LOG, channel_prefix, set_prefix
from rocwright.store.objects.protocol import ObjectStore

_DIGITS = re.compile(r"[0-9a-f]{8,64}")
_HOW = "give 8 or more digits of its id, or a channel and family such as release:gfx94X-dcgpu"


def resolve_set(store: ObjectStore, channels: Channels, text: str) -> str:
    """The id of the set that `text` names.

    All 64 digits of an id, the first 8 or more where only one set has them, or `CHANNEL:FAMILY` for the
    set that installers take from there; the family may be left out where the channel has one. Raises
    `InvalidInput` for text that names no set, or several.
    """
    channel, colon, _ = text.partition(":")
    if not colon and _DIGITS.fullmatch(text):
        return _by_digits(store, text)
    if not colon and channel not in {name for one in channels.channel for name in (one.name, one.prefix)}:
        raise InvalidInput(f"{text!r} names no set", next_step=_HOW)
    chosen, family = named_place(store, channels, text)
    return current_set(store, chosen, family)


def current_set(store: ObjectStore, channel: Channel, family: str = "") -> str:
    """The set of a family that installers take from a channel: the highest version; see `the_family`."""
    family = the_family(store, channel, family)
    current = current_of(store, read_state(store, channel_prefix(channel.prefix, family)))
    if current is None:
        raise InvalidInput(
            f"{channel.name} lists no set for {family} that is not withdrawn",
            next_step="rocwright set list shows the sets of the store",
        )
    return current


def named_place(store: ObjectStore, channels: Channels, text: str) -> tuple[Channel, str]:
    """The channel and family that `CHANNEL:FAMILY` names; the family may be left out where there is one."""
    name, _, family = text.partition(":")
    channel = channels.named(name)
    return channel, the_family(store, channel, family)


def the_family(store: ObjectStore, channel: Channel, family: str = "") -> str:
    """The family itself where the channel has it, or its only one; raises `InvalidInput` else."""
    families = channel_families(store, channel)
    if family in families:
        return family
    there = f"families: {', '.join(families)}" if families else "it lists nothing"
    if family:
        raise InvalidInput(f"{channel.name} has no family {family!r}; {there}", next_step=_HOW)
    if len(families) != 1:
        raise InvalidInput(f"{channel.name} alone names no set; {there}", next_step=_HOW)
    return families[0]


def channel_families(store: ObjectStore, channel: Channel) -> tuple[str, ...]:
    """Families that something was ever listed for in a channel, sorted."""
    found = store.folders(f"{channel.prefix}/")
    return tuple(
        name
        for name in found
        if not name.startswith("_") and store.folders(f"{channel.prefix}/{name}/").count(LOG.rstrip("/"))
    )


def chosen_set(
    store: ObjectStore,
    channels: Channels,
    channel: Channel,
    text: str,
    *,
    before: str | None = None,
    family: str = "",
) -> str:
    """The set that is to go into `channel`: as `resolve_set`, or `newest`.

    Newest is the current set of the channel `before`, by default the one that sets of `channel` have to be in
    before. Raises `UsageError` for a `newest` that nothing comes before.
    """
    if text != "newest":
        return resolve_set(store, channels, text)
    first = before or channel.after
    if first is None:
        raise UsageError(
            f"nothing comes before {channel.name}", next_step="say which channel: --from, or a set"
        )
    return current_set(store, channels.named(first), family)


def _by_digits(store: ObjectStore, digits: str) -> str:
    if len(digits) == 64:
        if not store.exists(f"{set_prefix(digits)}manifest.json"):
            raise InvalidInput(
                f"the store has no set {digits}", next_step="rocwright set list shows its sets"
            )
        return digits
    found = [
        name
        for name in store.folders("sets/")
        if name.startswith(digits) and store.exists(f"{set_prefix(name)}manifest.json")
    ]
    if not found:
        raise InvalidInput(f"no set's id begins with {digits}", next_step="rocwright set list shows all sets")
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} sets begin with {digits}: {', '.join(one[:16] for one in found[:5])}",
            next_step="give more digits",
        )
    return found[0]
