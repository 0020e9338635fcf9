"""Build every project that is checked out, in order, in one environment with ROCm installed from wheels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.build.before.headers import require_headers
from rocwright.build.decide.family import FamilyPlan
from rocwright.build.decide.plan import plan_build
from rocwright.build.decide.recipe import recipes
from rocwright.build.rocm.described import Rocm
from rocwright.build.rocm.install import install_rocm
from rocwright.build.run.project import BuiltWheel, run_build
from rocwright.errors import UsageError
from rocwright.system import venv
from rocwright.system.interpreters import Interpreter
from rocwright.system.venv import Closed, Environment

# What the setup.py files of the family need to make wheels; other build requirements are their own.
BUILD_TOOLS = ("setuptools==80.9.0", "wheel==0.45.1")


def find_projects(directories: Mapping[str, Path]) -> dict[str, Path]:
    """The projects that are checked out, in build order; raises `UsageError` when none is."""
    order = [recipe.project for recipe in recipes().recipe]
    known = {project: directories[project] for project in order if project in directories}
    found = {project: directory for project, directory in known.items() if directory.is_dir()}
    if not found:
        looked = ", ".join(str(path) for path in directories.values())
        raise UsageError(
            f"no source tree to build; looked for {looked}",
            next_step="check one out with `rocwright checkout torch`",
        )
    return found


def prepare_environment(
    root: Path, places: Closed, *, spec: str, log: Path, note: Callable[[str], None]
) -> tuple[Environment, Rocm]:
    """A new build environment at `root`: build tools from the user's index, ROCm from `places` only."""
    environment = venv.create(root, log=log)
    note("installing build tools")
    venv.pip_install(environment, BUILD_TOOLS, closed=None, log=log)
    note(f"installing rocm[libraries,devel]{spec}")
    return environment, install_rocm(environment, places, spec=spec, log=log)


def build_family(
    sources: Mapping[str, Path],
    places: Closed,
    output: Path,
    *,
    environment_dir: Path,
    targets: Sequence[str],
    rocm_spec: str,
    release_type: str,
    jobs: int,
    log_dir: Path,
    note: Callable[[str], None],
) -> tuple[BuiltWheel, ...]:
    """Install ROCm from `places`, then build each project against it and the wheels before it.

    Wheels appear in `output` one by one, each whole; a failing build leaves those before it.
    """
    table = recipes()
    require_headers()
    environment, rocm = prepare_environment(
        environment_dir, places, spec=rocm_spec, log=log_dir / "build-env.log", note=note
    )
    built: dict[str, BuiltWheel] = {}
    for project, directory in sources.items():
        plan = plan_build(
            project,
            directory,
            table=table,
            rocm=rocm,
            targets=targets,
            built={name: wheel.version for name, wheel in built.items() if name in table.get(project).after},
            caller=os.environ,
            jobs=jobs,
            release_type=release_type,
        )
        note(f"building {plan.project} {plan.version}".rstrip())
        built[project] = run_build(plan, environment, output, log=log_dir / f"build-{project}.log")
    return tuple(built.values())


class FamilyResult(msgspec.Struct, frozen=True):
    """What became of a family: its wheels in build order, and which of them were there from an earlier run.

    `resumed` are `cp312-torch`, …; `proven` those that were imported in an environment made for it, of the
    same form.
    """

    wheels: tuple[BuiltWheel, ...]
    resumed: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()


def run_family(
    plan: FamilyPlan,
    *,
    interpreters: Mapping[str, Interpreter],
    output_dir: Path,
    work_dir: Path,
    resume: bool,
    note: Callable[[str], None],
    editable_into: Environment | None = None,
) -> FamilyResult:
    """Carry out a family's plan; `interpreters` by `BuildPlan.python`, the running one for an empty text.

    Editable builds go into the environment `editable_into`, all others into environments below `work_dir`.
    """
    built: list[BuiltWheel] = []
    made: dict[str, Environment] = {}
    for each in plan.builds:
        interpreter = interpreters[each.python]
        if each.python not in made:
            root = work_dir / "env" / interpreter.tag
            environment = venv.create(root, python=Path(interpreter.path), log=work_dir / "log" / "env.log")
            made[each.python] = environment
        note(f"building {each.project} {each.version}".rstrip())
        log = work_dir / "log" / f"{interpreter.tag}-{each.project}.log"
        built.append(run_build(each, made[each.python], output_dir, log=log))
    return FamilyResult(tuple(built))
