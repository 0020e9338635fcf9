"""Gather the facts of an environment: its own Python runs a small script, which imports nothing of it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from rocwright.compat.doctor.facts import DoctorTable, Environment, TorchImport
from rocwright.errors import CommandFailed, MissingTool, UsageError
from rocwright.model.patterns import any_pattern
from rocwright.system import process
from rocwright.system.interpreters import require_program

_INSIDE = Path(__file__).resolve().parent / "inside"
_PROGRAMS = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")
# The script reads whole trees, with --deep every byte of them.
_LIMIT_S = 600


def find_python(text: str) -> Path:
    """The interpreter that `text` means: a program, or the directory of an environment.

    Raises `UsageError` where there is none, `MissingTool` for a file that cannot be executed.
    """
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        found = next((path / name for name in _PROGRAMS if (path / name).is_file()), None)
        if found is not None:
            return found
        raise UsageError(
            f"--python {text}: there is no Python in this directory",
            where=path,
            next_step="give the directory of a virtual environment, or its python program",
        )
    if not path.is_file():
        raise UsageError(
            f"--python {text}: there is no such file or directory",
            where=path,
            next_step="give the directory of a virtual environment, or its python program",
        )
    require_program(path)
    return path


def active_python(environ: Mapping[str, str]) -> Path | None:
    """The interpreter of the environment that is active in the shell, or lies here; None without one.

    One that rocwright itself runs in counts only when it has a torch.
    """
    # The last is where uv looks as well.
    named = [Path(environ.get(name) or os.devnull) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    for root in (*named, Path.cwd() / ".venv"):
        found = next((root / program for program in _PROGRAMS if (root / program).is_file()), None)
        if found is not None and (root.resolve() != Path(sys.prefix).resolve() or _holds_torch()):
            return found
    return Path(sys.executable) if _holds_torch() else None


def _holds_torch() -> bool:
    return any(Path(entry, "torch", "__init__.py").is_file() for entry in sys.path if entry)


def gather_environment(python: Path, table: DoctorTable, *, deep: bool = False) -> Environment:
    """What is installed for `python`; with `deep` the content of its files is compared, too.

    Runs with the caller's variables (PYTHONPATH is part of what is looked at). Raises `MissingTool` where
    `python` does not answer as a Python interpreter.
    """
    asked = msgspec.json.encode({"family": any_pattern(table.family).pattern, "deep": deep}).decode()
    said = _run(python, "rocwright_inspect.py", _LIMIT_S, asked)
    try:
        return msgspec.json.decode(said.answer, type=Environment)
    except msgspec.DecodeError as error:
        raise MissingTool(
            f"{python} does not answer as a Python interpreter of 3.8 or later"
            + (f" ({said.ended})" if said.ended else f" ({error})"),
            where=python,
            next_step="give the python3 program of the environment: --python",
        ) from error


def import_torch(
    python: Path, table: DoctorTable, *, note: Callable[[str], None] = lambda _: None
) -> TorchImport:
    """How `import torch` goes there, in a process of its own; `note` is told what it prints as errors."""
    said = _run(python, "rocwright_import.py", table.import_s, note=note)
    try:
        found = msgspec.json.decode(said.answer, type=TorchImport)
    except msgspec.DecodeError:
        found = TorchImport()
    return msgspec.structs.replace(found, ended=said.ended)


class _Said(msgspec.Struct, frozen=True):
    answer: bytes
    ended: str


def _run(
    python: Path, script: str, limit_s: float, *words: str, note: Callable[[str], None] = lambda _: None
) -> _Said:
    """Run a script; what it wrote, and how it ended where that was not well."""
    ended = ""
    with tempfile.TemporaryDirectory(prefix="rocwright-doctor-") as folder:
        path = Path(folder) / "answer.json"
        try:
            process.run(
                [python, _INSIDE / script, path, *words],
                cwd=Path(folder),  # not the caller's, which may hold a torch of its own
                env={"PYTHONDONTWRITEBYTECODE": "1"},
                limit_s=limit_s,
                watch=lambda line: note(line) if line else None,
            )
        except CommandFailed as error:
            ended = error.what.partition(":")[0].removeprefix("command ")
            if error.tail:
                ended += f": {error.tail.splitlines()[-1]}"
        try:
            return _Said(path.read_bytes(), ended)
        except OSError:
            return _Said(b"", ended)
