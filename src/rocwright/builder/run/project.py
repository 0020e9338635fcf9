"""Carry out a build plan: one project, one wheel, a source tree left as it was found, and nothing in the
wheel of what earlier builds left in its directory.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from rocwright.builder.decide.plan import BuildPlan, BuiltWheel
from rocwright.builder.pins import give_local_version, require_pins
from rocwright.builder.rocm.rocm import Rocm, offered_extras
from rocwright.builder.run import undo
from rocwright.builder.run.environments import in_environment, is_installed, require_import, satisfies
from rocwright.builder.run.fence import fence_command, wants_network
from rocwright.builder.run.isolation import (
    leaks,
)
from rocwright.builder.run.leftovers import Leftovers
from rocwright.builder.run.tree import SourceTree, clean_up
from rocwright.builder.units.launch import LAUNCHER_OF, stand_ins
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import CommandFailed, InvalidInput, InvalidWheel, UsageError
from rocwright.system import process, venv
from rocwright.system.files import link_or_copy, make_directory, remove_tree, sha256_file, write_text
from rocwright.system.progress import Count, counted
from rocwright.system.venv import Environment, pip_install
from rocwright.wheel.metadata import normalized_name
from rocwright.wheel.read import open_wheel

Note = Callable[[str], None]

# What compilers that the kernel killed for memory, or that got none, leave in the words of gcc, of clang, of
# ninja and of a build in Python.
_SCARCE = re.compile(
    r"Killed signal terminated program|unable to execute command: Killed|^(?:.*: )?Killed$"
    r"|(?:exit (?:status|code)|code)[ =](?:-9|137)\b|Error 137$|LLVM ERROR: out of memory"
    r"|virtual memory exhausted|Cannot allocate memory|std::bad_alloc|fatal error C1060",
    re.MULTILINE,
)

_NINJA = re.compile(r"\[(\d+)/(\d+)\] ")


def _steps_of_ninja(line: str, count: Count, *, whole: bool) -> None:
    """What ninja says is of all that is to be done only where it runs once: `whole`."""
    if (found := _NINJA.match(line)) is None:
        return
    if whole:
        count.reach(int(found[1]), int(found[2]))
    else:
        count.add(1)


def _requirements(path: Path) -> list[str]:
    """The lines of a requirements file that say something; none where there is no file."""
    if not path.exists():
        return []
    lines = (line.partition(" #")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


class Build:
    """One run of a plan in a tree that is held for it."""

    def __init__(
        self,
        plan: BuildPlan,
        environment: Environment,
        tree: SourceTree,
        *,
        rocm: Rocm | None,
        log: Path,
        dist: Path,
        threads: int,
        note: Note,
        given: Sequence[BuiltWheel] = (),
    ) -> None:
        """`given` are wheels in the environment, which have to stay there; `dist` is for the wheel alone."""
        if (plan.platform == "windows") != (sys.platform == "win32"):
            raise UsageError(
                f"a build for {plan.platform} cannot be run on this machine",
                next_step="add --dry-run to see what it would do",
            )
        self.plan, self.environment, self.tree, self.rocm = plan, environment, tree, rocm
        self.log, self.threads, self.note, self.given = log, threads, note, given
        self.directory = Path(plan.directory)
        self.dist = dist
        self.leftovers = Leftovers(plan, environment.python, rocm, given)

    def run(self, output: Path, before: frozenset[str]) -> tuple[BuiltWheel, tuple[str, ...]]:
        """Prepare, compile, check, install, put out; also new files that the build left in the tree.

        `before` are the files that were untracked. The tree is as before when it worked; one that made no
        wheel leaves its `build` there, so that the next goes on.
        """
        self._prepare()
        if self.plan.editable:
            return self._editable(), ()
        self.tree.begin(self.leftovers.build, before)
        try:
            built, used = self._wheel()
            target, device = self._put_out(built, output)
        except BaseException:
            clean_up(self.tree, before, self.note, failed=True)
            raise
        remove_tree(self.dist)
        made = clean_up(self.tree, before, self.note)
        wheel = BuiltWheel(
            project=self.plan.project,
            version=open_wheel(target).metadata.version,
            path=str(target),
            sha256=sha256_file(target),
            size=target.stat().st_size,
            wall_s=round(used.wall_s, 2),
            cpu_s=round(used.cpu_s, 2),
            peak_rss=used.peak_rss,
            python=self.plan.python,
            device=device,
        )
        return wheel, made

    def _wheel(self) -> tuple[Path, process.Completed]:
        """Compiled, right, and in the environment where others need it; what the command took."""
        # Not `dist` in the tree: what lies there is the user's.
        remove_tree(self.dist)
        place = "--outdir" if self.plan.argv[:3] == ("python", "-m", "build") else "--dist-dir"
        argv = [*self.plan.argv, place, str(self.dist)]
        if argv[0] == "python":
            argv[0] = str(self.environment.python)
        written = {*self.plan.generated, *self.plan.copied}
        # Left by an editable install against another ROCm: no part of this wheel.
        absent = [name for name in undo.kept_files(self.tree.own) if name not in written]
        try:
            with undo.written(
                self.tree.journal, self.tree.directory, self.plan.generated, self.plan.copied, absent
            ):
                used = self._command(argv)
        except BaseException:
            remove_tree(self.dist)
            raise
        built = give_local_version(_the_wheel(self.plan, self.dist), self.plan.local)
        require_pins(built, self.plan.pins)
        if self.plan.install:
            self._install(built)
        return built, used

    def _prepare(self) -> None:
        """What the build needs goes in, what would stand in its way goes out."""
        plan = self.plan
        files = [self.tree.directory / name for name in plan.requirements_files]
        lines = {path: listed for path in files if (listed := _requirements(path))}
        needed = [*plan.requirements, *(line for listed in lines.values() for line in listed)]
        if needed and not satisfies(self.environment, needed):
            words = [*plan.requirements, *(word for path in lines for word in ("-r", str(path)))]
            pip_install(self.environment, words, closed=None, options=self._constraints(), log=self.log)
        there = [name for name in plan.uninstalled if is_installed(self.environment, name)]
        if there:
            venv.pip_uninstall(self.environment, there, log=self.log)
        if self.leftovers.of_another_toolchain:
            self.note(
                f"{plan.project}: the compilers, their inputs or ROCm changed, so all is compiled again"
            )
        for name in (*plan.removed, *self.leftovers.unwanted()):
            path = self.directory / name
            if self.tree.directory not in path.resolve().parents:
                raise InvalidInput(f"{name!r} lies outside of the tree and is not removed", where=path)
            remove_tree(path)

    def _constraints(self) -> list[str]:
        """Else pip would bring another torch, one for CUDA perhaps, where a requirement wants another."""
        if not self.given:
            return []
        path = self.environment.root / "rocwright-given.txt"
        lines = sorted(f"{wheel.distribution}=={wheel.version}\n" for wheel in self.given)
        write_text(path, "".join(lines))
        return ["--constraint", str(path)]

    def _command(self, argv: list[str]) -> process.Completed:
        path = os.pathsep.join([str(self.environment.bin), self.plan.env.get("PATH", os.defpath)])
        # Unbuffered: else what compilers said comes before the lines of the script that ran them.
        env = {"PYTHONUNBUFFERED": "1", **in_environment(self.plan.env, self.environment), "PATH": path}
        argv = [*(fence_command({**os.environ, **env}) if self.plan.fenced else ()), *argv]
        if self.plan.plain_compilers and (instead := stand_ins({**os.environ, **env})):
            # Not both: a cache would take what stands in for the compiler.
            twice = {LAUNCHER_OF[name] for name in LAUNCHER_OF.keys() & instead}
            env = {name: value for name, value in env.items() if name not in twice} | instead
        if any(name.endswith("_LAUNCHER") for name in env):
            env["ROCWRIGHT_BUILD"] = f"{self.plan.project} {self.plan.python}".rstrip()
        self.leftovers.begin()
        try:
            with counted(f"building {self.plan.project}", unit="steps") as count:
                return process.run(
                    argv,
                    cwd=self.directory,
                    env=env,
                    drop_env=leaks(os.environ, env),
                    log=self.log,
                    # BuildExtension runs it for each module.
                    heard=lambda line: _steps_of_ninja(line, count, whole=not self.plan.plain_compilers),
                    next_step="run again to continue: what is already compiled is kept",
                )
        except CommandFailed as error:
            if error.status == -9 or _SCARCE.search(error.tail):
                error.next_step = (
                    "a compiler was killed, perhaps for lack of memory: give fewer --jobs and run again"
                )
            elif wants_network(error.tail):
                error.next_step = self._without_network()
            raise
        finally:
            self.leftovers.end()

    def _without_network(self) -> str:
        if self.plan.fenced:
            return (
                f"the build of {self.plan.project} wants something from the network, which builds do not "
                f"reach: see {self.log} for what, and bring it by hand, or give --allow-downloads"
            )
        return (
            f"the build of {self.plan.project} wants something from the network and did not reach it: see "
            f"{self.log} for what, and bring it by hand and let the build take it, or let it reach that"
        )

    def _editable(self) -> BuiltWheel:
        """`pip install -e`: the tree itself is what is imported, with the files that the plan generates."""
        plan = self.plan
        undo.write_and_keep(self.tree.own, self.tree.directory, plan.generated, plan.copied)
        argv = [str(self.environment.python), *plan.argv[1:]]
        if plan.argv[:3] == ("python", "-m", "pip"):
            # The environment need not have a pip of its own.
            argv = [*venv.pip_command(), "--python", str(self.environment.python), *plan.argv[3:]]
        used = self._command(argv)
        require_import(plan.project, plan.import_name, self.environment, self.rocm, log=self.log)
        name = normalized_name(plan.wheel_name or plan.project)
        return BuiltWheel(
            project=plan.project,
            version=venv.installed(self.environment).get(name, plan.version),
            path=plan.directory,
            sha256="",
            size=0,
            wall_s=round(used.wall_s, 2),
            cpu_s=round(used.cpu_s, 2),
            peak_rss=used.peak_rss,
            python=plan.python,
        )

    def _install(self, built: Path) -> None:
        # Its dependencies are in the environment already; an index has none of them yet.
        options = ["--no-deps", "--force-reinstall", "--no-index"]
        pip_install(self.environment, [str(built)], closed=None, options=options, log=self.log)
        require_import(self.plan.project, self.plan.import_name, self.environment, self.rocm, log=self.log)

    def _put_out(self, built: Path, output: Path) -> tuple[Path, tuple[str, ...]]:
        """Each file whole or not there; returns the wheel and what was split off it."""
        make_directory(output)
        target = output / built.name
        if not self.plan.split:
            link_or_copy(built, target)
            return target, ()
        requires = _device_requirements(self.rocm)
        done = split_wheel(built, output, device_requires=requires, threads=self.threads, note=self.note)
        for left in done.kept:
            self.note(f"{built.name}: {left.member} keeps its device code: {left.reason}")
        return target, tuple(wheel.path for wheel in done.device)


def _device_requirements(rocm: Rocm | None) -> tuple[str, ...]:
    """ROCm's own device code for the same target, where ROCm is packaged in that way."""
    if rocm is None or not any(name.startswith("device-") for name in offered_extras(rocm)):
        return ()
    return (f"rocm-sdk-device-@GFXARCH@=={rocm.version}",)


