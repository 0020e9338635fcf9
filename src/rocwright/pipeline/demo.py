"""The demo: the pipeline's own steps, from real ROCm to a tested release of the miniature family."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.builder.decide.recipe import recipes
from rocwright.compat.doctor.rules.machine import PROGRAMS
from rocwright.engine.graph import Graph, Step, make_graph
from rocwright.engine.record import digest
from rocwright.engine.run import RunReport
from rocwright.errors import InvalidInput, MissingTool, UsageError
from rocwright.gputest.shards.level import NONE_OF_MINIATURE
from rocwright.model.gpu import InvalidTarget, parse_target, parse_targets
from rocwright.model.plan import SCHEMA, Cell, Plan, Publication, Rocm
from rocwright.model.sets import canonical_json
from rocwright.pipeline import records
from rocwright.pipeline.cells.inputs import portable
from rocwright.pipeline.define.cells import make_jobs
from rocwright.pipeline.define.kinds import Kind, kinds
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.records import Machine, Record, plan_key, write_record
from rocwright.pipeline.steps.of_cell import steps_of_kind
from rocwright.pipeline.steps.sources import family_projects
from rocwright.pipeline.tell.page import run_page
from rocwright.pipeline.tell.state import find_run
from rocwright.sdk.intake.distribution import this_distribution
from rocwright.sdk.plan.packages import normal
from rocwright.system.files import write_text

_NO_GPU = "the demo builds for several GPUs and asks for none; rocwright test full tests on a GPU"


def preflight(options: RunOptions) -> None:
    """Raise for what the demo would only stumble over later, before any work.

    `MissingTool` names every program that this machine lacks, `InvalidTarget` what the distribution's
    compiler makes no code for, `Unreachable` a distribution whose ROCm is not known,
    `UsageError` and `InvalidInput` options that cannot be met.
    """
    if options.family is not None:
        normal(options.family)
    if options.rocm_prefix is None:
        _require_targets(options)
    _require_programs(options)
    _require_place(options.workspace.root, "--work-dir")
    _require_place(options.cache, "--cache-dir")


def _require_targets(options: RunOptions) -> None:
    rocm = this_distribution()
    foreign = [one for one in options.targets if rocm.targets and parse_target(one).base not in rocm.targets]
    if foreign:
        raise InvalidTarget(
            f"the ROCm {rocm.rocm_version} of {rocm.id.capitalize()} {rocm.version_id} cannot compile for "
            f"{', '.join(foreign)}, only for {' '.join(rocm.targets)}",
            next_step="choose --targets among these, or give a newer ROCm with --rocm-prefix DIR",
        )


def _require_programs(options: RunOptions) -> None:
    needed = list(PROGRAMS)
    if options.rocm_prefix is None:
        needed += [("apt-get", "fetch ROCm", "apt"), ("dpkg-deb", "unpack ROCm", "dpkg")]
    missing = [row for row in needed if shutil.which(row[0]) is None]
    if not missing:
        return
    what = "; ".join(f"{program} (to {purpose})" for program, purpose, _ in missing)
    if {program for program, _, _ in missing} <= {"apt-get", "dpkg-deb"}:
        next_step = "give any ROCm installation with --rocm-prefix DIR"
    else:
        next_step = "install " + " ".join(package for _, _, package in missing) + " and run again"
    raise MissingTool(f"not found on PATH: {what}", next_step=next_step)


def _require_place(path: Path, option: str) -> None:
    next_step = f"give {option} a directory that you may write to"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{option} {path} cannot be made: {error.strerror}", where=path, next_step=next_step
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InvalidInput(f"{option} {path} cannot be written to", where=path, next_step=next_step)


def _kinds(options: RunOptions) -> tuple[Kind, ...]:
    wanted = family_projects(options)
    family = [(recipe.project, recipe.after) for recipe in recipes().recipe if recipe.project in wanted]
    return kinds(family, split=False, parts=False, staged=True, promoted=True)


def _left_out(kind: Kind) -> str:
    """Why the demo has no step of a kind; empty where it has."""
    return _NO_GPU if kind.gpu else NONE_OF_MINIATURE if kind.name == "test-units" else ""


def _steps(options: RunOptions) -> Mapping[str, list[Step]]:
    """The steps of each kind that is not left out; a step of several kinds stands with the first."""
    wanted = [kind for kind in _kinds(options) if not _left_out(kind)]
    names = {kind.name for kind in wanted}
    seen: set[str] = set()
    found: dict[str, list[Step]] = {}
    for kind in wanted:
        needs = [need for need in kind.needs if need in names]
        steps = steps_of_kind(kind.name, options, needs)
        found[kind.name] = [step for step in steps if step.id not in seen]
        seen |= {step.id for step in steps}
    return found


def demo_graph(options: RunOptions) -> Graph:
    """ROCm → packages → sources → wheels → check → store → test → promote, as one graph.

    The kinds of a run on one machine, at one place, but for those that need a GPU or PyTorch itself.
    """
    if not options.targets:
        raise UsageError("no GPU target to build for", next_step="give --targets, e.g. gfx90a")
    # Options can be made without the command line, which parses them too.
    parse_targets(" ".join(options.targets))
    return make_graph(step for steps in _steps(options).values() for step in steps)


def record_demo(graph: Graph, report: RunReport, options: RunOptions) -> Path:
    """Record a finished demo in its store as a run, so that `pipeline show` knows it; give the run's page."""
    plan = _plan(graph, options)
    store = options.store
    store.put_bytes(plan_key(plan.run_id), canonical_json(plan), overwrite=True)
    machine = Machine(store, "", options.workspace.root, options.cache, options.jobs)
    for step in report.steps:
        value = msgspec.json.encode(portable(msgspec.json.decode(step.value), machine))
        record = Record(
            schema=records.SCHEMA,
            cell=step.id,
            inputs=digest(msgspec.Raw(value)),
            state="done",
            value=msgspec.Raw(value),
            outputs=(),
            summary=step.summary,
            wall_s=step.wall_s,
            by=f"{platform.node()}, process {os.getpid()}",
        )
        # What an earlier run did keeps its record: how long it took is told there.
        write_record(store, plan.run_id, record, replace=step.state == "done")
    page = options.workspace.root / "run.html"
    write_text(page, run_page(*find_run(store, plan.run_id, work=options.workspace.root)))
    return page


def _plan(graph: Graph, options: RunOptions) -> Plan:
    """The demo as a plan: each step a cell, in the job of its kind; the others are left out."""
    held = _steps(options)
    kind_of = {step.id: kind for kind in _kinds(options) for step in held.get(kind.name, ())}
    cells = [
        Cell(id=step.id, kind=step.id, job=kind_of[step.id].job, needs=step.needs) for step in graph.steps
    ]
    cells += [
        Cell(id=kind.name, kind=kind.name, job=kind.job, needs=kind.needs, skip=_left_out(kind))
        for kind in _kinds(options)
        if _left_out(kind)
    ]
    return Plan(
        schema=SCHEMA,
        profile="demo",
        run_id=options.run_id,
        sources=options.sources,
        rocm=Rocm(),
        publication=Publication(upload=True, channels=True),
        groups=(),
        cells=tuple(cells),
        jobs=make_jobs(cells),
    )
