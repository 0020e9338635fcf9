"""From kinds of steps and rows of the matrix to cells, and from cells to the jobs of machines. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import product
from operator import attrgetter

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.plan import Cell, Group, Job, cell_digest
from rocwright.pipeline.define.kinds import AXES, Axis, Kind, in_order

# (family, platform) -> (label of a runner, why there is none)
RunnerOf = Callable[[str, str], tuple[str, str]]
# Where a result goes, which does not change what it is.
_PLACES = ("run",)
# What stands in an id as it is; it has to pass as a key of a store and as a bare word of a shell.
_STRANGE = re.compile(r"[^A-Za-z0-9._+-]")
_PLACE = attrgetter("job", *AXES)


def _whole(family: str) -> tuple[str, ...]:
    return ("",)


class Row(msgspec.Struct, frozen=True, dict=True):
    """One build: a place on all axes but those of single parts, families and shards.

    `here` is the group as this branch has it, where that is not all of it; `shards` are those of its tests,
    by the family whose GPU they run on (empty: none).
    """

    platform: str
    python: str
    ref: str
    group: Group
    parts: tuple[str, ...] = ("",)
    here: Group | None = None
    shards: Callable[[str], tuple[str, ...]] = _whole

    def group_of(self, axes: Sequence[Axis]) -> Group:
        """What of the group a kind with these axes is about: all of it, unless it is of one branch."""
        return (self.here or self.group) if "ref" in axes else self.group

    @cached_property
    def _values(self) -> Mapping[str, Sequence[str]]:
        return {
            "platform": (self.platform,),
            "python": (self.python,),
            "ref": (self.ref,),
            "group": (self.group.name,),
            "part": self.parts,
        }

    def places(self, axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
        """Values by `axes`, once for each part, family and shard where the kind has these axes."""
        values, families = self._values, self.group_of(axes).families
        held = (families if axis == "family" else values[axis] for axis in axes if axis != "shard")
        if "shard" not in axes:
            yield from product(*held)
            return
        for place in product(*held):
            family = dict(zip(axes, place, strict=False)).get("family", "")
            yield from ((*place, shard) for shard in self.shards(family))


# Settings of a cell by its kind and its row: what decides its result besides what it needs.
SettingsOf = Callable[[Kind, Row], dict[str, str]]


def cell_id(kind: str, values: Mapping[str, str]) -> str:
    """`build-torch/linux/cp312/release-2.9/gfx94X-dcgpu`; a family named as its group is not repeated."""
    words = [kind]
    for axis in AXES:
        value = values.get(axis, "")
        if not value or (axis == "family" and value == values.get("group")):
            continue
        words.append(_word(axis, value))
    return "/".join(words)


@cache
def _word(axis: Axis, value: str) -> str:
    return f"cp{value.replace('.', '')}" if axis == "python" else _STRANGE.sub("-", value)


def make_cells(
    kinds: Sequence[Kind], rows: Sequence[Row], *, settings: SettingsOf, runner: RunnerOf
) -> tuple[Cell, ...]:
    """Every cell of the rows, each after what it needs.

    Raises `InvalidInput` for kinds that do not fit together (`in_order`), and for two cells of one id: values
    of an axis that differ only in what an id cannot hold.
    """
    kinds = in_order(kinds)
    made: dict[str, Cell] = {}
    found = _Found(kinds)
    for kind in kinds:
        for values, row in _places(kind, rows).items():
            here: dict[str, str] = dict(zip(kind.axes, values, strict=True))
            needs = {need: found.of(kind, need, here) for need in kind.needs}
            cell = _cell(kind, here, needs, made, settings(kind, row), runner)
            if cell.id in made:
                raise InvalidInput(
                    f"two steps of this run are called {cell.id}",
                    next_step="give each family once, and no two branches that differ only in / and -",
                )
            made[cell.id] = cell
            found.enter(kind, here, cell.id)
    return tuple(made.values())


def _places(kind: Kind, rows: Sequence[Row]) -> dict[tuple[str, ...], Row]:
    """Each place of a kind once, with the first row that has it."""
    places: dict[tuple[str, ...], Row] = {}
    for row in rows:
        for values in row.places(kind.axes):
            places.setdefault(values, row)
    return places


class _Found:
    """Ids of cells by those of their axes that a later kind shares with them."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        named = {kind.name: kind for kind in kinds}
        self._shared: dict[tuple[str, str], tuple[Axis, ...]] = {
            (kind.name, need): tuple(axis for axis in named[need].axes if axis in kind.axes)
            for kind in kinds
            for need in kind.needs
        }
        self._asked: dict[str, set[tuple[Axis, ...]]] = {}
        for (_, need), shared in self._shared.items():
            self._asked.setdefault(need, set()).add(shared)
        self._ids: dict[tuple[object, ...], list[str]] = {}

    def of(self, kind: Kind, need: str, here: Mapping[str, str]) -> Sequence[str]:
        """The cells of the kind `need` at a place of `kind`: all there are on axes that `kind` has not."""
        shared = self._shared[kind.name, need]
        return self._ids.get((need, shared, *map(here.__getitem__, shared)), ())

    def enter(self, kind: Kind, here: Mapping[str, str], id_: str) -> None:
        """Remember a cell that was made."""
        for shared in self._asked.get(kind.name, ()):
            key = (kind.name, shared, *map(here.__getitem__, shared))
            self._ids.setdefault(key, []).append(id_)


