"""Install the packages under test with pip or uv, again while an index is behind."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from rocwright.errors import CommandFailed, UsageError
from rocwright.system import process
from rocwright.system.venv import (
    BROKEN_OFF,
    LEAKS,
    NOT_SHOWN,
    SILENT,
    TOOL_PIP_ENV,
    TROUBLED,
    Closed,
    Environment,
    despite_others,
    links_page,
    misplaced_settings,
    not_yet,
    own_settings,
    pip_command,
    remote_places,
    uv_command,
)

Note = Callable[[str], None]

# An index that was just written to shows it within a few minutes.
INDEX_WAIT_S = 180.0
RETRY_EVERY_S = 15.0
_OTHER_PYTHON = re.compile(
    r"requires? a different python|requires Python [<>=!~]|no wheels with a matching", re.IGNORECASE
)


class Install(msgspec.Struct, frozen=True):
    """One install of `packages`, as pip spells them.

    `index` None is the user's own, empty text none at all: then source packages, too, are built with what the
    environment holds. `wait_s` is how long an index may take to show the packages (0 asks once), `every_s`
    the time between two questions; both in seconds.
    """

    packages: tuple[str, ...]
    index: str | None = None
    find_links: tuple[str, ...] = ()
    pre: bool = False
    cache: bool = True
    uv: bool = False
    wait_s: float = INDEX_WAIT_S
    every_s: float = RETRY_EVERY_S

    @property
    def installer(self) -> str:
        """`pip` or `uv`."""
        return "uv" if self.uv else "pip"

    @property
    def waits(self) -> bool:
        """Whether some place is reached by network: only there a package may show later."""
        return self.index is None or bool(remote_places(Closed(self.index or None, self.find_links)))

    def arguments(self) -> list[str]:
        """What follows `install`, as both installers spell it but for pre-releases and the cache."""
        words: list[str] = []
        if self.index is not None:
            words += ["--index-url", self.index] if self.index else ["--no-index", "--no-build-isolation"]
        words += [word for page in self.find_links for word in ("--find-links", page)]
        if self.uv:
            words += ["--prerelease", "allow"] if self.pre else []
            words += [] if self.cache else ["--no-cache"]
        else:
            words += ["--pre"] if self.pre else []
            words += [] if self.cache else ["--no-cache-dir"]
        return [*words, *self.packages]


def package_words(texts: Sequence[str]) -> tuple[str, ...]:
    """`"torch==2.9 pytest"` as two packages; wheels may be given as files or addresses.

    Raises `UsageError` for what is neither, and for options of the installer.
    """
    words = tuple(word for text in texts for word in text.split())
    for word in words:
        if word.startswith("-"):
            raise UsageError(
                f"--packages {word}: that is an option of the installer, not a package",
                next_step="give names with versions: --packages 'torch==2.9.0 pytest'",
            )
        if "/" in word or word.endswith((".whl", ".tar.gz")):
            continue
        try:
            Requirement(word)
        except InvalidRequirement as error:
            raise UsageError(
                f"--packages {word}: that is not a package",
                next_step="write NAME, NAME==VERSION or NAME[EXTRA]==VERSION, without spaces",
            ) from error
    return words


def links_pages(texts: Sequence[str]) -> tuple[str, ...]:
    """Pages and directories with links; empty text is an option that was not given."""
    return tuple(links_page(text.strip()) for text in texts if text.strip())


def install(environment: Environment, wanted: Install, *, log: Path, note: Note) -> int:
    """Install; returns how often it was tried. Raises `CommandFailed` with what to do about it.

    Tried again, for `wait_s` seconds after the first failure, is what may be over in a moment: a package that
    the index does not show yet, a server in trouble, a download that broke off.
    """
    _forget_selection(environment, wanted, log=log, note=note)
    words = ["install", *wanted.arguments()]
    tries, told, deadline = 0, "", 0.0
    while True:
        tries += 1
        try:
            despite_others(lambda: _run(environment, wanted, words, log=log), note)
            return tries
        except CommandFailed as failed:
            if tries == 1:
                told = _hidden_reason(environment, wanted, failed, log=log)
                # From the first failure on: downloads may have taken longer than the wait before it.
                deadline = time.monotonic() + wanted.wait_s
            reason = not_yet(f"{told}\n{failed.tail}") if wanted.waits else None
            left = deadline - time.monotonic()
            if reason is None or left <= 0:
                failed.next_step = _advice(f"{told}\n{failed.tail}", environment, wanted, again=tries > 1)
                raise
            pause = min(wanted.every_s, left)
            note(f"{reason}; trying again in {pause:.0f} s, for at most {left:.0f} s more")
            process.pause(pause)


def _run(environment: Environment, wanted: Install, words: Sequence[str], *, log: Path) -> process.Completed:
    """Run the installer for the environment, with the user's settings of places only where they count."""
    drop = misplaced_settings(wanted.installer) if wanted.index is None else own_settings(wanted.installer)
    if wanted.uv:
        alone = [] if wanted.index is None else ["--no-config"]
        argv = [uv_command(), "pip", *words[:1], *alone, "--python", str(environment.python), *words[1:]]
        env = {"UV_NO_PROGRESS": "1"}
    else:
        argv = [*_pip(environment), *words[:1], "--no-input", *words[1:]]
        env = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **TOOL_PIP_ENV}
        if wanted.index is not None:
            env["PIP_CONFIG_FILE"] = os.devnull
    return process.run(argv, env=env, drop_env=[*LEAKS, *drop], log=log)


