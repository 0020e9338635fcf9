"""From what a user asks for to proven wheels: which ROCm, facts, plan, problems, run.

Everything is looked at before anything is done: a run that cannot succeed says all that is in its way.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.utils import parse_wheel_filename

from rocwright.builder.before.downloads import download_notes, download_problems, reached_downloads
from rocwright.builder.before.host import Unpacking, look_at_host, look_at_packages
from rocwright.builder.before.msvc import enter_msvc
from rocwright.builder.before.needs import Problem, problem_of, require_none
from rocwright.builder.before.obstacles import find_advice, find_problems
from rocwright.builder.before.tree import has_sources
from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.recipe import RecipeTable
from rocwright.builder.decide.tree import SourceFacts, absent_tree
from rocwright.builder.order import Order, Planner, wanted_trees
from rocwright.builder.rocm.install import require_python
from rocwright.builder.rocm.place import RocmPlace, installed_rocm, own_root, place_environment, present_rocm
from rocwright.builder.rocm.rocm import Rocm, unknown_rocm
from rocwright.builder.run.environments import install_built
from rocwright.builder.run.family import FamilyResult, run_family
from rocwright.builder.units.report import BuildReport
from rocwright.errors import MissingTool, RocwrightError, UsageError
from rocwright.system.interpreters import Interpreter, ask_interpreter, find_interpreter
from rocwright.system.limits import available_cores
from rocwright.system.venv import Environment, pip_install

Note = Callable[[str], None]


def build_family(order: Order, table: RecipeTable, *, note: Note, rocm: Rocm | None = None) -> FamilyResult:
    """Build, prove and, if asked, install the wheels; `rocm` where it has been looked at already.

    Raises `NotReady` with everything that is in the way before anything is written, `CommandFailed` of a
    build; what was finished before it stays.
    """
    enter_msvc(os.environ, note)
    problems: list[Problem] = list(order.problems)
    trees = _trees(order, table, problems)
    interpreters = _interpreters(order.pythons, problems)
    rocm = rocm or _rocm_before(order.place, problems)
    planner = Planner(order, table, trees, tuple(interpreters))
    plan = planner.plan(rocm, unsure=True)
    downloads = _downloads(plan, table, trees, problems)
    unpacking = _unpacking(order) if rocm.origin == "unknown" else None
    advice = _require_ready(order, plan, interpreters, problems, unpacking)
    if rocm.origin == "unknown":
        rocm = installed_rocm(order.place, Path(order.work_dir), os.environ, note=note)
        plan = planner.plan(rocm)
        advice = _require_ready(order, plan, interpreters, ())
    for text in (*order.notes, *downloads, *plan.notes, *advice, planner.jobs.why):
        note(text)
    target = (
        place_environment(order.place, os.environ) if order.install_wheels or order.wanted.editable else None
    )
    result = run_family(
        plan,
        interpreters=interpreters,
        output_dir=Path(order.output_dir),
        work_dir=Path(order.work_dir),
        resume=order.resume,
        note=note,
        cache=order.wanted.cache,
        cache_hip=order.wanted.cache_hip,
        editable_into=target if order.wanted.editable else None,
        threads=available_cores(),
        given=order.built,
        seen=order.seen,
        proof=order.proof,
    )
    if target is not None and order.install_wheels:
        _install_wheels(target, result, order, note)
    return result


def last_report(order: Order) -> BuildReport | None:
    """What the compilers of the last run cost, also of one that failed; None where there was none."""
    try:
        text = (Path(order.work_dir) / "units" / "report.json").read_bytes()
        return msgspec.json.decode(text, type=BuildReport)
    except (OSError, msgspec.DecodeError):
        return None


# -- facts ---------------------------------------------------------------------------------------------------


def _trees(order: Order, table: RecipeTable, problems: list[Problem]) -> dict[str, SourceFacts]:
    """What the plan has to know of each tree; one that cannot be read is a problem, like others after it."""
    found = {}
    for project, where in wanted_trees(order).items():
        recipe = table.get(project)
        try:
            found[project] = order.read(project, table)
        except RocwrightError as error:
            # No directory, an empty one, no git: told with what else the machine lacks.
            if has_sources(Path(where)) and not isinstance(error, MissingTool):
                problems.append(problem_of(error))
            found[project] = absent_tree(recipe, Path(where))
    return found


def _downloads(
    plan: FamilyPlan, table: RecipeTable, trees: Mapping[str, SourceFacts], problems: list[Problem]
) -> tuple[str, ...]:
    """What may be downloaded by the builds themselves, as notes; what is certain to be is a problem."""
    notes: list[str] = []
    for project in dict.fromkeys(build.project for build in plan.builds):
        recipe, tree = table.get(project), trees[project]
        if recipe.local_version:
            # What stands on torch was searched when it was ordered, and is kept from the network.
            continue
        directory, on_cmake = Path(tree.directory), tree.backend.startswith("scikit_build_core")
        found = reached_downloads(directory, tree.setup, cmake=on_cmake)
        problems += download_problems(project, found, recipe.fetches, directory)
        notes += download_notes(project, found, recipe.fetches)
    return tuple(notes)


def _interpreters(pythons: Sequence[str], problems: list[Problem]) -> dict[str, Interpreter]:
    """Those asked for, by name; the running one where none is."""
    found: dict[str, Interpreter] = {}
    for text in pythons or ("",):
        try:
            interpreter = find_interpreter(text)
        except RocwrightError as error:
            problems.append(problem_of(error))
            continue
        found[interpreter.name] = interpreter
    if not found:
        # The rest can still be judged, for the Python at hand.
        running = find_interpreter("")
        found[running.name] = running
    return found


def _rocm_before(place: RocmPlace, problems: list[Problem]) -> Rocm:
    """The ROCm before anything is done: unknown where it is still to be installed, or cannot be used."""
    try:
        if place.install:
            require_python(place_environment(place, os.environ))
        if place.kind == "own" or place.install:
            return unknown_rocm(place.exact_version)
        return present_rocm(place, os.environ)
    except RocwrightError as error:
        problems.append(problem_of(error))
        return unknown_rocm()


def _unpacking(order: Order) -> Unpacking | None:
    """ROCm's packages that are to be installed first."""
    place = order.place
    if place.kind == "own":
        return look_at_packages(place, own_root(Path(order.work_dir)))
    # What cannot be found is a problem that has been told.
    with contextlib.suppress(UsageError):
        if place.install:
            return look_at_packages(place, place_environment(place, os.environ).root)
    return None


