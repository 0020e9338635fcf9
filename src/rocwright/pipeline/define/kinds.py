"""The definition: kinds of steps, the axes of each, what each needs, which job it belongs to.

Whatever runs anywhere is here: laptop, cluster, GitHub Actions, CI and release. A job is what one machine
does; between jobs only the store carries anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.plan import Changes
from rocwright.model.project import TORCH

Axis = Literal["platform", "python", "ref", "group", "part", "family", "shard"]
# Of ids, in this order: build-torch/linux/cp312/release-2.9/gfx94X-dcgpu.
AXES: tuple[Axis, ...] = ("platform", "python", "ref", "group", "part", "family", "shard")

# Projects in build order, each with those that it is built after.
Projects = Sequence[tuple[str, Sequence[str]]]

_ROCM: tuple[Axis, ...] = ("platform", "group")
_BUILD: tuple[Axis, ...] = ("platform", "python", "ref", "group")


class Kind(msgspec.Struct, frozen=True):
    """A kind of step. `needs` are kinds; of an axis that this kind has not, it needs all cells.

    Where those that are `spare` failed, it does without them. `gpu`: tests that need a GPU of the cell's
    family; a family without a runner leaves the cell out.
    `last`: also runs, and tells, when what it needs failed or was left out.
    """

    name: str
    job: str
    axes: tuple[Axis, ...]
    needs: tuple[str, ...] = ()
    changes: Changes = "nothing"
    gpu: bool = False
    last: bool = False
    spare: tuple[str, ...] = ()


# What stands on torch: where its sources are decided, and where its wheel is built; its name follows.
LOCK_EXTENSION, BUILD_EXTENSION = "lock-extension-", "build-extension-"
# Platforms that emulators of AMD GPUs run on.
EMULATED_ON = ("linux",)
# In place of tests on GPUs: on a machine without one, by the families that an emulator has.
_EMULATED = Kind(
    "test-emulated", "test_emulated_wheels", (*_BUILD, "family"), ("upload-rocm", "upload-pytorch")
)
# Of the whole run, on no axis: after everything, whatever became of it.
SUMMARY = Kind("summary", "ci_summary", (), last=True)


def in_order(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """The kinds, each after what it needs; otherwise as they stand.

    Raises `InvalidInput` naming what is wrong: a kind given twice, a need that is no kind, a circle.
    """
    named: dict[str, Kind] = {}
    for kind in kinds:
        if kind.name in named:
            raise InvalidInput(f"two kinds of steps are called {kind.name}")
        named[kind.name] = kind
    for kind in kinds:
        for need in kind.needs:
            if need not in named:
                raise InvalidInput(
                    f"the step {kind.name} needs {need}, which is not a step of this run",
                    next_step=f"steps: {' '.join(named)}",
                )
    done: dict[str, Kind] = {}
    waiting = dict(named)
    while waiting:
        ready = next((kind for kind in waiting.values() if all(need in done for need in kind.needs)), None)
        if ready is None:
            raise InvalidInput(f"these steps need each other: {' -> '.join(_circle(waiting))}")
        done[ready.name] = waiting.pop(ready.name)
    return tuple(done.values())


def _circle(waiting: Mapping[str, Kind]) -> list[str]:
    """From a step back to itself, where each of those that wait needs another of them."""
    path = [next(iter(waiting))]
    while True:
        need = next(one for one in waiting[path[-1]].needs if one in waiting)
        if need in path:
            return [*path[path.index(need) :], need]
        path.append(need)


def kinds(
    projects: Projects,
    *,
    split: bool,
    parts: bool,
    staged: bool,
    promoted: bool,
    pytorch: bool = True,
    rocm: bool = True,
    emulated: bool = False,
    extensions: Projects = (),
    extensions_may_fail: bool = False,
) -> tuple[Kind, ...]:
    """The kinds of a run, each after what it needs.

    `projects` are those of the family in build order, each with those that it is built after, `extensions`
    those that stand on torch, each with what it needs besides; where they may fail, the set goes on without
    those that did. `parts`: torch is built for several parts of the targets and merged. Without `rocm` an
    earlier run's packages are taken; without `pytorch` the run ends with ROCm's packages. With `emulated` the
    tests on GPUs are those on emulated ones, which any machine runs.
    """
    found = list(_rocm() if rocm else _taken())
    spare = tuple(BUILD_EXTENSION + name for name, _ in extensions) if extensions_may_fail else ()
    if pytorch:
        found += _pytorch(projects, extensions, split=split, parts=parts, spare=spare)
    if emulated:
        found = [kind for kind in found if not kind.gpu]
        if pytorch:
            found.append(_EMULATED)
    if pytorch and staged:
        locks = tuple(LOCK_EXTENSION + name for name, _ in extensions)
        needs = ("rocm-packages", "lock-sources", "check", "upload-pytorch", *locks)
        without = locks if extensions_may_fail else ()
        found.append(Kind("stage", "stage_pytorch_wheels", _BUILD, needs, "channel", spare=without))
        tests = _EMULATED.name if emulated else "test-pytorch"
        gate = ("stage", "test-pip", "test-uv", "test-units", tests)
        found.append(Kind("gate", "gate", _BUILD, gate, last=True))
        if promoted:
            found.append(Kind("promote", "promote", _BUILD, ("stage", "gate"), "channel"))
    return tuple(found)


def _rocm() -> list[Kind]:
    packages = "build_python_packages"
    return [
        Kind("rocm-artifacts", "build_artifacts", _ROCM),
        Kind("rocm-packages", packages, _ROCM, ("rocm-artifacts",)),
        Kind("check-rocm", packages, _ROCM, ("rocm-packages",)),
        Kind("upload-rocm", packages, _ROCM, ("rocm-packages", "check-rocm"), "run"),
        Kind("test-rocm", "test_rocm_wheels", (*_ROCM, "family"), ("upload-rocm",), gpu=True),
    ]


def _taken() -> list[Kind]:
    """ROCm's packages of an earlier run: looked up, nothing is built."""
    return [
        Kind("rocm-packages", "take_python_packages", _ROCM),
        Kind("upload-rocm", "take_python_packages", _ROCM, ("rocm-packages",)),
    ]


