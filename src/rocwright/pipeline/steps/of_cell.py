"""From a cell of a plan to the steps that carry it out on one machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

import msgspec

from rocwright.engine.graph import Step
from rocwright.errors import InvalidInput
from rocwright.model.plan import Cell, Plan, RocmKind
from rocwright.model.project import TORCH
from rocwright.pipeline.define.kinds import BUILD_EXTENSION, LOCK_EXTENSION, SUMMARY
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.records import ENDED, Machine, place_of
from rocwright.pipeline.steps.emulated import emulated_test_step
from rocwright.pipeline.steps.extension_sources import lock_extension_step
from rocwright.pipeline.steps.extensions import build_extension_step
from rocwright.pipeline.steps.gate import gate_step, promote_step
from rocwright.pipeline.steps.gpu import pytorch_test_step, rocm_test_step
from rocwright.pipeline.steps.index import index_artifacts_step, index_packages_step
from rocwright.pipeline.steps.own_tests import units_step
from rocwright.pipeline.steps.publish import (
    check_rocm_step,
    check_step,
    stage_step,
    upload_rocm_step,
    upload_torch_step,
)
from rocwright.pipeline.steps.reuse import (
    archives_step,
    artifacts_step,
    packages_of_artifacts_step,
    taken_packages_step,
    taken_upload_step,
)
from rocwright.pipeline.steps.rocm import (
    brought_packages_step,
    command_step,
    prefix_step,
    rocm_artifacts_step,
    rocm_packages_step,
    rocm_source_steps,
    tarball_step,
)
from rocwright.pipeline.steps.sources import checkout_step, lock_sources_step, origin_steps
from rocwright.pipeline.steps.summary import summary_step
from rocwright.pipeline.steps.testing import installation_step
from rocwright.pipeline.steps.torch import build_env_step, build_step, python_headers_step
from rocwright.pipeline.steps.wheels import merge_step, split_step

Needs = tuple[str, ...]
# The steps of this room use each other's functions.
_OWN_CODE = "pipeline/steps"

_OWN: dict[str, Callable[[RunOptions, Needs], Step]] = {
    "rocm-artifacts": rocm_artifacts_step,
    "rocm-packages": rocm_packages_step,
    "check-rocm": check_rocm_step,
    "upload-rocm": upload_rocm_step,
    "lock-sources": lock_sources_step,
    "check": check_step,
    "upload-pytorch": upload_torch_step,
    "test-pip": lambda options, needs: installation_step(options, "pip", needs),
    "test-uv": lambda options, needs: installation_step(options, "uv", needs),
    "stage": stage_step,
    "gate": gate_step,
    "promote": promote_step,
    "test-rocm": rocm_test_step,
    "test-units": units_step,
    "test-emulated": emulated_test_step,
    "test-pytorch": pytorch_test_step,
    "split": split_step,
    "merge-torch": merge_step,
}
# What takes the place of these where ROCm comes neither from the distribution nor from a prefix.
_ELSEWHERE: dict[tuple[RocmKind, str], Callable[[RunOptions, Needs], list[Step]]] = {
    ("packages", "rocm-packages"): lambda options, needs: [taken_packages_step(options, needs)],
    ("packages", "upload-rocm"): lambda options, needs: [taken_upload_step(options, needs)],
    ("artifacts", "rocm-artifacts"): lambda options, needs: [artifacts_step(options, needs)],
    ("artifacts", "rocm-packages"): lambda options, needs: [
        archives_step(options),
        packages_of_artifacts_step(options, needs),
    ],
    ("index", "rocm-artifacts"): lambda options, needs: [index_artifacts_step(options, needs)],
    ("index", "rocm-packages"): lambda options, needs: [index_packages_step(options, needs)],
    ("page", "rocm-artifacts"): lambda options, needs: [index_artifacts_step(options, needs)],
    ("page", "rocm-packages"): lambda options, needs: [index_packages_step(options, needs)],
    ("tarball", "rocm-artifacts"): lambda options, needs: [tarball_step(options, needs)],
    ("tarball", "rocm-packages"): lambda options, needs: [brought_packages_step(options, needs)],
    ("command", "rocm-artifacts"): lambda options, needs: [command_step(options, needs)],
    ("command", "rocm-packages"): lambda options, needs: [brought_packages_step(options, needs)],
}


def steps_of_kind(kind: str, options: RunOptions, needs: Iterable[str]) -> list[Step]:
    """What one kind of cell does at one place, its own step last; `needs` names the results it is given.

    A change in the code of this room makes all of their results stale.
    """
    return [_with_own_code(step) for step in _steps_of_kind(kind, options, tuple(needs))]


def _with_own_code(step: Step) -> Step:
    return msgspec.structs.replace(step, rooms=(_OWN_CODE, *step.rooms))


def _steps_of_kind(kind: str, options: RunOptions, given: Needs) -> list[Step]:
    if kind.startswith(LOCK_EXTENSION):
        return [lock_extension_step(options, given)]
    if kind.startswith(BUILD_EXTENSION):
        return [
            python_headers_step(options),
            build_env_step(options),
            build_extension_step(options, given),
        ]
    if kind.startswith("build-"):
        project = kind.removeprefix("build-")
        return [
            *origin_steps(options),
            checkout_step(options, project),
            python_headers_step(options),
            build_env_step(options),
            build_step(options, project, given),
        ]
    if kind not in _OWN:
        raise InvalidInput(f"there is no step of the kind {kind!r}", next_step=f"kinds: {' '.join(_OWN)}")
    if (elsewhere := _ELSEWHERE.get((options.rocm.kind, kind))) is not None:
        return elsewhere(options, given)
    own = _OWN[kind](options, given)
    if kind in ("test-units", "test-pytorch") and options.sources == "upstream":
        return [checkout_step(options, TORCH), own]
    if kind == "rocm-artifacts":
        return [*rocm_source_steps(options), own]
    if kind == "rocm-packages":
        return [*rocm_source_steps(options), prefix_step(options), own]
    if kind == "lock-sources":
        return [*origin_steps(options), own]
    return [own]


def steps_of(cell: Cell, plan: Plan, machine: Machine) -> list[Step]:
    """The steps that `cell` takes on this machine; its own is the last, the others are only local.

    They are given results by `input_names`. Nothing is done or looked at yet.
    """
    if cell.kind == SUMMARY.name:
        return [_with_own_code(summary_step(options_of(cell, plan, machine), plan))]
    names = [name for name, id_ in input_names(cell, plan).items() if not plan.cell(id_).skip]
    if cell.last:
        names.append(ENDED)
    return steps_of_kind(cell.kind, options_of(cell, plan, machine), names)


def input_names(cell: Cell, plan: Plan) -> dict[str, str]:
    """By the name that the steps know a result by: the cell it is of.

    That is the kind, or the id where a cell needs several of one kind.
    """
    kind_of = {id_: plan.cell(id_).kind for id_ in cell.needs}
    counts = Counter(kind_of.values())
    return {kind_of[id_] if counts[kind_of[id_]] == 1 else id_: id_ for id_ in cell.needs}


def options_of(cell: Cell, plan: Plan, machine: Machine) -> RunOptions:
    """The options of a cell's steps."""
    prefix = machine.work.joinpath(*PurePosixPath(place_of(cell)).parts)
    rocm = plan.rocm
    return RunOptions(
        workspace=Workspace(prefix),
        cache=machine.cache,
        targets=tuple(cell.settings.get("targets", "").split()),
        torch_ref=cell.ref,
        run_id=plan.run_id,
        platform=cell.platform or "linux",
        jobs=machine.jobs,
        python=cell.python,
        projects=_projects(cell, plan),
        extensions=_extensions(cell, plan),
        extension=cell.settings.get("extension", ""),
        group=cell.group,
        gpu_family=cell.family,
        tests=cell.settings.get("tests", ""),
        shard=cell.shard,
        durations=tuple(cell.settings.get("durations", "").split()),
        families=plan.group(cell.group, cell.platform).families if cell.group else (),
        part=tuple(filter(None, cell.part.split("+"))),
        sources=plan.sources,
        rocm=rocm,
        rocm_prefix=Path(rocm.at) if rocm.kind == "prefix" else None,
        rocm_version=None if rocm.taken else rocm.version or None,
        publication=plan.publication,
        channel=cell.settings.get("channel", ""),
        profile=plan.profile,
        objects=machine.store,
        signers=machine.signers,
        overlay=machine.overlay,
    )


def _projects(cell: Cell, plan: Plan) -> tuple[str, ...]:
    """Those of the family that the run builds on the cell's platform."""
    wheels = _kinds(cell, plan, "build-")
    return tuple(kind.removeprefix("build-") for kind in wheels if not kind.startswith(BUILD_EXTENSION))


def _extensions(cell: Cell, plan: Plan) -> tuple[str, ...]:
    """Those of the run that stand on torch, on the cell's platform."""
    return tuple(kind.removeprefix(BUILD_EXTENSION) for kind in _kinds(cell, plan, BUILD_EXTENSION))


def _kinds(cell: Cell, plan: Plan, beginning: str) -> list[str]:
    return sorted(kind for kind in plan.kinds[cell.platform] if kind.startswith(beginning))
