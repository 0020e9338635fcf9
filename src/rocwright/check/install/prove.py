"""Try the installation of a set: every Python and platform of it that is at hand, with pip and with uv."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from rocwright.check.context import Context
from rocwright.check.environments import Environment
from rocwright.check.install.act import INSTALLERS, Index, install, missing_tool
from rocwright.check.install.facts import Installation
from rocwright.check.install.interpreters import (
    interpreter_of,
    this_environment,
    this_platform,
    too_new,
)
from rocwright.check.install.plan import InstallPlan, plan_install
from rocwright.check.install.stand_ins import write_stand_in
from rocwright.errors import InvalidInput
from rocwright.system.files import remove_tree, require_space
from rocwright.system.structs import ready_for_threads

# Files of an index, where to lay it out → the index, for as long as the block runs.
Serve = Callable[[Sequence[Path], Path], AbstractContextManager[Index]]


def prove(
    context: Context, serve: Serve, work: Path, *, note: Callable[[str], None], log: Path | None = None
) -> tuple[Installation, ...]:
    """Install the whole set in each environment that it is for; what cannot be tried says why.

    `serve` makes an index of given files, and nothing else, reachable over HTTP. Everything is done below
    `work`, on a disk with room for what is installed, twice; `log` takes what the installers print.
    """
    return tuple(
        done
        for environment in _environments(context)
        for done in _one(context, environment, serve, work, note, log)
    )


def _environments(context: Context) -> tuple[Environment, ...]:
    bound = any(tag.startswith("cp") for facts in context.files for tag in facts.tags)
    if bound or this_platform() not in {each.platform for each in context.environments}:
        return context.environments
    # Nothing is for one Python only, so the running one is as good as any.
    others = [each for each in context.environments if each.platform != this_platform()]
    return (this_environment(), *others)


def _one(
    context: Context,
    environment: Environment,
    serve: Serve,
    work: Path,
    note: Callable[[str], None],
    log: Path | None,
) -> Iterator[Installation]:
    def left(why: str, next_step: str = "") -> list[Installation]:
        return [
            Installation(installer, str(environment), not_tried=why, next_step=next_step)
            for installer in INSTALLERS
        ]

    if environment.platform != this_platform():
        yield from left(f"this machine is {this_platform()}", f"check it on {environment.platform}, too")
        return
    python = interpreter_of(environment)
    if python is None:
        yield from left("no such Python is on PATH", "install it, or check where it is")
        return
    plan = plan_install(context, environment)
    if plan.obstacle is not None:
        yield from left(plan.obstacle, "resolve the findings of the other rules first")
        return
    newer = too_new([facts for facts in context.files if environment.takes(facts)])
    if newer:
        yield from left(f"{', '.join(newer)} asks for a newer C library", "check it on a newer system")
        return
    note(f"installing with pip and uv for {environment}")
    try:
        yield from _both(plan, serve, work, python, log)
    except InvalidInput as error:
        yield from left(error.what, error.next_step or "")


def _both(plan: InstallPlan, serve: Serve, work: Path, python: Path, log: Path | None) -> list[Installation]:
    """pip and uv side by side, each with an index of its own, so that their requests are told apart."""
    packed = sum(path.stat().st_size for path in plan.files)
    require_space(work, 2 * (plan.size + packed), purpose="trying the installation with pip and uv")
    folder = work / f"index-{plan.environment.abi}"
    stand_ins = [write_stand_in(folder / "stand-ins", one) for one in plan.stand_ins]
    files = [*plan.files, *stand_ins]

    def try_it(installer: str) -> Installation:
        missing = missing_tool(installer)
        if missing is not None:
            where = str(plan.environment)
            return Installation(installer, where, not_tried="it is not here", next_step=missing)
        own = None if log is None else log.with_name(f"{log.stem}-{installer}{log.suffix}")
        with serve(files, folder / installer) as index:
            return install(plan, installer, index, work, python=python, log=own)

    ready_for_threads()
    try:
        with ThreadPoolExecutor(max_workers=len(INSTALLERS)) as pool:
            return list(pool.map(try_it, INSTALLERS))
    finally:
        remove_tree(folder)
