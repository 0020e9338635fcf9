"""The plan of a run: made from a profile and what is asked for, read from a file, cut down to a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import msgspec

from rocwright.errors import InvalidData, UsageError
from rocwright.gputest.shards.level import NONE_OF_MINIATURE, NONE_TO_RUN, on_gpu, on_host, parse_shard
from rocwright.model.gpu import expand
from rocwright.model.plan import (
    SCHEMA,
    Cell,
    Choice,
    Group,
    Plan,
    Profile,
    Publication,
    cell_digest,
    parse_plan,
    unknown_step,
)
from rocwright.model.platforms import platform_named
from rocwright.pipeline.define.cells import Row, make_cells, make_jobs
from rocwright.pipeline.define.inputs import Known
from rocwright.pipeline.define.kinds import BUILD_EXTENSION, EMULATED_ON, LOCK_EXTENSION, SUMMARY, Kind, kinds
from rocwright.pipeline.define.run_matrix import RunMatrix, resolve

# Ids that a note names.
_FEW = 8


def make_plan(profile: Profile, choice: Choice, known: Known, publication: Publication) -> Plan:
    """Every cell of a run.

    Raises `UsageError` and `InvalidTarget` for what does not fit together, before anything is begun.
    """
    asked = resolve(profile, choice, known)
    runner = cache(known.runners.of_run(asked.tier, choice.run_id, bump=choice.bump))
    cells: list[Cell] = []
    for platform, held in asked.groups.items():
        rows = [row for group in held for row in _rows(platform, group, asked, known)]
        cells += make_cells(
            _kinds(platform, asked, profile),
            rows,
            settings=lambda kind, row: _settings(kind, row, profile, choice, asked, known),
            runner=runner,
        )
    cells = [_own_tests(cell, asked, known) for cell in cells]
    cells.append(_summary(cells))
    return Plan(
        schema=SCHEMA,
        profile=profile.name,
        run_id=choice.run_id,
        sources=asked.sources,
        rocm=asked.rocm,
        publication=publication,
        groups=tuple(group for held in asked.groups.values() for group in held),
        cells=tuple(cells),
        jobs=make_jobs(cells),
        notes=asked.notes,
    )


def read_plan_file(path: Path) -> Plan:
    """A plan that was written as JSON; raises `InvalidData` naming the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidData(
            f"{path} cannot be read: {error.strerror}",
            where=path,
            next_step="make it with: rocwright pipeline plan --json",
        ) from error
    return parse_plan(data, where=str(path))


def require_upload(plan: Plan) -> None:
    """Raises `UsageError` in a dry run, which writes nothing to its store."""
    if not plan.publication.upload:
        raise UsageError(
            f"the plan cannot be recorded: {plan.publication.why}",
            next_step="keep it as a file (--json > plan.json), and give it to the steps as --plan",
        )


def chosen(plan: Plan, globs: Sequence[str]) -> Plan:
    """The plan with those cells only whose id, or whose job's, fits one of `globs`.

    They keep their needs; what is needed and not chosen is taken from the records of the run, and a note says
    so. Raises `InvalidInput` naming near ids for a pattern that nothing fits.
    """
    held: set[str] = set()
    for glob in globs:
        fits = {cell.id for cell in plan.cells if fnmatchcase(cell.id, glob)}
        fits |= {id_ for job in plan.jobs if fnmatchcase(job.id, glob) for id_ in job.cells}
        if not fits:
            kinds = dict.fromkeys(f"{cell.kind}/*" for cell in plan.cells)
            raise unknown_step(glob, [*kinds, *(cell.id for cell in plan.cells)])
        held |= fits
    cells = tuple(cell for cell in plan.cells if cell.id in held)
    jobs = tuple(
        msgspec.structs.replace(job, cells=kept)
        for job in plan.jobs
        if (kept := tuple(id_ for id_ in job.cells if id_ in held))
    )
    taken = dict.fromkeys(need for cell in cells for need in cell.needs if need not in held)
    notes = plan.notes
    if taken:
        few = " ".join(list(taken)[:_FEW])
        more = f" and {len(taken) - _FEW} more" if len(taken) > _FEW else ""
        notes = (*notes, f"taken from the records of the run, not done: {few}{more}")
    return msgspec.structs.replace(plan, cells=cells, jobs=jobs, notes=notes)


def _rows(platform: str, group: Group, asked: RunMatrix, known: Known) -> list[Row]:
    pairs = product(asked.pythons, asked.refs[platform, group.name].items())
    shards = _shards(platform, asked, known)
    return [
        Row(platform, python, ref, group, _parts(here, asked.device_groups), here, shards)
        for python, (ref, here) in pairs
    ]