def _pytorch(
    projects: Projects, extensions: Projects, *, split: bool, parts: bool, spare: tuple[str, ...]
) -> list[Kind]:
    job = "build_pytorch_wheels"
    wheels = {name: f"build-{name}" for name, _ in projects}
    found = [Kind("lock-sources", "lock_sources", ("platform", "ref"))]
    # What torch needs is built once for all parts, so on a machine before theirs.
    early = {one for name, after in projects if name == TORCH and parts for one in after}
    for name, after in projects:
        before = (wheels[one] for one in after if one in wheels)
        needs = ("rocm-packages", "upload-rocm", "lock-sources", *before)
        if name == TORCH and parts:
            found.append(Kind("build-torch", "build_torch_part", (*_BUILD, "part"), needs))
            wheels[TORCH] = "merge-torch"
            found.append(Kind("merge-torch", job, _BUILD, ("rocm-packages", "build-torch")))
        else:
            found.append(Kind(f"build-{name}", "build_for_torch" if name in early else job, _BUILD, needs))
    # With what torch requires: what stands on it is imported beside it.
    torch = [wheels[one] for one in dict(projects).get(TORCH, ()) if one in wheels]
    for name, after in extensions:
        locked = LOCK_EXTENSION + name
        found.append(Kind(locked, "lock_sources", ("platform",)))
        built = dict.fromkeys((*torch, wheels[TORCH], *(wheels[one] for one in after)))
        needs = ("rocm-packages", "upload-rocm", locked, *built)
        wheels[name] = BUILD_EXTENSION + name
        found.append(Kind(wheels[name], job, _BUILD, needs))
    if split:
        found.append(Kind("split", job, _BUILD, ("rocm-packages", *wheels.values()), spare=spare))
        wheels, spare = {"split": "split"}, ()
    made = tuple(wheels.values())
    # The tests that are PyTorch's own come from the commit that the wheels were built from.
    tested = ("lock-sources", "upload-pytorch")
    found += [
        Kind("check", job, _BUILD, ("rocm-packages", *made), spare=spare),
        Kind(
            "upload-pytorch",
            job,
            _BUILD,
            ("rocm-packages", "upload-rocm", "check", *made),
            "run",
            spare=spare,
        ),
        Kind("test-pip", "install_pytorch_wheels", _BUILD, ("rocm-packages", "upload-pytorch")),
        Kind("test-uv", "install_pytorch_wheels", _BUILD, ("rocm-packages", "upload-pytorch")),
        Kind("test-units", "test_pytorch_on_host", (*_BUILD, "shard"), tested),
        Kind("test-pytorch", "test_pytorch_wheels", (*_BUILD, "family", "shard"), tested, gpu=True),
    ]
    return found
