"""The jobs of the definition without their places: which there are, what each waits for, which file has it.

They follow from the kinds of steps; a kind that is added there is a job, or part of it, in the workflows.
Where the ecosystem's documents call workflows and jobs otherwise, their names stand here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from rocwright.errors import InvalidInput
from rocwright.pipeline.define.kinds import AXES, SUMMARY, Axis, Kind, kinds

# Where a job stands: once in a run or by an axis of its own; for each group; for each Python and reference.
Level = Literal["run", "group", "build"]
_LEVELS: tuple[Level, ...] = ("run", "group", "build")
_GROUP: frozenset[Axis] = frozenset(("platform", "group"))
_BUILD: frozenset[Axis] = frozenset(("platform", "python", "ref", "group"))


class JobKind(msgspec.Struct, frozen=True):
    """A job at any place; `own` are axes beyond those of its level: there it is several times."""

    name: str
    kinds: tuple[str, ...]
    axes: tuple[Axis, ...]
    needs: tuple[str, ...]
    gpu: bool
    last: bool
    channel: bool

    @property
    def level(self) -> Level:
        """Which workflow has it."""
        if set(self.axes) >= _BUILD:
            return "build"
        return "group" if set(self.axes) >= _GROUP else "run"

    @property
    def own(self) -> tuple[Axis, ...]:
        """Axes that a matrix of the job's own goes over."""
        common = {"build": _BUILD, "group": _GROUP, "run": frozenset[Axis]()}[self.level]
        return tuple(axis for axis in self.axes if axis not in common)


def every_kind(
    projects: Sequence[tuple[str, Sequence[str]]], *, emulators: bool = True
) -> tuple[tuple[Kind, ...], ...]:
    """The kinds of every sort of run: which of them a run has, its plan says.

    `emulators` says whether there are any for the platform.
    """
    return tuple(
        (
            *kinds(
                projects,
                split=True,
                parts=parts,
                staged=True,
                promoted=True,
                rocm=rocm,
                emulated=emulated,
            ),
            SUMMARY,
        )
        for parts in (False, True)
        for rocm in (True, False)
        for emulated in ((False, True) if emulators else (False,))
    )


def job_kinds(runs: Iterable[Sequence[Kind]]) -> tuple[JobKind, ...]:
    """The jobs of all these runs together, each after those it waits for in one of them."""
    held: dict[str, dict[str, Kind]] = {}
    needs: dict[str, dict[str, None]] = {}
    for run in runs:
        job_of = {kind.name: kind.job for kind in run}
        for kind in run:
            held.setdefault(kind.job, {})[kind.name] = kind
            wanted = needs.setdefault(kind.job, {})
            wanted.update((job_of[need], None) for need in kind.needs if need in job_of)
    found = [
        JobKind(
            name=name,
            kinds=tuple(of),
            axes=tuple(axis for axis in AXES if any(axis in kind.axes for kind in of.values())),
            needs=tuple(need for need in needs[name] if need != name),
            gpu=all(kind.gpu for kind in of.values()),
            last=any(kind.last for kind in of.values()),
            channel=any(kind.changes == "channel" for kind in of.values()),
        )
        for name, of in held.items()
    ]
    ordered = _in_order(found)
    _nested(ordered)
    return ordered


def _nested(jobs: Sequence[JobKind]) -> None:
    """What each group has cannot wait for one of its builds: a workflow ends after those that it calls."""
    level = {job.name: _LEVELS.index(job.level) for job in jobs}
    for job in jobs:
        for need in job.needs:
            if job.axes and level[need] > level[job.name]:
                raise InvalidInput(
                    f"the job {job.name} of each {job.level} waits for {need}, which is in all of its builds",
                    next_step="give its kind the axes of what it needs, or none",
                )


def _in_order(jobs: Sequence[JobKind]) -> tuple[JobKind, ...]:
    ordered: dict[str, JobKind] = {}
    waiting = list(jobs)
    while waiting:
        ready = [job for job in waiting if all(need in ordered for need in job.needs)]
        if not ready:
            raise ValueError(
                "jobs of the definition wait for each other: " + ", ".join(j.name for j in waiting)
            )
        ordered.update((job.name, job) for job in ready)
        waiting = [job for job in waiting if job.name not in ordered]
    return tuple(ordered.values())


# -- what the ecosystem's documents call workflows and jobs


# (job of the definition, platform) -> job of the workflow, where that is called otherwise.
_JOBS: Mapping[tuple[str, str], str] = {
    ("build_artifacts", "linux"): "build_portable_linux_artifacts",
    ("build_artifacts", "windows"): "build_windows_artifacts",
    ("build_python_packages", "linux"): "build_portable_linux_python_packages",
    ("build_python_packages", "windows"): "build_windows_python_packages",
}


class Files(msgspec.Struct, frozen=True):
    """Names of a platform's workflows, without suffix."""

    group: str
    build: str
    release: str
    title: str


FILES: Mapping[str, Files] = {
    "linux": Files(
        "ci_linux",
        "build_portable_linux_pytorch_wheels",
        "release_portable_linux_pytorch_wheels",
        "Linux",
    ),
    "windows": Files(
        "ci_windows", "build_windows_pytorch_wheels", "release_windows_pytorch_wheels", "Windows"
    ),
}
# The job of a group's workflow that calls the workflow of a build.
BUILDS = "build_pytorch_wheels"


def shown(job: str, platform: str) -> str:
    """What the workflows of a platform call a job of the definition."""
    return _JOBS.get((job, platform), job)


def calls(platform: str) -> str:
    """The job of the whole run that calls the workflow of each group."""
    return f"{platform}_build_and_test"
