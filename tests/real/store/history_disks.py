"""The kinds of stores of a simulated history: what a folder and a bucket can be, and what they do not do.

A power cut is known to the stand-in: what was not synced by then is there or not, by chance. What counts as
synced is what `LocalStore` promises: an operation that returned. But files, what belongs to sets, and pages
may be synced together, at the latest before the same publisher writes anywhere else or is done; leases, which
nobody misses, not at all; and what a publisher wrote when it was killed, when another one relies on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from real.store.history_store import Memory
from rocwright.store.layout import check_key
from rocwright.store.lease import LEASES


class Unconditional(Memory):
    """A server that accepts "only if it is not there" and ignores it: the last of two writers wins."""

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        self.objects[check_key(key)] = data


class Disk(Memory):
    """A folder whose disk may lose power; `sync` and `whole` are promises that a test can take out."""

    sync = True
    whole = True

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        super().__init__(objects)
        # What stood under a key before it was written and not synced since.
        self.unsynced: dict[str, bytes | None] = {}
        self.together: dict[int, set[str]] = {}

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        before = self.objects.get(key)
        super().put_bytes(key, data, overwrite=overwrite)
        if before != data:
            self.unsynced.setdefault(key, before)

    def delete(self, key: str) -> None:
        if key in self.objects:
            self.unsynced.setdefault(key, self.objects[key])
        super().delete(key)

    def begin(self, owner: int, key: str) -> None:
        """A publisher is about to write: what it wrote together is synced before it writes anywhere else."""
        if self.sync and key and not _is_together(key) and not key.startswith(LEASES):
            for one in self.together.pop(owner, ()):
                self.unsynced.pop(one, None)

    def settle(self, owner: int, key: str, *, write: bool) -> None:
        """A publisher wrote or looked for a key, or listed a prefix; an empty key says that it is done."""
        mine = self.together.setdefault(owner, set())
        if not write:
            # What it relies on is to last as long as what it writes, whoever was killed before syncing it.
            mine.update(one for one in self.unsynced if one == key or (key and one.startswith(key)))
        elif _is_together(key):
            mine.add(key)
        elif self.sync and not key.startswith(LEASES):
            for one in (*mine, key):
                self.unsynced.pop(one, None)
            mine.clear()

    def lose(self, chance: random.Random) -> list[str]:
        """The power goes: the keys under which there is something else, or nothing, now."""
        lost = []
        for key, before in self.unsynced.items():
            if chance.random() < 0.5:
                continue
            lost.append(key)
            if not self.whole and key in self.objects:
                self.objects[key] = self.objects[key][: len(self.objects[key]) // 2]
            elif before is None:
                self.objects.pop(key, None)
            else:
                self.objects[key] = before
        self.unsynced.clear()
        self.together.clear()
        return lost


def _is_together(key: str) -> bool:
    return key.startswith(("files/", "sets/")) or key.endswith("/index.html")


KINDS: dict[str, Callable[[], Memory]] = {
    "conditional": Memory,
    "unconditional": Unconditional,
    "disk": Disk,
}
