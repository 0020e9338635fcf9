"""One order for whatever needs each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from graphlib import TopologicalSorter
from heapq import heappop, heappush


def in_order(needs: Mapping[str, Collection[str]]) -> list[str]:
    """The names so that each stands behind those it needs, otherwise as they are given.

    What is needed and not itself among the names is left out. Raises `graphlib.CycleError`, whose second
    argument is a circle from one name back to it.
    """
    sorter = TopologicalSorter({name: [need for need in needs[name] if need in needs] for name in needs})
    sorter.prepare()
    place = {name: number for number, name in enumerate(needs)}
    ready: list[tuple[int, str]] = []
    found: list[str] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heappush(ready, (place[name], name))
        first = heappop(ready)[1]
        found.append(first)
        sorter.done(first)
    return found
