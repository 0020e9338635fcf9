"""Carry out a build plan: one project, one wheel, a source tree left as it was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rocwright.build.decide.plan import BuildPlan
from rocwright.errors import InvalidWheel
from rocwright.system import process
from rocwright.system.files import link_or_copy, remove_tree, sha256_file
from rocwright.system.venv import Environment, pip_install
from rocwright.wheel.read import open_wheel


class BuiltWheel(msgspec.Struct, frozen=True):
    """A built wheel: where it lies, what it is, what it cost."""

    project: str
    version: str
    path: str
    sha256: str
    size: int
    wall_s: float
    cpu_s: float
    peak_rss: int


def run_build(plan: BuildPlan, environment: Environment, output: Path, *, log: Path) -> BuiltWheel:
    """Build one wheel and put it into `output`; install it when later projects are built against it.

    Raises `CommandFailed` with the last lines of the compiler, `InvalidWheel` when the build made no wheel,
    more than one, or one of another version than planned. `output` then has no new file.
    """
    directory = Path(plan.directory)
    for name in plan.requirements_files:
        if _has_requirements(directory / name):
            pip_install(environment, ["-r", str(directory / name)], closed=None, log=log)
    dist = directory / "dist"
    remove_tree(dist)
    path = f"{environment.bin}:{plan.env['PATH']}"
    with _generated_files(plan):
        used = process.run(
            [str(environment.python), *plan.argv[1:]],
            cwd=directory,
            env={**plan.env, "PATH": path},
            drop_env=["PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV"],
            log=log,
            next_step=f"the whole output is in {log}",
        )
    built = _the_wheel(plan, dist)
    wheel = open_wheel(built)
    if plan.install:
        # Its dependencies are in the environment already; an index has none of them yet.
        options = ["--no-deps", "--force-reinstall", "--no-index"]
        pip_install(environment, [str(built)], closed=None, options=options, log=log)
    output.mkdir(parents=True, exist_ok=True)
    target = output / built.name
    link_or_copy(built, target)
    remove_tree(dist)
    return BuiltWheel(
        project=plan.project,
        version=wheel.metadata.version,
        path=str(target),
        sha256=sha256_file(target),
        size=target.stat().st_size,
        wall_s=round(used.wall_s, 2),
        cpu_s=round(used.cpu_s, 2),
        peak_rss=used.peak_rss,
    )


def _has_requirements(path: Path) -> bool:
    if not path.exists():
        return False
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return any(line and not line.startswith("#") for line in lines)


@contextmanager
def _generated_files(plan: BuildPlan) -> Iterator[None]:
    """Write generated sources for the time of the build; the checkout is clean again afterwards."""
    texts = {Path(plan.directory) / path: text for path, text in plan.generated.items()}
    before = {path: path.read_bytes() for path in texts if path.exists()}
    try:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
        yield
    finally:
        for path in texts:
            if path in before:
                path.write_bytes(before[path])
            else:
                path.unlink(missing_ok=True)


def _the_wheel(plan: BuildPlan, dist: Path) -> Path:
    wheels = sorted(dist.glob("*.whl"))
    if len(wheels) != 1:
        found = ", ".join(wheel.name for wheel in wheels) or "none"
        raise InvalidWheel(f"{plan.project}: expected one wheel in dist, found {found}", where=dist)
    version = open_wheel(wheels[0]).metadata.version
    if plan.version and version != plan.version:
        raise InvalidWheel(
            f"{plan.project} built version {version}, expected {plan.version}",
            where=wheels[0],
            next_step="does its setup.py honour the version variable of its recipe?",
        )
    return wheels[0]
