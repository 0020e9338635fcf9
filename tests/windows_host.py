"""Windows as far as it can be had here: what only POSIX has is hidden, in a process of its own.

Stand-ins for what is asked of the system: a signal for the console's event, flock(2) for `msvcrt.locking`, a
symbolic link for a junction. Paths, `PATH` and file names stay this system's.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import rocwright
from rocwright.system.files import shipped_directory

PACKAGE = Path(rocwright.__file__).parent
# What its `os` has not.
MISSING = (
    "O_NONBLOCK O_NOFOLLOW O_DIRECTORY O_CLOEXEC chown chroot confstr copy_file_range fchown fork forkpty"
    " getegid geteuid getgid getgroups getloadavg getpgid getsid getuid killpg lchown mkfifo nice openpty"
    " posix_fadvise pread pwrite register_at_fork sched_getaffinity sched_setaffinity setpgid setsid"
    " setuid sysconf uname wait3 wait4 waitid"
)
# Modules that others of the same directory find because a program there was started.
INSIDE = ("gputest/inside", "compat/probe/inside", "compat/doctor/inside")
_SHIPPED = ("core", "detect/src", "devel", "libraries", "profiler", "rocm", "rocm/src", "rocm_device")

# Imported twice: what others bring (the standard library, msgspec) is loaded the first time, as it is here.
PROGRAM = """
import _signal, fcntl, importlib, os, pathlib, shutil, signal, subprocess, sys, sysconfig, tempfile, types
names, inside = sys.argv[1].split(), sys.argv[2].split()
sys.path[:0] = inside
# Asked once, as here.
tempfile.gettempdir(), sysconfig.get_config_vars()
# Two modules that are there when a package is built: written, and copied from another package.
sys.modules["rocm_sdk._set"] = types.SimpleNamespace(
    VERSION="7.0", MODE="kpack", FAMILY="", FAMILIES={}, DEVICES={}, PACKAGES={}, KNOWN_LIBRARIES={}
)
sys.modules["rocwright_detect._detect"] = importlib.import_module("rocm_sdk._detect")
for name in names:
    importlib.import_module(name)
for name in list(sys.modules):
    if name.startswith(("rocwright", "rocm_")) and name not in ("rocm_sdk._set", "rocwright_detect._detect"):
        del sys.modules[name]
for name in (
    "crypt curses fcntl grp nis posix pty pwd readline resource spwd syslog termios tty".split()
):
    sys.modules[name] = None
how = {1: fcntl.LOCK_EX, 2: fcntl.LOCK_EX | fcntl.LOCK_NB, 0: fcntl.LOCK_UN}
sys.modules["msvcrt"] = types.SimpleNamespace(
    LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2, locking=lambda handle, mode, count: fcntl.flock(handle, how[mode])
)
sys.modules["_winapi"] = shutil._winapi = types.SimpleNamespace(
    CreateJunction=os.symlink, NeedCurrentDirectoryForExePath=lambda name: False
)
for module, missing in ((os, sys.argv[3]), *((one, "SIGKILL SIGHUP SIGRTMAX") for one in (signal, _signal))):
    for name in missing.split():
        vars(module).pop(name, None)
# What Windows has instead, with values that this system takes.
os.O_BINARY, subprocess.CREATE_NEW_PROCESS_GROUP, signal.CTRL_BREAK_EVENT = 0, 0, signal.SIGTERM
sys.platform = "win32"
# As another system's, a path cannot be made here.
sys.modules[pathlib.Path.__module__].WindowsPath = pathlib.PosixPath
os.name = "nt"
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(name, error, sep=": ")
"""


def shipped() -> list[Path]:
    """Directories with what ships inside ROCm's packages."""
    return [shipped_directory("runtime") / name for name in _SHIPPED]


def as_on_windows(names: str, program: str = "", *args: str | Path) -> subprocess.CompletedProcess[str]:
    """Import modules as there, then run a program that uses them; `sys.argv[4:]` are its arguments."""
    inside = " ".join(map(str, [*(PACKAGE / name for name in INSIDE), *shipped()]))
    return subprocess.run(
        [sys.executable, "-c", PROGRAM + program, names, inside, MISSING, *args],
        capture_output=True,
        text=True,
        timeout=120,
    )