def _shards(platform: str, asked: RunMatrix, known: Known) -> Callable[[str], tuple[str, ...]]:
    """The shards of PyTorch's own tests, by the family whose GPU they run on; none of the miniature's."""
    table = known.levels
    if table is None or asked.sources == "miniature":
        return lambda family: ("",)
    level, recorded, here = table.at(asked.test_level), known.recorded, platform_named(platform)

    @cache
    def shards(family: str) -> tuple[str, ...]:
        if not family:
            return on_host(level, table, recorded, here)
        row = known.runners.on(family, platform)
        if row is not None and row.sanity_only:
            return ("",)
        return on_gpu(level, table, recorded, here, expand([family], known.families))

    return shards


def _own_tests(cell: Cell, asked: RunMatrix, known: Known) -> Cell:
    """PyTorch's own tests where they can run; that there is nothing to run is no pass.

    The miniature family has the smoke tests alone, and some configurations need a machine with several GPUs.
    """
    if cell.kind not in ("test-units", "test-pytorch"):
        return cell
    if cell.kind == "test-units" and asked.sources == "miniature":
        return msgspec.structs.replace(cell, skip=NONE_OF_MINIATURE)
    config = parse_shard(cell.shard).config
    if known.levels is None or not config or known.levels.config_row(config).gpus == "one" or cell.skip:
        return cell
    label = known.runners.multi_gpu_of(cell.family, cell.platform)
    where = f"{cell.family} on {cell.platform}"
    none = (
        ""
        if label
        else f"{NONE_TO_RUN}: {config} needs several GPUs, and there is no such runner for {where}"
    )
    return msgspec.structs.replace(cell, runner=label, skip=none)


def _kinds(platform: str, asked: RunMatrix, profile: Profile) -> tuple[Kind, ...]:
    return kinds(
        asked.projects[platform],
        split=asked.split,
        parts=asked.device_groups > 1,
        staged=bool(profile.stage),
        promoted=bool(profile.promote),
        pytorch=asked.build_pytorch,
        rocm=asked.rocm.kind != "packages",
        emulated=profile.emulated and platform in EMULATED_ON,
        extensions=[(one.project, needs) for one, needs in asked.extensions[platform]],
        extensions_may_fail=profile.extensions_may_fail,
    )


def _parts(group: Group, count: int) -> tuple[str, ...]:
    """`gfx906+gfx90a`, …: the targets of a group in so many parts, as equal as they can be."""
    if count == 1:
        return ("",)
    if count > len(group.targets):
        raise UsageError(
            f"{group.name} has {len(group.targets)} targets, which cannot be built in {count} parts",
            next_step=f"give --device-groups {len(group.targets)} or fewer",
        )
    cut = [len(group.targets) * number // count for number in range(count + 1)]
    return tuple("+".join(group.targets[a:b]) for a, b in pairwise(cut))


def _settings(
    kind: Kind, row: Row, profile: Profile, choice: Choice, asked: RunMatrix, known: Known
) -> dict[str, str]:
    """What decides a cell's result: nothing of the profile, but for what goes to its run or a channel."""
    found: dict[str, str] = {}
    if "group" in kind.axes:
        found["targets"] = " ".join(row.group_of(kind.axes).targets)
    if kind.name in ("rocm-artifacts", "rocm-packages"):
        found["rocm"] = asked.rocm.words
    if kind.name == "lock-sources":
        found["sources"] = asked.sources
    if kind.name.startswith((LOCK_EXTENSION, BUILD_EXTENSION)):
        wanted = {one.project: one for one, _ in asked.extensions[row.platform]}
        found["extension"] = str(wanted[kind.name.removeprefix(LOCK_EXTENSION).removeprefix(BUILD_EXTENSION)])
    level = " ".join((asked.test_level, *choice.tests))
    if kind.name in ("test-units", "test-pytorch") or (kind.name == "test-rocm" and level != "quick"):
        found["tests"] = level
    if "shard" in kind.axes and known.recorded.runs:
        places = row.group_of(kind.axes).families if kind.gpu else ("",)
        if any(len(row.shards(place)) > 1 for place in places):
            # Every machine cuts by the times of the same runs.
            found["durations"] = " ".join(known.recorded.runs)
    if kind.changes != "nothing":
        found["run"] = choice.run_id
    if kind.changes == "channel" or kind.name == "gate":
        found["channel"] = profile.stage if kind.name == "stage" else profile.promote or profile.stage
    return found


def _summary(cells: Sequence[Cell]) -> Cell:
    """After every cell that nothing else waits for."""
    waited = {need for cell in cells for need in cell.needs}
    ends = [cell for cell in cells if cell.id not in waited]
    return Cell(
        id=SUMMARY.name,
        kind=SUMMARY.name,
        job=SUMMARY.job,
        needs=tuple(cell.id for cell in ends),
        last=SUMMARY.last,
        digest=cell_digest(SUMMARY.name, {}, [cell.digest for cell in ends]),
    )
