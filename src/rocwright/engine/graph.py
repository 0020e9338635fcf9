"""A pipeline as a value: steps, what each needs, what makes its result stale, and the order they come in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rocwright.errors import InvalidInput

V = TypeVar("V", bound=msgspec.Struct)
# Tells the display what a step is doing now.
Note = Callable[[str], None]
# Files and directories; or each with its sha256, None where it is not known.
Outputs = tuple[Path, ...] | Mapping[Path, str | None]


class Inputs(msgspec.Struct, frozen=True):
    """Results of the steps a step needs, by step id."""

    values: Mapping[str, msgspec.Struct]

    def get(self, step: str, type_: type[V]) -> V:
        """The result of `step`, checked to be of the expected type."""
        value = self.values[step]
        if not isinstance(value, type_):
            raise TypeError(f"step {step} gave {type(value).__name__}, expected {type_.__name__}")
        return value


class Step(msgspec.Struct, frozen=True):
    """One step: a frozen value in, a frozen value out, which can be written as JSON.

    `id` is readable and unique. `facts` returns what besides the needed results decides the outcome
    (options, fingerprints of inputs on disk); `rooms` names the code whose change makes an old result
    stale, also that of `act`. `reads` are files and directories that must look as they did before the step
    read them, `outputs` those that must still be as it left them, with their sha256 where it is known.
    `summary` is one line for people.
    """

    id: str
    result: type[msgspec.Struct]
    act: Callable[[Inputs, Note], msgspec.Struct]
    needs: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    facts: Callable[[], Any] = msgspec.field(default=lambda: None)
    reads: Callable[[], Sequence[Path]] = msgspec.field(default=lambda: ())
    outputs: Callable[[Any], Outputs] = msgspec.field(default=lambda _: ())
    summary: Callable[[Any], str] = msgspec.field(default=lambda _: "")


class Graph(msgspec.Struct, frozen=True):
    """Steps in an order in which each comes after what it needs."""

    steps: tuple[Step, ...]

    def __getitem__(self, step_id: str) -> Step:
        for step in self.steps:
            if step.id == step_id:
                return step
        raise InvalidInput(
            f"there is no step {step_id!r}", next_step="steps: " + " ".join(step.id for step in self.steps)
        )

    def closure(self, wanted: Iterable[str]) -> Graph:
        """The wanted steps and everything they need."""
        needed: set[str] = set()
        queue = list(wanted)
        while queue:
            step = self[queue.pop()]
            if step.id not in needed:
                needed.add(step.id)
                queue.extend(step.needs)
        return Graph(tuple(step for step in self.steps if step.id in needed))


def make_graph(steps: Iterable[Step], given: Collection[str] = ()) -> Graph:
    """Order steps so that each follows its needs, keeping the given order otherwise.

    `given` are ids of steps whose results are there already. Raises `InvalidInput` for a repeated id, an
    unknown need, or a cycle (naming its steps).
    """
    known: dict[str, Step] = {}
    for step in steps:
        if step.id in known:
            raise InvalidInput(f"two steps are called {step.id!r}")
        known[step.id] = step
    for step in known.values():
        for need in step.needs:
            if need not in known and need not in given:
                raise InvalidInput(f"step {step.id!r} needs {need!r}, which does not exist")
    try:
        return Graph(tuple(known[id_] for id_ in in_order({step.id: step.needs for step in known.values()})))
    except CycleError as error:
        circle = ", ".join(sorted(set(error.args[1])))
        raise InvalidInput(f"these steps need each other in a circle: {circle}") from None


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
