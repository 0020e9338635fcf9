"""Ask an environment's torch what it is and which GPUs it sees: in its own process, with a time limit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from rocwright.data import load_table
from rocwright.errors import CommandFailed, InvalidInput, MissingTool
from rocwright.gputest.devices.visible import Visible, read_visible
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import Device, TorchFacts
from rocwright.system import process

# The oldest that the plugins and workers of `inside` are written for.
PYTEST = Version("7.1")
_SCRIPT = Path(__file__).resolve().parent.parent / "inside" / "rocwright_probe.py"


class _Seen(msgspec.Struct, frozen=True):
    index: int
    target: str
    name: str = ""
    uuid: str = ""
    memory: int = 0


class _Answer(msgspec.Struct, frozen=True):
    """What the script wrote; a step that it did not come to is None."""

    python: str
    pytest: str = ""
    absent: bool = False
    import_error: str | None = None
    version: str | None = None
    git_version: str = ""
    hip: str = ""
    cuda: str = ""
    architectures: tuple[str, ...] = ()
    devices: tuple[_Seen, ...] | None = None
    problem: str | None = None


def probe(
    python: Path,
    *,
    env: Mapping[str, str] | None = None,
    drop_env: Sequence[str] = (),
    log: Path | None = None,
    limit_s: float | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> TorchFacts:
    """What the torch of `python` says of itself and of the GPUs.

    `env` and `drop_env` change the environment that is asked in; visibility variables in it are respected.
    `limit_s` is that of the table `tests` unless given. `note` is told what torch prints on standard error
    and what is odd about the variables. That no GPU is seen is no error: `problem` says why.

    Raises `MissingTool` (no such interpreter, no torch, no pytest of 7.1 or later) and `InvalidInput` (torch
    is there but cannot be imported).
    """
    limit = limit_s if limit_s is not None else load_table("tests", SuiteTable).limits.probe_s
    ended = ""
    with tempfile.TemporaryDirectory(prefix="rocwright-probe-") as folder:
        path = Path(folder) / "answer.json"
        try:
            process.run(
                [python.absolute(), _SCRIPT, path],
                cwd=Path(folder),  # not the caller's, which may hold a torch of its own
                env=env,
                drop_env=drop_env,
                log=log,
                limit_s=limit,
                watch=lambda line: note(line) if line else None,
            )
        except CommandFailed as error:
            ended = f"{error.what.partition(':')[0].removeprefix('command ')}"
            if error.tail:
                ended += f": {error.tail.splitlines()[-1]}"
        try:
            answer = msgspec.json.decode(path.read_bytes(), type=_Answer)
        except (OSError, msgspec.DecodeError) as error:
            raise MissingTool(
                f"{python} does not answer as a Python interpreter{f' ({ended})' if ended else ''}",
                where=log,
                next_step="give the python3 program of the environment that torch is installed in: --python",
            ) from error
    _require(answer, python, ended, log)
    return _facts(answer, _inherited(env, drop_env), ended, note)


def _require(answer: _Answer, python: Path, ended: str, log: Path | None) -> None:
    if answer.absent:
        raise MissingTool(
            f"{python} has no torch",
            next_step="give the environment that it is installed in (--python), or install it there "
            "(`rocwright test setup-venv`)",
        )
    if answer.version is None:
        why = answer.import_error or f"the process {ended or 'ended early'}"
        raise InvalidInput(
            f"torch cannot be imported by {python}: {why}",
            where=log,
            next_step=f"see all of it: {python} -c 'import torch'",
        )
    if not _recent(answer.pytest):
        has = f"pytest {answer.pytest}" if answer.pytest else "no pytest"
        raise MissingTool(
            f"{python} has {has}; the tests need {PYTEST} or later",
            next_step=f"{python} -m pip install 'pytest>={PYTEST}'",
        )


def _recent(pytest: str) -> bool:
    try:
        return Version(pytest) >= PYTEST
    except InvalidVersion:
        return False


def _inherited(env: Mapping[str, str] | None, drop_env: Sequence[str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in drop_env}
    return {**kept, **(env or {})}


def _facts(
    answer: _Answer, environ: Mapping[str, str], ended: str, note: Callable[[str], None]
) -> TorchFacts:
    visible = read_visible(environ, hip=bool(answer.hip))
    problem = answer.problem or ""
    if answer.devices is None:
        problem = f"asking for GPUs, torch {ended or 'ended early'}"
    if visible.entries == ():
        problem = visible.notes[-1]
    elif answer.hip or answer.cuda:
        # Of no use to who has a torch without GPUs.
        for text in visible.notes:
            note(text)
    return TorchFacts(
        version=answer.version or "",
        git_version=answer.git_version,
        hip=answer.hip,
        cuda=answer.cuda,
        python=answer.python,
        architectures=answer.architectures,
        devices=named(answer.devices or (), visible),
        variable=visible.variable,
        problem=problem,
    )


def named(seen: Sequence[_Seen], visible: Visible) -> tuple[Device, ...]:
    """The GPUs with the words that the visibility variable has for them.

    Entries behind one that names no GPU are not visible, so they never shift the others. A GPU that no entry
    stands for is none of this run's.
    """
    entries = visible.entries
    return tuple(
        Device(
            index=one.index,
            entry=str(one.index) if entries is None else entries[one.index],
            target=one.target,
            name=one.name,
            uuid=one.uuid,
            memory=one.memory,
        )
        for one in seen
        if entries is None or one.index < len(entries)
    )
