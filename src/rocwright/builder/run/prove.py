"""Install every built wheel together in a fresh environment, and import each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.run.environments import Imported, require_import, show_rocm
from rocwright.builder.run.project import BuiltWheel
from rocwright.errors import CommandFailed, InvalidWheel
from rocwright.system import venv
from rocwright.system.interpreters import Interpreter
from rocwright.system.venv import Environment


class Proven(msgspec.Struct, frozen=True):
    """A wheel that was imported in an environment made for it: what it said there."""

    project: str
    python: str
    said: Imported


def prove(
    wheels: Sequence[BuiltWheel],
    import_names: dict[str, str],
    *,
    interpreter: Interpreter,
    rocm: Rocm,
    root: Path,
    view: Path,
    log: Path,
) -> tuple[Proven, ...]:
    """Import the wheels of one Python in a new environment at `root`, which sees ROCm and nothing else.

    Their further dependencies come from the user's own index. Raises `InvalidWheel` naming every project that
    does not import; the wheels stay where they are.
    """
    environment = venv.create(root, python=Path(interpreter.path), log=log)
    show_rocm(environment, rocm, view=view)
    install_built(environment, wheels, log=log)
    proven, failed = [], []
    for wheel in wheels:
        try:
            said = require_import(
                wheel.project, import_names.get(wheel.project, ""), environment, rocm, log=log
            )
            proven.append(Proven(wheel.project, interpreter.name, said))
        except InvalidWheel as error:
            failed.append((wheel, error.what))
    if failed:
        lines = "\n".join(f"  {Path(wheel.path).name}: {what}" for wheel, what in failed)
        raise InvalidWheel(
            f"{len(failed)} of {len(wheels)} wheels do not work in a fresh environment; "
            f"they stay in the output directory, unproven\n{lines}",
            where=log,
            next_step=f"try it there: {environment.python} -c 'import {failed[0][0].project}'",
        )
    return tuple(proven)


def install_built(environment: Environment, wheels: Sequence[BuiltWheel], *, log: Path) -> None:
    """Install built wheels together with what they need; raises `InvalidWheel` when pip finds no way."""
    paths = [wheel.path for wheel in wheels]
    try:
        venv.pip_install(environment, paths, closed=None, log=log)
        device = [path for wheel in wheels for path in wheel.device]
        if device:
            # They ask for ROCm's device code, which a machine that only builds need not have.
            venv.pip_install(environment, device, closed=None, options=["--no-deps"], log=log)
    except CommandFailed as error:
        last = next((line for line in reversed(error.tail.splitlines()) if "ERROR" in line), "see the log")
        raise InvalidWheel(
            f"the built wheels cannot be installed together: {last}",
            where=log,
            next_step="an index must have what else they need (PIP_INDEX_URL); the wheels stay, unproven",
        ) from error