def _the_wheel(plan: BuildPlan, dist: Path) -> Path:
    wheels = sorted(dist.glob("*.whl"))
    if len(wheels) != 1:
        found = ", ".join(wheel.name for wheel in wheels) or "none"
        raise InvalidWheel(f"{plan.project}: its build was to make one wheel, and made {found}", where=dist)
    version = open_wheel(wheels[0]).metadata.version
    if plan.local:
        return _own_wheel(plan, wheels[0], version)
    if plan.version and not _same_version(version, plan.version):
        raise InvalidWheel(
            f"{plan.project} built version {version}, expected {plan.version}",
            where=wheels[0],
            next_step="does its setup.py honour the version variable of its recipe?",
        )
    return wheels[0]


def _own_wheel(plan: BuildPlan, wheel: Path, version: str) -> Path:
    """The wheel of a project that knows nothing of local versions, named as its sources are."""
    name = normalized_name(open_wheel(wheel).metadata.name)
    if name != normalized_name(plan.project):
        raise InvalidWheel(
            f"the sources given for {plan.project} built {name}",
            where=wheel,
            next_step=f"name them so: --project '{name} @ …'",
        )
    if plan.version and not _same_version(_public(version), _public(plan.version)):
        raise InvalidWheel(
            f"{plan.project} built version {version}, its sources call themselves {_public(plan.version)}",
            where=wheel,
            next_step="see what its setup.py makes the version of",
        )
    return wheel


def _public(version: str) -> str:
    return version.partition("+")[0]


def _same_version(one: str, other: str) -> bool:
    """Build systems write versions in their normal form: `dev0-abc` becomes `dev0.abc`."""
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other