def _cell(
    kind: Kind,
    here: Mapping[str, str],
    found: Mapping[str, Sequence[str]],
    made: Mapping[str, Cell],
    given: dict[str, str],
    runner: RunnerOf,
) -> Cell:
    needs = [id_ for ids in found.values() for id_ in ids]
    label, why = runner(here["family"], here["platform"]) if kind.gpu else ("", "")
    # The name of a group decides nothing: its targets do, which stand in the settings.
    decides = {
        name: value for name, value in (*given.items(), *here.items()) if name not in ("group", *_PLACES)
    }
    return Cell(
        id=cell_id(kind.name, here),
        kind=kind.name,
        job=kind.job,
        **here,
        needs=tuple(needs),
        spare=tuple(id_ for need in kind.spare for id_ in found[need]),
        settings=given,
        changes=kind.changes,
        last=kind.last,
        runner=label,
        skip="" if label or not kind.gpu else why,
        digest=cell_digest(kind.name, decides, [made[need].digest for need in needs]),
    )


def make_jobs(cells: Sequence[Cell]) -> tuple[Job, ...]:
    """Cells of one job and place together, each job after those it needs.

    Raises `InvalidInput` where two jobs have one id, and where jobs would wait for each other.
    """
    places: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        places.setdefault(_PLACE(cell), []).append(cell)
    ids = {place: cell_id(place[0], dict(zip(AXES, place[1:], strict=True))) for place in places}
    job_of = {cell.id: ids[place] for place, held in places.items() for cell in held}
    jobs: dict[str, Job] = {}
    for place, held in places.items():
        if ids[place] in jobs:
            raise InvalidInput(f"two jobs of this run are called {ids[place]}")
        jobs[ids[place]] = _job(ids[place], held, job_of)
    return _in_order(jobs)


def _job(id_: str, held: Sequence[Cell], job_of: Mapping[str, str]) -> Job:
    first = held[0]
    needs = dict.fromkeys(job_of[need] for cell in held for need in cell.needs)
    needs.pop(id_, None)
    return Job(
        id=id_,
        name=first.job,
        platform=first.platform,
        group=first.group,
        python=first.python,
        ref=first.ref,
        part=first.part,
        family=first.family,
        shard=first.shard,
        cells=tuple(cell.id for cell in held),
        needs=tuple(needs),
        last=any(cell.last for cell in held),
        runner=next((cell.runner for cell in held if cell.runner), ""),
        skip=first.skip if all(cell.skip for cell in held) else "",
    )


def _in_order(jobs: Mapping[str, Job]) -> tuple[Job, ...]:
    order = TopologicalSorter({id_: job.needs for id_, job in jobs.items()})
    try:
        return tuple(jobs[id_] for id_ in order.static_order())
    except CycleError as error:
        raise InvalidInput(
            f"these jobs wait for each other: {' -> '.join(error.args[1])}",
            next_step="give kinds of steps that stand between others a job of their own",
        ) from None
