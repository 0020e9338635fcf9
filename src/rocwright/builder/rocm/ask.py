"""Ask the ROCm packages of a Python environment where they are and what they have."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from rocwright.builder.rocm.prefix import device_libraries
from rocwright.builder.rocm.rocm import Rocm
from rocwright.errors import CommandFailed, InvalidInput
from rocwright.model.gpu import base_targets, is_target
from rocwright.system import venv
from rocwright.system.venv import Environment

_DEVICE_PACKAGE = "rocm-sdk-device-"
_SITE = "import os, rocm_sdk; print(os.path.dirname(os.path.dirname(os.path.abspath(rocm_sdk.__file__))))"
# What AMD's first releases of the packages know, who have no `version --json`: names, then which of them the
# installed packages hold.
_OLDER_LIBRARIES = """
import json, rocm_sdk
from rocm_sdk._dist_info import ALL_LIBRARIES
found = []
for name in ALL_LIBRARIES:
    try:
        rocm_sdk.find_libraries(name)
    except Exception:
        continue
    found.append(name)
print(json.dumps(found))
"""
# Several commands of rocm-sdk in one process: what each prints on standard output, null for one that fails.
_TOGETHER = """
import contextlib, io, json, runpy, sys
said = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["rocm-sdk", *words]
    out = io.StringIO()
    code = 0
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_module("rocm_sdk", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    except Exception:
        code = 1
    said.append(None if code else out.getvalue().strip())
print(json.dumps(said))
"""
_PATHS = ("--root", "--bin", "--cmake")
_QUESTIONS = (
    ("version",),
    *(("path", flag) for flag in _PATHS),
    ("version", "--json"),
    ("targets", "--json"),
)


class _Version(msgspec.Struct, frozen=True):
    """What is needed of `rocm-sdk version --json`."""

    libraries: tuple[str, ...]


class _Targets(msgspec.Struct, frozen=True):
    """What is needed of `rocm-sdk targets --json`."""

    targets: tuple[str, ...]


def describe_rocm(environment: Environment, *, log: Path | None = None) -> Rocm:
    """Ask the installed `rocm-sdk`, which expands the development files where that has not been done yet.

    Raises `CommandFailed` when a question fails (nothing is guessed then), `InvalidInput` when the answer
    is empty or a directory that is not there.
    """
    asked = _Asked(environment, log)
    version = asked.answer("version")
    if not version:
        raise InvalidInput(
            f"ROCm's packages in {environment.root} do not say their version",
            where=log,
            next_step="install them anew with `rocwright install-rocm`",
        )
    root, programs, cmake = (Path(asked.answer("path", flag)) for flag in _PATHS)
    for directory in (root, programs, cmake):
        if not directory.is_absolute() or not directory.is_dir():
            raise InvalidInput(
                f"rocm-sdk names {directory}, which is no directory",
                where=log,
                next_step="is rocm[devel] installed? run `rocm-sdk test` in that environment",
            )
    host_math, sysdeps, roctracer = (
        root / name for name in ("lib/host-math", "lib/rocm_sysdeps", "include/roctracer")
    )
    return Rocm(
        version=version,
        root=str(root),
        bin=str(programs),
        cmake=str(cmake),
        device_libraries=device_libraries(root),
        host_math=str(host_math) if host_math.is_dir() else "",
        sysdeps=str(sysdeps) if sysdeps.is_dir() else "",
        roctracer_include=str(roctracer) if roctracer.is_dir() else "",
        libraries=_libraries(asked),
        targets=_targets(asked),
        site=_python(environment, "-c", _SITE, log=log),
    )


def _python(environment: Environment, *words: str, log: Path | None) -> str:
    """What the environment's Python prints on standard output; whatever warns stays apart."""
    # Not from the caller's directory: Python would look for modules there first.
    return environment.run(
        [str(environment.python), *words],
        cwd=environment.root,
        log=log,
        next_step="is rocm[libraries,devel] installed there? `rocwright install-rocm` does that",
    ).stdout.strip()


class _Asked:
    """Answers of an environment's `rocm-sdk`, all got at once: its start takes longer than an answer."""

    def __init__(self, environment: Environment, log: Path | None) -> None:
        self.environment, self.log = environment, log
        said = self._all()
        self._said = dict(zip(_QUESTIONS, said, strict=True)) if len(said) == len(_QUESTIONS) else {}

    def _all(self) -> list[str | None]:
        questions = msgspec.json.encode(_QUESTIONS).decode()
        try:
            text = _python(self.environment, "-c", _TOGETHER, questions, log=self.log)
            return msgspec.json.decode(text, type=list[str | None])
        except (CommandFailed, msgspec.DecodeError):
            return []

    def answer(self, *words: str) -> str:
        """One answer; a question that failed among others is asked alone, so that its error is its own."""
        said = self._said.get(words)
        return _python(self.environment, "-m", "rocm_sdk", *words, log=self.log) if said is None else said


def _libraries(asked: _Asked) -> tuple[str, ...]:
    """Short names that `import torch` may ask for with these packages."""
    try:
        return msgspec.json.decode(asked.answer("version", "--json"), type=_Version).libraries
    except (CommandFailed, msgspec.DecodeError):
        said = _python(asked.environment, "-c", _OLDER_LIBRARIES, log=asked.log)
        return msgspec.json.decode(said, type=tuple[str, ...])


def _targets(asked: _Asked) -> tuple[str, ...]:
    """GPU targets with device code, by the hardware's order; empty where the packages do not say."""
    try:
        said = msgspec.json.decode(asked.answer("targets", "--json"), type=_Targets).targets
    except (CommandFailed, msgspec.DecodeError):
        # The older answer is a list of what was once built; the names of installed packages do not lie.
        names = venv.installed(asked.environment)
        said = tuple(name.removeprefix(_DEVICE_PACKAGE) for name in names if name.startswith(_DEVICE_PACKAGE))
        if not said:
            said = tuple(re.split(r"[\s,;]+", asked.answer("targets")))
    return base_targets(target for target in said if is_target(target))