def _require_ready(
    order: Order,
    plan: FamilyPlan,
    interpreters: Mapping[str, Interpreter],
    problems: Sequence[Problem],
    unpacking: Unpacking | None = None,
) -> tuple[str, ...]:
    """Raise `NotReady` with the problems and what the machine lacks; returns what only deserves attention."""
    host = look_at_host(
        plan,
        interpreters=interpreters,
        output_dir=Path(order.output_dir),
        work_dir=Path(order.work_dir),
        cache=order.wanted.cache,
        unpacking=unpacking,
    )
    found = dict.fromkeys((*problems, *find_problems(plan, host)))
    require_none(tuple(found), work="the build")
    return find_advice(plan, host)


# -- afterwards ----------------------------------------------------------------------------------------------


def _install_wheels(target: Environment, result: FamilyResult, order: Order, note: Note) -> None:
    """The built wheels together into the user's environment; their other dependencies from his index."""
    made = [wheel for wheel in result.wheels if wheel.sha256]
    if not made:
        # Editable projects alone: they are there already.
        return
    own = ask_interpreter(target.python).tag
    wheels = [wheel for wheel in made if _serves(Path(wheel.path), own)]
    if not wheels:
        note(f"none of the wheels is for the Python of {target.root}, so none was installed there")
        return
    note(f"installing the wheels into {target.root}")
    log = Path(order.work_dir) / "log" / "install-wheels.log"
    # Anew, since a wheel of the same version may have another content; then what they require besides.
    paths = [path for wheel in wheels for path in (wheel.path, *wheel.device)]
    pip_install(target, paths, closed=None, options=["--force-reinstall", "--no-deps"], log=log)
    install_built(target, wheels, log=log)


def _serves(wheel: Path, tag: str) -> bool:
    """Whether a wheel is for the Python with this tag: cp313t takes none that is for cp313."""
    tags = parse_wheel_filename(wheel.name)[3]
    return any(
        each.interpreter == "py3" or (each.interpreter == tag.rstrip("t") and each.abi in (tag, "none"))
        for each in tags
    )
