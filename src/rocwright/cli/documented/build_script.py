"""The documented `build_prod_wheels.py`: `build` and `install-rocm`, with options on either side of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from cyclopts import App

from rocwright.cli.build import PACKAGES, PRODUCT, TREES, WHERE, WORK, Asked, Door, run
from rocwright.cli.build_options import OutputDir, Packages, Product, Trees, Where, Work
from rocwright.cli.documented.install_rocm import install_rocm
from rocwright.cli.parse import parsed
from rocwright.cli.reply import Reply, replies
from rocwright.errors import UsageError


def _build(door: Door) -> Callable[..., None]:
    @replies
    def build(
        *,
        output_dir: OutputDir,
        packages: Packages = PACKAGES,
        where: Where = WHERE,
        trees: Trees = TREES,
        product: Product = PRODUCT,
        work: Work = WORK,
    ) -> Reply:
        """Build wheels of what is checked out beside this script, against the ROCm of this environment.

        The environment is $VIRTUAL_ENV, else the one that runs the script; the built wheels are installed
        there, too (--no-install-wheels leaves that out). Without ROCm packages in it, a ROCm that
        CMAKE_PREFIX_PATH names is taken, else the one that a build from source left in build/dist/rocm of
        this repository.

        Parameters
        ----------
        output_dir
            Where the wheels go; made if it is not there.
        json
            Print the result as JSON.
        """
        return run(Asked(output_dir, packages, where, trees, product, work), door)

    return build


def script_app(script: Path) -> App:
    """The command line of the script; defaults are relative to its directory."""
    here = script.resolve().parent
    door = Door(beside=here, environment_first=True, dist_dir=here.parent.parent / "build/dist/rocm")
    app = App(name=script.name, help="Build PyTorch wheels against ROCm's Python packages.", version_flags=[])
    app.command(_build(door), name="build")
    app.command(install_rocm, name="install-rocm")
    return app


def command_first(app: App, arguments: Sequence[str]) -> list[str]:
    """The words with the sub-command in front: options may stand before it, after it, or on both sides.

    The first word that is neither an option nor the value of one is the sub-command.
    """
    valued = _valued(app)
    words = list(arguments)
    number = 0
    while number < len(words):
        word = words[number]
        if not word.startswith("-"):
            return [word, *words[:number], *words[number + 1 :]]
        number += 2 if word in valued else 1
    return words


def _valued(app: App) -> set[str]:
    """Options of any sub-command that the next word belongs to."""
    found: set[str] = set()
    for name in app:
        if name.startswith("-"):
            continue
        for argument in app[name].assemble_argument_collection():
            kinds = (argument.hint, *getattr(argument.hint, "__args__", ()))
            if bool not in kinds:
                found.update(argument.names)
    return found


def run_script(script: Path, arguments: Sequence[str]) -> None:
    """Run the script's command line; words that it does not know end it with exit code 2."""
    app = script_app(script)
    if not arguments:
        app.help_print([])
        sys.exit(UsageError.exit_code)
    words = command_first(app, arguments)
    if words[0].startswith("-") and words[0] not in app:
        raise UsageError(
            "no sub-command is given",
            next_step="write build or install-rocm, before the options or behind them",
        )
    parsed(app, words)
