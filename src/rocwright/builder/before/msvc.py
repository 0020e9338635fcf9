"""Microsoft's compilers where the shell was not prepared for them: found by vswhere, set up by vcvars64.bat.

A command prompt of Visual Studio has them on PATH; a job of GitHub Actions has not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path

from rocwright.builder.before.host import this_system
from rocwright.errors import CommandFailed, MissingTool
from rocwright.system import process

# The C++ compilers for x64, and their libraries.
_TOOLS = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"


def find_vswhere(environment: Mapping[str, str]) -> list[str]:
    """The command that prints where the newest Visual Studio with C++ lies; its installer has one address.

    Source: the pages of microsoft/vswhere.
    """
    programs = environment.get("ProgramFiles(x86)") or r"C:\Program Files (x86)"
    program = Path(programs, "Microsoft Visual Studio", "Installer", "vswhere.exe")
    return [str(program), "-latest", "-products", "*", "-requires", _TOOLS, "-property", "installationPath"]


def set_up(installation: str) -> list[str]:
    """The command that sets its environment up and prints it."""
    script = Path(installation, "VC", "Auxiliary", "Build", "vcvars64.bat")
    # Without quotes of our own: cmd takes those that stand around one argument as they are.
    return ["cmd", "/d", "/c", "call", str(script), "&&", "set"]


def changed(printed: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of `set` that are others than here."""
    lines = (line.partition("=") for line in printed.splitlines() if not line.startswith("="))
    return {name: value for name, sign, value in lines if sign and environment.get(name) != value}


def enter_msvc(environment: MutableMapping[str, str], note: Callable[[str], None]) -> None:
    """Set the variables on Windows, unless `cl` is there. Where there is no Visual Studio nothing is changed.

    That is told with everything else that a build lacks.
    """
    if this_system() != "windows" or shutil.which("cl", path=environment.get("PATH")):
        return
    try:
        (installation, *_) = process.run(find_vswhere(environment)).stdout.splitlines() or [""]
        if not installation.strip():
            return
        printed = process.run(set_up(installation.strip())).stdout
    except (MissingTool, CommandFailed):
        return
    environment.update(changed(printed, environment))
    note(f"Microsoft's compilers: those of {installation.strip()}{os.sep}VC (vcvars64.bat)")
