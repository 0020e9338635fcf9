"""Install the ROCm packages into a Python environment: pip takes them from the places given and no others,
and is called again while an index is behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rocwright.builder.before.needs import needs
from rocwright.builder.rocm.describe import describe_rocm
from rocwright.builder.rocm.rocm import ALWAYS, Rocm, require_extras
from rocwright.errors import CommandFailed, InvalidInput, UsageError
from rocwright.system import process
from rocwright.system.interpreters import ask_interpreter
from rocwright.system.venv import (
    BROKEN_OFF,
    LEAKS,
    SILENT,
    TROUBLED,
    Closed,
    Environment,
    despite_others,
    not_yet,
    own_settings,
    pip_command,
    remote_places,
)

Note = Callable[[str], None]

RETRY_EVERY_S = 15.0
# An index that was just written to shows it within a few minutes.
INDEX_WAIT_S = 180.0


def _silently(text: str) -> None:
    """Tell nobody."""


def install_rocm(
    environment: Environment,
    places: Closed,
    *,
    spec: str = ">1.0",
    extras: Sequence[str] = (),
    pre: bool = True,
    pip_cache_dir: Path | None = None,
    index_wait_s: float = INDEX_WAIT_S,
    index_every_s: float = RETRY_EVERY_S,
    log: Path,
    note: Note = _silently,
) -> Rocm:
    """Install `rocm[libraries,devel]` anew from the given places only, expand devel's files, describe it.

    `index_wait_s` is how long an index may take to show the packages; 0 asks once. Raises `UsageError` for a
    malformed `spec`, for a Python that no wheels are built for and for the operating system's,
    `CommandFailed` with pip's last lines otherwise, `InvalidInput` when what is installed then is not what
    was asked for, in version or extras.
    """
    wanted = wanted_rocm(places, spec=spec, extras=extras, pre=pre, pip_cache_dir=pip_cache_dir)
    require_python(environment)
    pip_install(environment, wanted, wait_s=index_wait_s, every_s=index_every_s, log=log, note=note)
    rocm = describe_rocm(environment, log=log)
    require_version(rocm.version, spec, environment=environment)
    require_extras(rocm, extras)
    return rocm


def wanted_rocm(
    places: Closed, *, spec: str, extras: Sequence[str], pre: bool, pip_cache_dir: Path | None
) -> Install:
    """What `install_rocm` asks of pip."""
    return Install(rocm_requirement(spec, extras), places, pre=pre, reinstall=True, cache_dir=pip_cache_dir)


def rocm_requirement(spec: str, extras: Sequence[str] = ()) -> str:
    """`rocm[libraries,devel]` with a version specifier that has an operator, such as `==7.10.0`."""
    try:
        wanted = SpecifierSet(spec)
    except InvalidSpecifier as error:
        raise UsageError(
            f"{spec!r} is not a version specifier", next_step="write the operator too: '==7.10.0', '>1.0'"
        ) from error
    names = dict.fromkeys((*ALWAYS, *extras))
    for name in names:
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(
                f"{name!r} is not a name of an extra", next_step="write them like device-gfx942,profiler"
            )
    return f"rocm[{','.join(names)}]{wanted}"


def satisfies(version: str, spec: str) -> bool:
    """Whether a version is one that `spec` asks for; pre-releases count."""
    try:
        return SpecifierSet(spec).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def require_version(version: str, spec: str, *, environment: Environment) -> None:
    """Raise `InvalidInput` for a ROCm that is none of those asked for."""
    if not satisfies(version, spec):
        raise InvalidInput(
            f"ROCm {version} is installed, but rocm{spec} was asked for",
            where=environment.root,
            next_step="is another ROCm in this environment? use a fresh one",
        )


def require_python(environment: Environment) -> None:
    """Raise `UsageError` for an environment whose Python no wheels are built for, `MissingTool` for none."""
    python, wanted = ask_interpreter(environment.python), needs().pythons
    if not wanted.has(python.version):
        raise UsageError(
            f"{environment.root} has Python {python.version}; wheels are built for {wanted.first} to "
            f"{wanted.last}, so ROCm is of no use there",
            where=environment.python,
            next_step=f"make an environment of another Python: `python{wanted.last} -m venv .venv`",
        )


# -- pip


class Install(msgspec.Struct, frozen=True):
    """One `pip install` of ROCm's packages.

    `reinstall` puts everything there anew; `report` is where pip writes what it installed, as JSON.
    """

    requirement: str
    places: Closed
    pre: bool = True
    reinstall: bool = False
    cache_dir: Path | None = None
    report: Path | None = None
    dry: bool = False

    def arguments(self) -> list[str]:
        """What follows `pip`."""
        words = ["install", "--no-input", *self.places.arguments(), *self._cache()]
        words += ["--pre"] if self.pre else []
        words += ["--force-reinstall"] if self.reinstall else []
        words += ["--dry-run", "--ignore-installed"] if self.dry else []
        words += ["--report", str(self.report)] if self.report is not None else []
        return [*words, self.requirement]

    def forgets(self) -> bool:
        """Whether pip keeps nothing: what lies on this machine needs no second copy."""
        return self.cache_dir is None and not remote_places(self.places)

    def _cache(self) -> list[str]:
        if self.forgets():
            return ["--no-cache-dir"]
        return ["--cache-dir", str(self.cache_dir)] if self.cache_dir is not None else []

    def removal(self) -> list[str]:
        """What follows `pip` to drop the wheel of `rocm` from its cache."""
        return ["cache", "remove", "rocm", *self._cache()]


def pip_calls(environment: Environment, wanted: Install) -> list[list[str]]:
    """The command lines of `pip_install`, in their order."""
    before = [] if wanted.forgets() else [wanted.removal()]
    return [_pip_call(environment, arguments) for arguments in (*before, wanted.arguments())]


def _pip_call(environment: Environment, arguments: list[str]) -> list[str]:
    return [*pip_command(), "--python", str(environment.python), *arguments]


def run_pip(environment: Environment, arguments: list[str], *, log: Path) -> process.Completed:
    """Run pip for an environment, without the caller's settings of places; raises `CommandFailed`."""
    return process.run(
        _pip_call(environment, arguments),
        env={"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": os.devnull},
        drop_env=[*LEAKS, *own_settings("pip")],
        log=log,
    )


