"""How plans and results of builds are printed for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan, BuiltWheel
from rocwright.builder.order import Order
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.family import FamilyResult
from rocwright.builder.units.caches import CacheUse
from rocwright.builder.units.report import BuildReport
from rocwright.system import console

# Of the sources that were not compiled, so many of a directory are named.
_NAMED = 4


def show_plan(plan: FamilyPlan) -> None:
    """A plan: ROCm and targets, a table of builds, then each build's commands and variables."""
    console.out(f"ROCm     {_rocm(plan.rocm)}")
    console.out(f"targets  {' '.join(plan.targets)}")
    console.out(f"for      {plan.platform}, release type {plan.release_type}")
    console.out("")
    rows = [(build.project, build.python, _version(build), build.directory) for build in plan.builds]
    console.table("Builds, in this order", ("project", "python", "version", "directory"), rows)
    for project, reason in plan.left_out.items():
        console.out(f"not built: {project}: {reason}")
    for note in plan.notes:
        console.out(f"note: {note}")
    common = _common([build.env for build in plan.builds])
    if len(plan.builds) > 1 and common:
        console.out("\nVariables of every build")
        for line in _variables(common):
            console.out(f"  {line}")
    shared = common if len(plan.builds) > 1 else {}
    first: dict[str, tuple[str, list[str]]] = {}
    for build in plan.builds:
        lines = list(_build(build, shared))
        python, known = first.setdefault(build.project, (build.python, lines))
        console.out("")
        if known is lines:
            console.out(_head(build))
        else:
            console.out(f"{_head(build)}: as for {python}{', but' if set(lines) - set(known) else ''}")
            lines = [line for line in lines if line not in known]
        for line in lines:
            console.out(line)


def _rocm(rocm: Rocm) -> str:
    if rocm.origin == "unknown":
        return f"{rocm.version}, not looked at: its paths begin with {rocm.root}"
    kind = "packages" if rocm.origin == "packages" else "installation"
    return f"{rocm.version}, {kind} in {rocm.root}"


def _version(build: BuildPlan) -> str:
    return build.version or "its own"


def _common(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Variables that all builds see with the same value."""
    first, *others = environments or [{}]
    return {name: value for name, value in first.items() if all(env.get(name) == value for env in others)}


def _variables(env: Mapping[str, str]) -> Iterator[str]:
    return (f"{name}={shlex.quote(value) if value else ''}" for name, value in sorted(env.items()))


def _head(build: BuildPlan) -> str:
    version = f" {build.version}" if build.version else ""
    return f"{build.project}{version}" + (f" for Python {build.python}" if build.python else "")


def _build(build: BuildPlan, shared: Mapping[str, str]) -> Iterator[str]:
    """One build: what is installed, removed and written first, its variables, its command."""
    steps = (
        ("install", " ".join(shlex.quote(each) for each in build.requirements)),
        ("install", " ".join(f"-r {name}" for name in build.requirements_files)),
        ("uninstall", " ".join(build.uninstalled)),
        ("remove", " ".join(build.removed)),
        ("write", " ".join(build.generated)),
        ("copy", " ".join(build.copied)),
    )
    for word, what in steps:
        if what:
            yield f"  {word:<9}  {what}"
    for line in _variables({name: value for name, value in build.env.items() if shared.get(name) != value}):
        yield f"  set        {line}"
    yield f"  run        {shlex.join(build.argv)}"
    if build.pins:
        yield f"  require    {', '.join(build.pins)}"
    after = "install in place" if build.editable else "install for what follows" if build.install else ""
    for word in filter(None, (after, "split into host and device wheels" if build.split else "")):
        yield f"  then       {word}"


def show_result(result: FamilyResult, order: Order) -> None:
    """Wheels with their sizes and times, what compilers cost, and what to do next."""
    rows = [_row(wheel, set(result.resumed)) for wheel in result.wheels]
    console.table("Wheels", ("project", "wheel", "size", "seconds", "CPU s"), rows, right=(2, 3, 4))
    devices = [Path(name).name for wheel in result.wheels for name in wheel.device]
    if devices:
        console.out("\nDevice wheels")
        for name in devices:
            console.out(name)
    if result.report is not None:
        show_report(result.report)
    console.out("")
    if result.resumed:
        console.out(f"finished by an earlier run: {' '.join(result.resumed)}")
    if result.proven:
        console.out(f"imported in a fresh environment: {' '.join(result.proven)}")
    console.out(f"logs: {Path(order.work_dir) / 'log'}")
    if any(wheel.sha256 for wheel in result.wheels):
        console.out(f"next: rocwright check {shlex.quote(order.output_dir)}/*.whl")


def _row(wheel: BuiltWheel, resumed: set[str]) -> tuple[str, ...]:
    if not wheel.sha256:
        return (wheel.project, f"{wheel.path} (in place)", "-", f"{wheel.wall_s:.1f}", f"{wheel.cpu_s:.1f}")
    spent = (f"{wheel.wall_s:.1f}", f"{wheel.cpu_s:.1f}")
    if f"cp{wheel.python.replace('.', '')}-{wheel.project}" in resumed:
        # What it once cost was not spent now.
        spent = ("-", "-")
    return (wheel.project, Path(wheel.path).name, console.human_bytes(wheel.size), *spent)


def show_report(report: BuildReport, *, most: int = 10) -> None:
    """The slowest translation units, seconds by kind and target, and what a compiler cache answered."""
    if report.slowest:
        slow = [
            (unit.project, unit.source, unit.kind, f"{unit.wall_s:.1f}", _memory(unit.peak_rss))
            for unit in report.slowest[:most]
        ]
        console.out("")
        columns = ("project", "translation unit", "kind", "seconds", "memory")
        console.table("Slowest translation units", columns, slow, right=(3, 4))
        kinds = [
            f"{name} {total.cpu_s:.1f} s in {total.calls} calls"
            for name, total in report.kinds.items()
            if total.calls
        ]
        console.out("")
        console.out(f"CPU time: {', '.join(kinds)}; largest {_memory(report.peak_rss)}")
    if report.targets:
        spent = dict(report.targets)
        host = spent.pop("host", 0.0)
        said = [f"{target} {seconds:.1f} s" for target, seconds in spent.items()]
        console.out(f"device code: {', '.join([*said, f'host code beside it {host:.1f} s'])}")
    if report.cache is not None:
        console.out(cache_line(report.cache))
    for project, places in report.uncompiled.items():
        if places:
            console.out(f"no compiler saw these device sources of {project}:")
        for place in places:
            names = ", ".join(place.sources[:_NAMED]) + (", …" if len(place.sources) > _NAMED else "")
            console.out(f"  {place.directory or '.'}: {len(place.sources)} of {place.of} ({names})")


def _memory(size: int) -> str:
    return console.human_bytes(size) if size else "-"


def cache_line(use: CacheUse) -> str:
    """What a compiler cache answered, in a line."""
    counts = f"{use.hits} found, {use.misses} compiled, {use.uncached} not kept"
    if use.hip_hits or use.hip_misses:
        counts += f"; of device code {use.hip_hits} found, {use.hip_misses} compiled"
    return f"{use.cache}: {counts}" + (f" ({use.note})" if use.note else "")
