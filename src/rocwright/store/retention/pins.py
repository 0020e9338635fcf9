"""Pins: names for sets that are kept, whatever the channels list. `pins/<name>.json`, one set each."""

from __future__ import annotations

import re

import msgspec

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.manifest import canonical_json
from rocwright.store.channel.lease import WHOLE_STORE, leased
from rocwright.store.channel.publish import require_files
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import read_listed

PINS = "pins/"
PIN_SCHEMA = "rocwright.pin/1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set that is kept. `at` is when it was pinned (RFC 3339, UTC), by the clock of whoever did."""

    set: str
    at: str
    reason: str = ""
    by: str = ""
    schema: str = PIN_SCHEMA


def read_pins(store: ObjectStore) -> dict[str, Pin]:
    """Every pin by its name, sorted; raises `InvalidData` for one that cannot be read."""
    found = {}
    for stored in store.list(PINS):
        name = stored.key.removeprefix(PINS).removesuffix(".json")
        # Whoever removes a pin waits for nobody.
        data = read_there(store, stored.key)
        if data is None:
            continue
        try:
            found[name] = msgspec.json.decode(data, type=Pin)
        except msgspec.MsgspecError as error:
            raise InvalidData(f"{stored.key} is no pin: {error}", where=stored.key) from error
    return found


def pin(store: ObjectStore, name: str, pinned: Pin) -> None:
    """Keep a set; raises `InvalidInput` for a name in use, `IntegrityError` when its files are gone."""
    key = _key(name)
    # Not while something is deleted: a pin holds from the moment it is there.
    with leased(store, WHOLE_STORE, by=pinned.by):
        known = read_pins(store).get(name)
        if known is not None and known.set != pinned.set:
            raise InvalidInput(
                f"the pin {name} holds set {known.set[:12]}",
                next_step=f"remove it first, or choose another name than {name}",
            )
        require_files(store, read_listed(store, pinned.set))
        if known is None:
            store.put_bytes(key, canonical_json(pinned))


def unpin(store: ObjectStore, name: str) -> None:
    """Remove a pin; raises `InvalidInput` when there is none of this name."""
    key = _key(name)
    if not store.exists(key):
        names = ", ".join(read_pins(store)) or "none"
        raise InvalidInput(f"there is no pin {name!r}", next_step=f"pins of this store: {names}")
    store.delete(key)


def _key(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"{name!r} is no valid name of a pin",
            next_step="choose one of letters, digits, dots, dashes and underscores",
        )
    return f"{PINS}{name}.json"
