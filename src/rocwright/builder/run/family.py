"""Carry out the plan of a family: build after build, each Python in its own environment; what is finished,
from all the same, is not built again.

Everything of a run lies in its work directory: `env/` (one build environment per Python), `log/`, `state/`
(what is finished, and the lock), `units/` (what compilers cost), `bin/` (generated launchers).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import msgspec
from packaging.utils import parse_wheel_filename

from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan, BuiltWheel, CacheUse, with_built
from rocwright.builder.run.caching import Caching
from rocwright.builder.run.environments import (
    Proven,
    build_environment,
    installed_wheels,
    note_installed,
    prove,
    show_rocm,
)
from rocwright.builder.run.isolation import outcome_environment, rocm_identity, tools
from rocwright.builder.run.project import Build, Note
from rocwright.builder.run.tree import Content, SourceTree, held_tree, state_digest
from rocwright.builder.units.caches import advice
from rocwright.builder.units.logs import find_ninja_logs, objects, read_ninja_log, read_units, start_units
from rocwright.builder.units.report import (
    SUFFIX,
    BuildReport,
    Uncompiled,
    build_report,
    uncompiled,
    write_report,
)
from rocwright.engine.hold import held
from rocwright.engine.record import Record, read_record, still_there, write_record
from rocwright.errors import CommandFailed, UsageError
from rocwright.system.interpreters import Interpreter
from rocwright.system.venv import Environment, pip_install, pip_uninstall
from rocwright.wheel.tags import serves


def alone_at_work(work_dir: Path, note: Note) -> AbstractContextManager[None]:
    """Keep other runs out of a work directory, whose sources, wheels and environments they would change."""
    return held(work_dir, "state/lock", "state/running", note)


class FamilyResult(msgspec.Struct, frozen=True):
    """What became of a family: its wheels in build order, which of them an earlier run had made, their proof.

    `resumed` are `cp312-torch`, …; `report` tells what the compilers of this run cost.
    """

    wheels: tuple[BuiltWheel, ...]
    resumed: tuple[str, ...] = ()
    proof: tuple[Proven, ...] = ()
    report: BuildReport | None = None

    @property
    def proven(self) -> tuple[str, ...]:
        """What was imported in a fresh environment: `cp312-torch`, …"""
        return tuple(f"cp{each.python.replace('.', '')}-{each.project}" for each in self.proof)


def run_family(
    plan: FamilyPlan,
    *,
    interpreters: Mapping[str, Interpreter],
    output_dir: Path,
    work_dir: Path,
    resume: bool,
    note: Note,
    cache: str = "",
    cache_hip: bool = True,
    editable_into: Environment | None = None,
    threads: int = 2,
    given: Sequence[BuiltWheel] = (),
    seen: Sequence[str] = (),
    proof: bool = True,
) -> FamilyResult:
    """Carry out a family's plan; `interpreters` by `BuildPlan.python`, the running one under an empty text.

    A project that is finished, from the same sources, ROCm, tools and earlier wheels, is taken over with
    `resume`. Editable builds go into the environment `editable_into`. `cache` is "", `ccache` or `sccache`.
    `given` are wheels of other runs that these are built against; one without a path is installed beside
    ROCm's packages, and among `seen`, the distributions there that builds see besides those.
    Wheels appear in `output_dir` one by one, each whole; a failing build leaves those before it. At the end
    all wheels of a Python are installed together in a fresh environment and imported, with `proof`.
    """
    if plan.rocm.origin == "unknown":
        raise UsageError("this plan was made without a ROCm", next_step="name the ROCm to build against")
    with alone_at_work(work_dir, note):
        start_units(work_dir / "units")
        caching = Caching(plan, cache, work_dir, note)
        caching.begin(work_dir, cache_hip=cache_hip)
        plan = caching.plan
        run = _Run(
            plan,
            interpreters,
            output_dir,
            work_dir,
            resume,
            note,
            editable_into,
            threads,
            cache,
            given,
            seen,
        )
        use: CacheUse | None = None
        try:
            for each in plan.builds:
                run.build(each)
        finally:
            use = caching.end()
            report = _report(run.begun, work_dir, use, run.uncompiled)
        return FamilyResult(tuple(run.wheels), tuple(run.resumed), run.prove() if proof else (), report)


def _report(
    begun: Mapping[str, Path],
    work_dir: Path,
    use: CacheUse | None,
    uncompiled: Mapping[str, tuple[Uncompiled, ...]],
) -> BuildReport:
    """Also of a build that failed: what it cost until then is in `units/report.json`."""
    logs = {project: find_ninja_logs(directory) for project, directory in begun.items()}
    report = build_report(read_units(work_dir / "units"), logs, use, uncompiled)
    write_report(report, work_dir / "units" / "report.json")
    return report


class _Run:
    """One run of a family: what is built so far, by Python."""

    def __init__(
        self,
        plan: FamilyPlan,
        interpreters: Mapping[str, Interpreter],
        output: Path,
        work: Path,
        resume: bool,
        note: Note,
        editable_into: Environment | None,
        threads: int,
        cache: str,
        given: Sequence[BuiltWheel],
        seen: Sequence[str],
    ) -> None:
        self.plan, self.interpreters, self.output, self.work = plan, interpreters, output, work
        self.resume, self.note, self.editable_into = resume, note, editable_into
        self.threads, self.cache, self.given, self.seen = threads, cache, tuple(given), tuple(seen)
        self.rocm = rocm_identity(plan.rocm)
        self.wheels: list[BuiltWheel] = []
        self.resumed: list[str] = []
        # Project to directory. Where nothing was begun, logs of build systems tell of earlier runs.
        self.begun: dict[str, Path] = {}
        self.uncompiled: dict[str, tuple[Uncompiled, ...]] = {}

    def build(self, plan: BuildPlan) -> None:
        """Build one project for one Python, or take over what an earlier run made."""
        interpreter = self.interpreters[plan.python]
        served = self._serving(plan, interpreter)
        if served is not None:
            self.note(f"{interpreter.tag}-{plan.project}: {Path(served.path).name} serves this Python, too")
            self.wheels.append(msgspec.structs.replace(served, python=interpreter.name))
            return
        before = [
            *self._given(interpreter),
            *(wheel for wheel in self.wheels if wheel.python == interpreter.name),
        ]
        plan = with_built(plan, {wheel.project: wheel.version for wheel in before})
        name = f"{interpreter.tag}-{plan.project}"
        with held_tree(Path(plan.tree or plan.directory), self.note) as tree:
            content = tree.content()
            # Those that are in the environment, so that it may be built against them.
            used = {
                build.project for build in self.plan.builds if build.install or build.editable or build.shown
            }
            used |= {wheel.project for wheel in self.given}
            under = [wheel for wheel in before if wheel.project in used]
            earlier = {wheel.project: wheel.sha256 for wheel in under}
            key = partial(
                key_of,
                plan,
                rocm=self.rocm,
                interpreter=interpreter,
                earlier=earlier,
                caller=os.environ,
            )
            state = self.work / "state" / f"{name}.json"
            record = read_record(state)
            done = result_of(record)
            if (
                self.resume
                and record is not None
                and done is not None
                and record.inputs == key(content=content, made=done.made)
                and all(file.parent == self.output for file in done.files)
                and still_there(state, record)
            ):
                self.note(f"{name}: {done.wheel.version} is there from an earlier run")
                self.resumed.append(name)
                self.wheels.append(done.wheel)
                return
            state.unlink(missing_ok=True)
            wheel, made = self._make(plan, interpreter, before, under, tree, content.untracked)
            wheel = msgspec.structs.replace(wheel, python=interpreter.name)
            content = tree.settled(content)
            if not plan.editable:
                save_finished(state, key(content=content, made=made), wheel, made)
            self.wheels.append(wheel)

    def _serving(self, plan: BuildPlan, interpreter: Interpreter) -> BuiltWheel | None:
        """A wheel of another Python of this run that is for this one as well (abi3, py3-none)."""
        for wheel in self.wheels:
            if wheel.project == plan.project and wheel.sha256:
                tags = map(str, parse_wheel_filename(Path(wheel.path).name)[3])
                if serves(tags, interpreter.name, plan.platform):
                    return wheel
        return None

    def _given(self, interpreter: Interpreter) -> list[BuiltWheel]:
        """Those wheels of other runs that are for this Python."""
        return [
            msgspec.structs.replace(wheel, python=interpreter.name)
            for wheel in self.given
            if wheel.python in ("", interpreter.name)
        ]

    def _make(
        self,
        plan: BuildPlan,
        interpreter: Interpreter,
        before: list[BuiltWheel],
        under: list[BuiltWheel],
        tree: SourceTree,
        untracked: frozenset[str],
    ) -> tuple[BuiltWheel, tuple[str, ...]]:
        name = f"{interpreter.tag}-{plan.project}"
        log = self.work / "log" / f"{name}.log"
        log.unlink(missing_ok=True)
        self.note(f"{name}: building {plan.version}".rstrip() + f" (log: {log})")
        environment = self._environment(plan, interpreter, before, log)
        self.begun[plan.project] = Path(plan.directory)
        build = Build(
            plan,
            environment,
            tree,
            rocm=self.plan.rocm,
            log=log,
            dist=self.work / "dist" / name,
            threads=self.threads,
            note=self.note,
            given=under,
        )
        ours = plan.install and environment.root == self._root(interpreter)
        if ours:
            note_installed(environment, plan.project, None)
        try:
            wheel, made = build.run(self.output, untracked)
        except CommandFailed as error:
            error.next_step = advice(error.tail, self.cache) or error.next_step
            raise
        if ours:
            note_installed(environment, plan.project, wheel.sha256)
        self._miss(plan, tree)
        return wheel, made

    def _miss(self, plan: BuildPlan, tree: SourceTree) -> None:
        """Note device sources that no compiler saw, unless nobody can say what the compilers saw."""
        logs = find_ninja_logs(Path(plan.directory))
        made = {step.output for log in logs for step in read_ninja_log(log)}
        made |= objects(self.work / "units", plan.project)
        if made:
            self.uncompiled[plan.project] = uncompiled(tree.having(SUFFIX), made)

    def _root(self, interpreter: Interpreter) -> Path:
        return self.work / "env" / interpreter.tag

    def _environment(
        self, plan: BuildPlan, interpreter: Interpreter, before: list[BuiltWheel], log: Path
    ) -> Environment:
        """The build environment, with the earlier wheels of this Python that others are built against.

        From an editable project on, builds go on in the environment that it is in.
        """
        if plan.editable or any(not wheel.sha256 for wheel in before):
            if self.editable_into is None:
                raise UsageError(
                    f"{plan.project} is to be an editable install, but no environment is named",
                    next_step="name one with --rocm-environment",
                )
            show_rocm(self.editable_into, self.plan.rocm, view=self._view)
            return self.editable_into
        environment = build_environment(
            self._root(interpreter), interpreter, self.plan.rocm, view=self._view, log=log, seen=self.seen
        )
        names = {wheel.project: wheel.distribution for wheel in self.given if wheel.path}
        shown = {build.project for build in self.plan.builds if build.shown}
        names |= {
            build.project: build.wheel_name or build.project
            for build in self.plan.builds
            if build.install or build.shown
        }
        known = installed_wheels(environment)
        # Of an earlier run and not built yet in this one: nothing may be built against it.
        stale = set(known) - {wheel.project for wheel in before}
        if stale:
            pip_uninstall(environment, sorted(names.get(project, project) for project in stale), log=log)
            for project in stale:
                note_installed(environment, project, None)
        new = [
            wheel
            for wheel in before
            if wheel.path and wheel.project in names and known.get(wheel.project) != wheel.sha256
        ]
        for wheel in new:
            note_installed(environment, wheel.project, None)
            options = ["--no-deps", "--force-reinstall", "--no-index"]
            pip_install(environment, [wheel.path], closed=None, options=options, log=log)
        if late := [wheel.path for wheel in new if wheel.project in shown]:
            # Only its wheel tells what else it requires; all that is there has to stay.
            there = [f"{wheel.distribution}=={wheel.version}" for wheel in before if wheel.project in names]
            pip_install(environment, [*late, *there], closed=None, log=log)
        for wheel in new:
            note_installed(environment, wheel.project, wheel.sha256)
        return environment

    @property
    def _view(self) -> Path:
        return self.work / "env" / "rocm-view"

    def prove(self) -> tuple[Proven, ...]:
        """Import the wheels of every Python in an environment of its own, unless the same were before."""
        proof: list[Proven] = []
        if any(not wheel.sha256 for wheel in self.wheels):
            self.note(
                "not tried in a fresh environment: an editable project exists only in its own environment"
            )
            return ()
        names = {build.project: build.import_name for build in self.plan.builds}
        for interpreter in self.interpreters.values():
            wheels = [wheel for wheel in self.wheels if wheel.python == interpreter.name]
            if not wheels:
                continue
            state = self.work / "state" / f"{interpreter.tag}-proof.json"
            given = self._given(interpreter)
            key = state_digest({"wheels": wheels, "given": given, "rocm": self.rocm, "python": interpreter})
            record = read_record(state) if self.resume else None
            known = proof_of(record) if record is not None and record.inputs == key else None
            if known is not None:
                proof += known
                continue
            self.note(f"{interpreter.tag}: importing {len(wheels)} wheels in a fresh environment")
            said = prove(
                wheels,
                names,
                interpreter=interpreter,
                rocm=self.plan.rocm,
                root=self.work / "env" / f"proof-{interpreter.tag}",
                view=self._view,
                log=self.work / "log" / f"{interpreter.tag}-proof.log",
                given=[wheel for wheel in given if wheel.path],
                seen=self.seen,
            )
            write_record(state, state.stem, key, said, {})
            proof += said
        return tuple(proof)


class Finished(msgspec.Struct, frozen=True):
    """The result of a finished build; `made` are files that it left in its source tree, no change of that."""

    wheel: BuiltWheel
    made: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The wheel, and those that were split off it."""
        return (Path(self.wheel.path), *map(Path, self.wheel.device))