def pip_install(
    environment: Environment,
    wanted: Install,
    *,
    wait_s: float,
    every_s: float = RETRY_EVERY_S,
    log: Path,
    note: Note,
) -> None:
    """Install, trying again for `wait_s` seconds (0: once) while an index does not show the packages.

    An index shows an upload minutes after it; other failures are raised at once. Directories of this
    machine are not waited for.
    """
    forget_selection(environment, wanted, log=log, note=note)
    first: str | None = None
    deadline = 0.0
    while True:
        try:
            despite_others(lambda: run_pip(environment, wanted.arguments(), log=log), note)
            return
        except CommandFailed as failed:
            if first is None:
                first = _reason_of_index(environment, wanted, failed, log=log)
                # From the first failure on: downloads may have taken longer than the wait before it.
                deadline = time.monotonic() + wait_s
            told = f"{first}\n{failed.tail}"
            reason = not_yet(told) if remote_places(wanted.places) else None
            left = deadline - time.monotonic()
            if reason is None or left <= 0:
                raise _explained(failed, told, environment, wanted, waited=wait_s if reason else 0) from None
            pause = min(every_s, left)
            note(f"{reason}; trying again in {pause:.0f} s, for at most {left:.0f} s more")
            process.pause(pause)


def _reason_of_index(environment: Environment, wanted: Install, failed: CommandFailed, *, log: Path) -> str:
    """What an index answered instead of a page; empty where it did answer, or is not to blame.

    pip says so only when it talks a lot: without that, a refused login looks like a missing package.
    """
    if not_yet(failed.tail) in (None, BROKEN_OFF) or not remote_places(wanted.places):
        return ""
    words = msgspec.structs.replace(wanted, dry=True, report=None).arguments()
    before = log.stat().st_size
    # What it says ends in a long traceback, so the last lines are not enough.
    with contextlib.suppress(CommandFailed):
        run_pip(environment, ["-vv", *words, "--no-deps"], log=log)
    said = log.read_bytes()[before:].decode(errors="replace").splitlines()
    return "\n".join(line.strip() for line in said if line.strip().startswith("Could not fetch URL"))


def forget_selection(environment: Environment, wanted: Install, *, log: Path, note: Note) -> None:
    """Drop the wheel that pip built of the `rocm` source package earlier; a warning where that fails.

    It keeps the GPUs chosen when it was built, whatever this machine or the caller wants now.
    """
    if wanted.forgets():
        return
    try:
        run_pip(environment, wanted.removal(), log=log)
    except CommandFailed as failed:
        lines = failed.tail.splitlines()
        note(f"warning: rocm could not be removed from pip's cache: {lines[-1] if lines else failed.what}")


def _explained(
    failed: CommandFailed, tail: str, environment: Environment, wanted: Install, *, waited: float
) -> CommandFailed | UsageError:
    """The failure with what to do about it, where pip's last lines tell."""
    if "externally-managed-environment" in tail:
        return UsageError(
            f"{environment.python} belongs to the operating system, which does not allow installing into it",
            where=environment.root,
            next_step="make one with `python3 -m venv .venv` and name it with --rocm-environment .venv",
        )
    if "require a different python version" in tail:
        failed.next_step = f"these packages are not for the Python of {environment.root}; use another one"
    elif re.search(r"\b40[13] (?:Client )?Error", tail):
        failed.next_step = (
            "the index requires a login: put it in the address, https://USER:PASSWORD@HOST/, or ~/.netrc"
        )
    elif (reason := not_yet(tail)) is not None:
        since = f", after {waited:.0f} s of waiting" if waited else ""
        steps = {
            SILENT: f"nothing answers at the address of the index{since}: check it, and the network",
            TROUBLED: f"{TROUBLED}{since}: run again later, or tell those who run it",
            BROKEN_OFF: f"the file above arrives damaged{since}: run again, or look at it on the index",
        }
        failed.next_step = steps.get(
            reason,
            f"{wanted.requirement} was not found{since}: check the version and the places that were "
            "searched, which pip names above",
        )
    return failed
