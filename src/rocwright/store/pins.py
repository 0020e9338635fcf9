"""Pins: names for sets that are kept, whatever the channels list: `pins/<name>.json`."""

from __future__ import annotations

import re

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.sets import canonical_json
from rocwright.store.damage import Damage, Tell, how, pass_over, refuse
from rocwright.store.lease import WHOLE_STORE, leased
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.publish import require_files
from rocwright.store.sets.records import read_listed

PINS = "pins/"
PIN_SCHEMA = "rocwright.pin/1"
_PIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set that is kept. `at` is when it was pinned (RFC 3339, UTC), by the clock of whoever did."""

    set: str
    at: str
    reason: str = ""
    by: str = ""
    schema: str = PIN_SCHEMA


def read_pins(store: ObjectStore, tell: Tell = refuse) -> dict[str, Pin]:
    """Every pin by its name, sorted; `tell` is told of one that is damaged."""
    found = {}
    for stored in store.list(PINS):
        name = stored.key.removeprefix(PINS).removesuffix(".json")
        if stored.key != f"{PINS}{name}.json" or _PIN_NAME.fullmatch(name) is None:
            pass_over([stored.key])
            continue
        # Whoever removes a pin waits for nobody.
        data = read_there(store, stored.key)
        if data is None:
            continue
        try:
            found[name] = msgspec.json.decode(data, type=Pin)
        except msgspec.MsgspecError:
            tell(Damage(stored.key, _pin_lost(name, data)))
    return found


def _pin_lost(name: str, data: bytes) -> str:
    return (
        f"{how(data)}; say again what it keeps (set pin {name} SET), or remove it (set pin {name} --remove)"
    )


def pin(store: ObjectStore, name: str, pinned: Pin) -> None:
    """Keep a set; raises `InvalidInput` for a name in use, `IntegrityError` when its files are gone."""
    key = _pin_key(name)
    # Not while something is deleted: a pin holds from the moment it is there.
    with leased(store, WHOLE_STORE, by=pinned.by):
        # One that is damaged is said again.
        known = read_pins(store, lambda damage: None).get(name)
        if known is not None and known.set != pinned.set:
            raise InvalidInput(
                f"the pin {name} holds set {known.set[:12]}",
                next_step=f"remove it first, or choose another name than {name}",
            )
        require_files(store, read_listed(store, pinned.set))
        if known is None:
            store.put_bytes(key, canonical_json(pinned), overwrite=store.exists(key))


def unpin(store: ObjectStore, name: str) -> None:
    """Remove a pin; raises `InvalidInput` when there is none of this name."""
    key = _pin_key(name)
    if not store.exists(key):
        names = ", ".join(read_pins(store, lambda damage: None)) or "none"
        raise InvalidInput(f"there is no pin {name!r}", next_step=f"pins of this store: {names}")
    store.delete(key)


def _pin_key(name: str) -> str:
    if _PIN_NAME.fullmatch(name) is None:
        raise InvalidInput(
            f"{name!r} is not a valid pin name",
            next_step="choose one of letters, digits, dots, dashes and underscores",
        )
    return f"{PINS}{name}.json"