def result_of(record: Record | None) -> Finished | None:
    """What a record of a build says; None for no such record."""
    try:
        return None if record is None else msgspec.json.decode(record.value, type=Finished)
    except msgspec.DecodeError:
        return None


def proof_of(record: Record) -> tuple[Proven, ...] | None:
    """What was imported in a fresh environment, as a record says; None for no such record."""
    try:
        return msgspec.json.decode(record.value, type=tuple[Proven, ...])
    except msgspec.DecodeError:
        return None


def save_finished(path: Path, key: str, wheel: BuiltWheel, made: tuple[str, ...]) -> None:
    """Write the record of a build that has just ended well."""
    done = Finished(wheel, made)
    known = {Path(wheel.path): wheel.sha256}
    write_record(path, path.stem, key, done, {file: known.get(file) for file in done.files})


def key_of(
    plan: BuildPlan,
    *,
    content: Content,
    rocm: str,
    interpreter: Interpreter,
    earlier: Mapping[str, str],
    caller: Mapping[str, str],
    made: tuple[str, ...] = (),
) -> str:
    """Differs when anything does that the wheel is made from; not with the job count, a cache or PATH alone.

    `rocm` is its identity, `earlier` the sha256 of wheels that it is built against.
    """
    # Of what is removed first, the rest depends on which Python of a run comes first, not on what is wanted.
    removed = ("build",) if "build" in plan.removed else ()
    values = {
        "plan": msgspec.structs.replace(plan, env={}, removed=removed, plain_compilers=False),
        "environment": outcome_environment(caller, plan.env),
        "source": content.digest(without=made),
        "rocm": rocm,
        "python": interpreter,
        "earlier": dict(earlier),
        "tools": tools(plan, caller),
    }
    return state_digest(values)
