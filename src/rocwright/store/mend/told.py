"""What a repair did or would do, thing by thing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Mending = Literal["brought back", "set aside", "taken out", "written anew", "left"]


class Mended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing: what was done with which object or set, and how or why.

    `brought back`: it is what it was. `written anew`: a page, or what says the same as something lost.
    `set aside`: moved below `_damaged/`. `taken out`: a set that the channel lists no more. `left`: it is as
    it was, and somebody has to say what is meant.
    """

    done: Mending
    key: str
    how: str

    def __str__(self) -> str:
        return f"{self.done}: {self.key}: {self.how}"


Say = Callable[[Mended], None]
