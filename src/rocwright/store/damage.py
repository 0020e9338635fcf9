"""What of a store is not as it was written: damaged objects, told by key, and strays, which are passed over.

Power loss, a full disk or a careless copy leave objects empty, cut off or missing. Who reads tells each of
them and goes on with what is whole; who changes something stops where a damaged part could matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from rocwright.errors import IntegrityError
from rocwright.system import console

MISSING = "it is missing"
EMPTY = "it is empty"
CHANGED = "it is not what its name says: cut off, or changed"
_REPAIR = "rocwright set repair brings back what can be had"


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
