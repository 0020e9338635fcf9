"""Every module can be imported on Windows: what only POSIX has is hidden here, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import rocwright

PACKAGE = Path(rocwright.__file__).parent
# What its `os` has not.
MISSING = "O_NONBLOCK confstr fork getgroups getuid killpg pread pwrite sysconf wait4 waitid"
# Modules that others of the same directory find because a program there was started.
INSIDE = ("gputest/inside", "compat/probe/inside", "compat/doctor/inside")

# Imported twice: what others bring (the standard library, msgspec) is loaded the first time, as it is here.
PROGRAM = """
import importlib, sys, types
names, inside = sys.argv[1].split(), sys.argv[2].split()
sys.path[:0] = inside
for name in names:
    importlib.import_module(name)
for name in list(sys.modules):
    if name.startswith("rocwright"):
        del sys.modules[name]
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix"):
    sys.modules[name] = None
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
import os, signal, subprocess
for module, missing in ((os, sys.argv[3]), (signal, "SIGKILL SIGHUP SIGRTMAX")):
    for name in missing.split():
        delattr(module, name)
# What Windows has instead.
os.O_BINARY, subprocess.CREATE_NEW_PROCESS_GROUP, signal.CTRL_BREAK_EVENT = 0x8000, 0x200, 1
sys.platform = "win32"
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error, sep=": ")
"""


def test_every_module_is_imported_where_only_posix_modules_are_missing() -> None:
    paths = (path.relative_to(PACKAGE.parent).with_suffix("") for path in PACKAGE.rglob("*.py"))
    names = sorted(".".join(path.parts).removesuffix(".__init__") for path in paths)
    assert len(names) > 500
    inside = " ".join(str(PACKAGE / name) for name in INSIDE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, " ".join(names), inside, MISSING], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
