"""The documented `build_prod_wheels.py`: `build` and `install-rocm`, with options on either side of them. The
second is `rocwright install-rocm`, too.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from cyclopts import App

from rocwright.builder.rocm.install import INDEX_WAIT_S, RETRY_EVERY_S, Install, pip_calls, wanted_rocm
from rocwright.builder.rocm.install import install_rocm as install
from rocwright.builder.rocm.place import closed_places, find_environment
from rocwright.builder.rocm.rocm import Rocm
from rocwright.cli.build import PACKAGES, PRODUCT, TREES, WHERE, WORK, Asked, Door, run
from rocwright.cli.build_options import Packages, Product, Trees, Where, Work, words
from rocwright.cli.options import OutputDir, Place
from rocwright.cli.parse import ScriptHelp, parsed
from rocwright.cli.reply import Reply, replies
from rocwright.errors import UsageError
from rocwright.pipeline.options import default_cache
from rocwright.system import console, files
from rocwright.system.redact import without_login
from rocwright.system.venv import Environment


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
    app = App(
        name=script.name,
        help="Build PyTorch wheels against ROCm's Python packages.",
        version_flags=[],
        help_formatter=ScriptHelp(),
        help_format="plaintext",
    )
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
            next_step="add build or install-rocm, before or after the options",
        )
    parsed(app, words)


class Installed(msgspec.Struct, frozen=True):
    """What came of it."""

    environment: str
    rocm: Rocm
    log: str


@replies
def install_rocm(
    *,
    rocm_environment: Place = None,
    packages: Packages = PACKAGES,
    install_retry_timeout_seconds: float = INDEX_WAIT_S,
    install_retry_wait_between_seconds: float = RETRY_EVERY_S,
    dry_run: bool = False,
) -> Reply:
    """Install ROCm's packages with everything that a build needs into a Python environment.

    Only the given index and pages are used. ROCm packages that the environment already has are reinstalled.
    An index for all GPUs has an extra for each: --index-name stable --rocm-extras device-gfx1151.

    Parameters
    ----------
    rocm_environment
        Where to: a virtual environment or its interpreter (default: $VIRTUAL_ENV, else the one this runs in).
    install_retry_timeout_seconds
        Seconds that an index may take to show what was just uploaded; 0 tries once.
    install_retry_wait_between_seconds
        Seconds between two tries.
    dry_run
        Only print the commands of pip; changes nothing.
    json
        Print the result as JSON.
    """
    environment = find_environment(rocm_environment, os.environ)
    if dry_run:
        plan = _planned(environment, packages)
        return Reply(plan, lambda: console.out("\n".join(map(shlex.join, plan.commands))))
    done = install_into(
        environment,
        packages,
        wait_s=install_retry_timeout_seconds,
        every_s=install_retry_wait_between_seconds,
    )

    def show() -> None:
        rocm = done.rocm
        rows = [
            ("version", rocm.version),
            ("root", rocm.root),
            ("bin", rocm.bin),
            ("cmake", rocm.cmake),
            ("targets", " ".join(rocm.targets) or "no device code (add --rocm-extras device-gfx...)"),
            ("environment", done.environment),
        ]
        console.table("ROCm", ("what", "is"), rows)

    return Reply(done, show)


class Planned(msgspec.Struct, frozen=True):
    """What would be called; logins of addresses are left out."""

    environment: str
    commands: tuple[tuple[str, ...], ...]


def _planned(environment: Environment, packages: Packages) -> Planned:
    calls = pip_calls(environment, _wanted(packages))
    return Planned(str(environment.root), tuple(tuple(map(without_login, words)) for words in calls))


def _wanted(packages: Packages) -> Install:
    """What is asked of pip; raises `UsageError` for no place, and for text that is no version or extra."""
    return wanted_rocm(
        closed_places(packages.index(), packages.find_links),
        spec=packages.rocm_sdk_version,
        extras=words(packages.rocm_extras),
        pre=packages.pre,
        pip_cache_dir=packages.pip_cache_dir,
    )


def install_into(
    environment: Environment,
    packages: Packages,
    *,
    wait_s: float = INDEX_WAIT_S,
    every_s: float = RETRY_EVERY_S,
    log: Path | None = None,
) -> Installed:
    """Install what the options ask for; talks on the way. `log` is written anew."""
    if wait_s < 0 or every_s <= 0:
        raise UsageError(
            "the time to wait for an index is negative, or there is no pause between two tries",
            next_step="wait 0 or more seconds in all, and more than 0 between two tries",
        )
    wanted = _wanted(packages)
    log = log or default_cache() / "log" / "install-rocm.log"
    files.make_directory(log.parent)
    files.write_text(log, "")
    console.say(f"installing ROCm into {environment.root} (log: {log})")
    rocm = install(
        environment,
        wanted.places,
        spec=packages.rocm_sdk_version,
        extras=words(packages.rocm_extras),
        pre=packages.pre,
        pip_cache_dir=packages.pip_cache_dir,
        index_wait_s=wait_s,
        index_every_s=every_s,
        log=log,
        note=console.say,
    )
    return Installed(str(environment.root), rocm, str(log))
