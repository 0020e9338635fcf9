"""Whose signatures count: public keys of a channel by role, and how many of them have to sign."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from rocwright.errors import InvalidData

_KEY = re.compile(r"ed25519:[A-Za-z0-9+/]{43}=")

# What a key may answer for: `release` for sets, what is listed, waivers, bypasses and promotions; `evidence`
# for what was built, checked and tested; `root` for who these are.
Role = Literal["release", "evidence", "root"]


class Trusted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The public keys that a channel trusts, by role, each as `rocwright set sign` prints it.

    Without `root`, the keys of `release` say who comes after them. `thresholds` are how many keys of a role
    have to sign (default: 1). `version` is the lowest version of the store's own root of trust that counts.
    """

    release: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    root: tuple[str, ...] = ()
    thresholds: dict[Role, int] = {}
    version: int = 0

    def __post_init__(self) -> None:
        for key in (*self.release, *self.evidence, *self.root):
            require_public(key)
        roles: tuple[Role, ...] = ("release", "evidence", "root")
        for role in roles:
            count, keys = self.threshold(role), len(set(self.keys(role)))
            if not 1 <= count <= max(keys, 1) or (not keys and role != "evidence"):
                raise InvalidData(
                    f"{count} signatures of {role} are asked for, and {keys} keys are trusted with that",
                    next_step="ask for one at least, and for no more than there are keys",
                )

    def keys(self, role: Role) -> tuple[str, ...]:
        """The keys of a role."""
        return {"release": self.release, "evidence": self.evidence, "root": self.root or self.release}[role]

    def threshold(self, role: Role) -> int:
        """How many keys of a role have to sign."""
        usual = 1 if role != "root" or self.root else self.thresholds.get("release", 1)
        return self.thresholds.get(role, usual)


def require_public(key: str) -> None:
    """Raise `InvalidData` for text that is not a public key."""
    if _KEY.fullmatch(key) is None:
        raise InvalidData(
            f"{key!r}, which a channel trusts, is not a public key",
            next_step="write it as rocwright set sign prints it: ed25519: and 44 characters",
        )
