"""Try one set: install it into a fresh environment, run somebody's command there, say what came of it."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.errors import CommandFailed, InvalidInput, UsageError
from rocwright.model.channels import LandingTable
from rocwright.model.project import TORCH
from rocwright.model.sets import TRIAL, SetManifest, Statement, about_set
from rocwright.store.index.listed import ListedSet
from rocwright.store.index.lock import for_target
from rocwright.store.index.offers import offers_of, platform_of, words_of
from rocwright.store.layout import set_prefix
from rocwright.system import process, venv
from rocwright.system.files import remove_tree, sha256_file
from rocwright.system.venv import Closed, Environment

Verdict = Literal["good", "bad", "skip"]
# As git bisect has it: the command cannot tell.
SKIP = 125
_TELL = (
    "import sys, sysconfig; print('%d.%d' % sys.version_info[:2] + "
    "('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
)


class NotInstalled(InvalidInput):
    """A set that could not be installed, so nothing is known about it."""


class Question(msgspec.Struct, frozen=True):
    """What is asked of every set: this command, on this Python, with these packages.

    `install` are requirements (default: what the set offers to `target`), `other_index` is where packages
    come from that the set does not have.
    """

    command: tuple[str, ...]
    python: Path
    target: str | None = None
    install: tuple[str, ...] = ()
    other_index: str | None = None
    installer: str = "uv"

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError(
                "no command to try sets with", next_step="put it after --: … -- python -c 'import torch'"
            )
        if self.installer not in ("pip", "uv"):
            raise UsageError(f"{self.installer!r} is not an installer", next_step="give pip or uv")
        if self.other_index is not None and self.installer != "uv":
            # pip takes the highest version of all indexes, and would try something else than the set.
            raise UsageError("--other-index needs --installer uv", next_step="pip cannot keep indexes apart")


def python_of(interpreter: Path) -> str:
    """`3.12`, or `3.13t` for a free-threaded Python."""
    return process.run([interpreter, "-I", "-c", _TELL]).stdout.strip()


def this_platform() -> str:
    """The platform of this machine as offers name it: `linux-x86_64`."""
    return platform_of(sysconfig.get_platform().replace("-", "_").replace(".", "_"))


def asked(question: Question, python: str) -> Mapping[str, Any]:
    """The question as it stands in statements: with the digests of files that the command names."""
    named = {word: Path(word) for word in question.command if Path(word).is_file()}
    return {
        "command": list(question.command),
        "files": {word: sha256_file(path) for word, path in sorted(named.items())},
        "python": python,
        "platform": this_platform(),
        "target": question.target,
        "install": list(question.install),
        "other_index": question.other_index,
    }


def said(manifest: SetManifest, question: Mapping[str, Any], verdict: Verdict, status: int) -> Statement:
    """The statement that a set was tried: the question, the verdict, the command's exit code."""
    return about_set(manifest, TRIAL, {"question": question, "verdict": verdict, "exit_code": status})


def remembered(statements: Sequence[Statement], question: Mapping[str, Any]) -> set[Verdict]:
    """The verdicts of earlier trials of the same question."""
    found = (item.predicate for item in statements if item.predicate_type == TRIAL)
    verdicts: dict[object, Verdict] = {"good": "good", "bad": "bad", "skip": "skip"}
    same = (verdicts.get(one.get("verdict")) for one in found if one.get("question") == dict(question))
    return {verdict for verdict in same if verdict is not None}


def requirements(one: ListedSet, question: Question, python: str, table: LandingTable) -> tuple[str, ...]:
    """What to install of a set: torch and its extensions, or everything where it has no torch.

    Raises `NotInstalled` where it offers nothing to this Python and machine.
    """
    if question.install:
        return question.install
    projects = sorted({entry.project for entry in one.manifest.files})
    if TORCH not in projects:
        # The page says how to install torch; of a set without it all is installed.
        return tuple(name for name in projects if for_target(name, question.target or ""))
    here = this_platform()
    offers = [
        offer
        for offer in offers_of(one.manifest.family, [one], table)
        if python in offer.pythons and offer.platform in (here, "any")
        if question.target is None or question.target in offer.targets
    ]
    if not offers:
        wanted = f" and {question.target}" if question.target else ""
        raise NotInstalled(f"it offers nothing to Python {python} on {here}{wanted}")
    if offers[0].per_target and question.target is None:
        raise UsageError(
            "the set has a device package for each GPU target",
            next_step="give the one to install with --target",
        )
    return tuple(words_of(offers[0], question.target or ""))


def try_set(
    url: str, set_id: str, wanted: Sequence[str], question: Question, work: Path, *, tries: int
) -> list[int]:
    """Exit codes of `tries` runs of the command with the set installed from the store at `url`.

    The environment is made below `work` and removed again, however this ends; what is printed goes to
    `<work>/logs/<id>.log`. Raises `NotInstalled` when the installer refuses.
    """
    log = work / "logs" / f"{set_id[:16]}.log"
    log.unlink(missing_ok=True)
    try:
        environment = venv.create(work / "env", python=question.python, log=log)
        _install(environment, f"{url}{set_prefix(set_id)}", wanted, question, work, log)
        return [_status(environment, question.command, set_id, log) for _ in range(tries)]
    finally:
        remove_tree(work / "env")


def _install(
    environment: Environment, index: str, wanted: Sequence[str], question: Question, work: Path, log: Path
) -> None:
    try:
        if question.installer == "pip":
            venv.pip_install(environment, wanted, closed=Closed(index), log=log)
        else:
            # The set's index stands before the other, and uv asks no second index for what the first has.
            first = ["--index", index] if question.other_index else []
            closed = Closed(question.other_index or index)
            venv.uv_install(environment, [*first, *wanted], closed=closed, cache=work / "uv-cache", log=log)
    except CommandFailed as error:
        said = [line.strip() for line in error.tail.splitlines() if line.strip()]
        raise NotInstalled(said[-1] if said else error.what, where=log) from error


def _status(environment: Environment, command: Sequence[str], set_id: str, log: Path) -> int:
    try:
        environment.run(command, log=log, env={"ROCWRIGHT_SET": set_id})
    except CommandFailed as error:
        return error.status
    return 0


def verdict_of(status: int) -> Verdict:
    """0 is good, 125 tells nothing, anything else, a signal too, is bad."""
    if status == SKIP:
        return "skip"
    return "good" if status == 0 else "bad"
