"""What befalls a store from outside while nobody is at work: damaged objects, strays; and who puts it right.

Damage is done to the raw objects. A repair runs as any publisher does, killed and started again. When it is
done, `history_rest` says whether everything is as it was.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from real.store.history_checks import Checker, Violation
from real.store.history_store import Memory
from rocwright.model.channels import Channels
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.publish import repair

# Only a store that mends more than pages is damaged in more than them.
MENDS = find_spec("rocwright.store.mend") is not None
_HOW = ("gone", "empty", "cut", "changed")
Job = Callable[[ObjectStore], Any]


def harm_pages(checker: Checker, prefix: str, chance: random.Random) -> list[str]:
    """Damage some pages of a channel, each deleted, emptied, cut off or written over; returns which."""
    served = [
        key
        for folder in sorted(checker.world.folders)
        if f"{folder}/".startswith(prefix) and not folder.endswith(("/_log", "/_signatures"))
        for key in checker.world.inside(folder)
    ]
    chosen = chance.sample(served, min(len(served), chance.randint(1, 3)))
    for key in chosen:
        _harm(checker, key, chance)
    checker.damaged.add(prefix)
    return chosen


def repair_pages(prefix: str) -> Job:
    """Who writes the pages of a channel anew."""
    return lambda store: repair(store, prefix)


def harm_objects(checker: Checker, prefix: str, chance: random.Random) -> list[str]:
    """Damage what does not follow from the log: files, manifests, statements, events; and leave a stray."""
    world = checker.world
    keys = [key for key, _ in checker.folded(prefix).events]
    for one in checker.standing(prefix):
        keys += [f"sets/{one}/manifest.json", *world.inside(f"sets/{one}/_statements")]
        keys += checker.objects_of(one)
    chosen = chance.sample(keys, min(len(keys), chance.randint(1, 4)))
    for key in chosen:
        _harm(checker, key, chance)
    stray = f"{prefix}_log/{chance.choice(['Thumbs.db', 'x.json', 'desktop.ini'])}"
    world.backing.put_bytes(stray, b"not of a store", overwrite=True)
    world.came(stray)
    checker.damaged |= {prefix, prefix.replace("v2/", "v2-staging/"), prefix.replace("v2-staging/", "v2/")}
    return chosen


def repair_objects(channels: Channels, copy: Memory, at: str) -> Job:
    """Who puts a store right, with a copy of it at hand: `set repair --from`."""
    from rocwright.store.mend.store import mend_store

    return lambda store: mend_store(store, channels, at=at, places=[copy])


def mended(checker: Checker, harmed: list[str], before: dict[str, bytes]) -> None:
    """Each damaged object has its bytes again; raises `Violation`.

    An event of a log may also be taken out, where another says the same: what the log comes to is compared.
    """
    for key in harmed:
        checker.checks["mended"] += 1
        there = key in checker.world.modified
        if not there and "/_log/" in key:
            continue
        if not there or checker.world.backing.read(key) != before[key]:
            raise Violation(f"{key} was damaged, and is not mended although a copy of it was at hand")


def _harm(checker: Checker, key: str, chance: random.Random) -> None:
    world = checker.world
    data = world.backing.read(key)
    # That a statement was there which is gone, nothing tells.
    how = chance.choice(["empty", "cut", "changed"] if "/_statements/" in key else _HOW)
    checker.checks["objects damaged"] += 1
    world.remembered.pop(key, None)
    if how == "gone":
        world.backing.delete(key)
        world.went(key)
        return
    bad = {"empty": b"", "cut": data[: len(data) // 2], "changed": data[:-1] + b"\0"}[how]
    world.backing.put_bytes(key, bad, overwrite=True)
