"""What of a store is not as it was written: damaged objects, told by key, and strays, which are passed over.

Power loss, a full disk or a careless copy leave objects empty, cut off or missing. Who reads tells each of
them and goes on with what is whole; who changes something stops where a damaged part could matter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from rocwright.errors import IntegrityError, RocwrightError
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.system import console
from rocwright.system.files import sha256_file

MISSING = "it is missing"
EMPTY = "it is empty"
CHANGED = "it is not what its name says: cut off, or changed"
_REPAIR = "`rocwright set repair` brings back what can be had"


class Damage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """What is wrong with which object."""

    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}"


# Told of each damaged object that is passed over.
Tell = Callable[[Damage], None]


def refuse(damage: Damage) -> None:
    """The teller of those who cannot do without: raises `IntegrityError`."""
    raise IntegrityError(str(damage), where=damage.key, next_step=_REPAIR)


def as_damage(error: RocwrightError) -> Damage:
    """What an error about a damaged object says of it."""
    key = error.where or ""
    return Damage(key, error.what.removeprefix(f"{key}: "))


def require_whole(damaged: Iterable[Damage], what: str, next_step: str = _REPAIR) -> None:
    """Raise `IntegrityError` where anything is damaged; `what` says what therefore is not known."""
    found = sorted(set(damaged))
    if not found:
        return
    others = f", and {len(found) - 1} more" if len(found) > 1 else ""
    raise IntegrityError(f"{what}: {found[0]}{others}", where=found[0].key, next_step=next_step)


def how(data: bytes | None) -> str:
    """What is wrong with these bytes of an object that cannot be read as what it has to be."""
    return MISSING if data is None else CHANGED if data else EMPTY


# Told already, so that a stray that is met ten times is told once.
_met: set[str] = set()


def pass_over(strays: Iterable[str]) -> None:
    """Say once that these keys are no objects of a store; nothing is done with them."""
    new = sorted(set(strays) - _met)
    _met.update(new)
    if new:
        others = f" and {len(new) - 1} more" if len(new) > 1 else ""
        console.say(f"note: ignored, as no object of a store has such a name: {new[0]}{others}")


# -- names that tell what stands under them, so that they say which bytes are right


# Where damaged objects are moved to, each below its own key.
DAMAGED = "_damaged/"
_TELLING = (
    re.compile(r"files/(?P<digest>[0-9a-f]{64})/(?!.*\.metadata\Z)[^/]+"),
    re.compile(r"sets/(?P<digest>[0-9a-f]{64})/manifest\.json"),
    re.compile(r"sets/[0-9a-f]{64}/_statements/.+-(?P<digest>[0-9a-f]{32})\.json"),
    re.compile(r".+/_log/.+-(?P<digest>[0-9a-f]{16})\.json"),
)


def told_by(key: str) -> str | None:
    """The beginning of the hex sha256 that what stands under the key must have; None where it tells none."""
    return next((match["digest"] for form in _TELLING if (match := form.fullmatch(key))), None)


def fits_name(key: str, sha256: str) -> bool:
    """Whether bytes of this hex sha256 may stand under a key that tells of them."""
    told = told_by(key)
    return told is not None and sha256.startswith(told)


def put_right(store: ObjectStore, key: str, data: bytes) -> None:
    """As `put_bytes`; but what stands under the key and does not fit it is replaced by what fits."""
    if fits_name(key, hashlib.sha256(data).hexdigest()):
        there = read_there(store, key)
        if there is not None and not fits_name(key, hashlib.sha256(there).hexdigest()):
            store.put_bytes(key, data, overwrite=True)
            _put_back(key)
            return
    store.put_bytes(key, data)


def put_file_right(store: ObjectStore, path: Path, key: str) -> None:
    """As `put_file`; but what stands under the key and does not fit it is replaced by what fits."""
    if told_by(key) and store.exists(key) and not fits_name(key, store.digest(key)):
        if not fits_name(key, sha256_file(path)):
            refuse(Damage(key, CHANGED))
        # Nobody can use what is there.
        store.delete(key)
        _put_back(key)
    store.put_file(path, key)


def _put_back(key: str) -> None:
    console.say(f"put back, as it was damaged: {key}")


def set_aside(store: ObjectStore, key: str) -> str:
    """Move a damaged object below `_damaged/`, where nobody looks for it; returns its key there."""
    aside = f"{DAMAGED}{key}"
    if store.exists(key):
        if store.exists(aside) and store.digest(aside) != (digest := store.digest(key)):
            aside += f".{digest[:16]}"
        # It may be a wheel of gigabytes.
        store.copy(key, aside)
        store.delete(key)
    return aside