def _pip(environment: Environment) -> list[str]:
    """The environment's own pip, else that beside this tool."""
    if (environment.bin / "pip").exists():
        # Isolated: nothing of the current directory is taken for a module of Python.
        return [str(environment.python), "-I", "-m", "pip"]
    return [*pip_command(), "--python", str(environment.python)]


def _forget_selection(environment: Environment, wanted: Install, *, log: Path, note: Note) -> None:
    """Drop the wheel that was built of rocm's source package earlier: it keeps the GPUs chosen then."""
    if not wanted.cache:
        return
    clean = [uv_command(), "cache", "clean", "rocm"] if wanted.uv else None
    try:
        process.run(clean or [*_pip(environment), "cache", "remove", "rocm"], drop_env=LEAKS, log=log)
    except CommandFailed as failed:
        # pip says it so when it keeps no such wheel, or nothing at all.
        if not re.search(r"No matching packages|cache commands can ?not function", failed.tail):
            note(f"warning: the cache of {wanted.installer} was not cleared of rocm: {failed.what}")


def _hidden_reason(environment: Environment, wanted: Install, failed: CommandFailed, *, log: Path) -> str:
    """What an index answered instead of a page: to pip, unless asked to talk, that is a missing package."""
    if wanted.uv or not wanted.waits or not_yet(failed.tail) != NOT_SHOWN:
        return ""
    before = log.stat().st_size
    question = msgspec.structs.replace(
        wanted, packages=("--dry-run", "--ignore-installed", "--no-deps", *wanted.packages)
    )
    with contextlib.suppress(CommandFailed):
        _run(environment, wanted, ["install", "-vv", *question.arguments()], log=log)
    said = log.read_bytes()[before:].decode(errors="replace").splitlines()
    return "\n".join(line.strip() for line in said if line.strip().startswith("Could not fetch URL"))


def _advice(told: str, environment: Environment, wanted: Install, *, again: bool) -> str:
    """What to do about a failure, by what the installer printed."""
    since = f", after {wanted.wait_s:.0f} s of waiting" if again else ""
    if _OTHER_PYTHON.search(told):
        return f"these packages are not for the Python of {environment.root}; name another one with --python"
    if re.search(r"\b40[13] (?:(?:Client )?Error|Unauthorized|Forbidden)", told):
        return "the index wants a login: put it in the address, https://USER:PASSWORD@HOST/, or ~/.netrc"
    if wanted.index == "" and re.search(r"No module named|BackendUnavailable|Cannot import", told):
        return (
            "without an index a source package is built with what the environment contains: install what its "
            "build needs first (--packages setuptools, with an index), then run this again"
        )
    steps = {
        SILENT: f"nothing answers at the address of the index{since}: check it, and the network",
        TROUBLED: f"{TROUBLED}{since}: run again later, or tell whoever runs the index",
        BROKEN_OFF: f"a file arrives damaged{since}: run again, or look at it on the index",
        NOT_SHOWN: f"not all of {' '.join(wanted.packages)} can be found{since}: check versions and index",
    }
    return steps.get(not_yet(told) or "", f"read {wanted.installer}'s lines above, and the log")
