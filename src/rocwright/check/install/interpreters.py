"""Find the interpreters that a set's wheels are for, and what can be installed on this machine."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from packaging.tags import platform_tags

from rocwright.check.environments import Environment
from rocwright.check.facts import Facts
from rocwright.errors import CommandFailed, MissingTool
from rocwright.system import process

_TELL = (
    "import sys, sysconfig; print('cp%d%d' % sys.version_info[:2] + "
    "('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))"
)


def this_platform() -> str:
    """The platform of this machine as tags spell it: `linux_x86_64`."""
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def this_environment() -> Environment:
    """The Python that runs here."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    unlocked = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return Environment(python, python + unlocked, this_platform())


def interpreter_of(environment: Environment) -> Path | None:
    """An interpreter of this kind, the running one or `python3.X` on PATH; None when there is none."""
    if environment.abi == this_environment().abi:
        return Path(sys.executable)
    name = (
        f"python3.{environment.python.removeprefix('cp3')}{environment.abi.removeprefix(environment.python)}"
    )
    found = shutil.which(name)
    if found is None:
        return None
    try:
        # A version manager's name for an interpreter that is not there fails only when it is run.
        said = process.run([found, "-I", "-c", _TELL]).stdout.strip()
    except (CommandFailed, MissingTool):
        return None
    return Path(found) if said == environment.abi else None


def too_new(files: list[Facts]) -> list[str]:
    """Wheels that ask for a newer C library than this machine has."""
    known = {"any", *platform_tags()}
    return [
        facts.name
        for facts in files
        if facts.kind == "wheel" and not any(tag.rpartition("-")[2] in known for tag in facts.tags)
    ]
