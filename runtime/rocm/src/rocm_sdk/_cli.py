"""The `rocm-sdk` command. What builds call again and again is answered here, without an option parser."""

import os
import sys

from . import _set

# (command, its only option) of the calls that need no parser
QUICK = (["version"], ["path", "--root"], ["path", "--bin"], ["path", "--cmake"])


def main(arguments=None):
    """Run one command; returns the exit status.

    0: done. 1: failed (the reason is on stderr), or a static check failed. 2: wrong usage. 3: a GPU without
    device code, or a device check failed. 4: a torch check failed.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments in QUICK:
            print(path(arguments[1][2:]) if arguments[1:] else _set.VERSION)
            return 0
        from . import _commands

        return _commands.run(arguments)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"rocm-sdk: {error}", file=sys.stderr)
        return 1


def root():
    """The expanded devel tree when rocm-sdk-devel is installed, else the core tree."""
    from . import _devel, _dist

    return _devel.installed_root() or _dist.require("core")


def path(what):
    """The directory of the installed ROCm that is asked for: `root`, `bin` or `cmake`."""
    tree = root()
    if what == "root":
        return tree
    directory = os.path.join(tree, "bin") if what == "bin" else os.path.join(tree, "lib", "cmake")
    if what == "cmake" and not os.path.isdir(directory):
        from . import _dist

        raise _dist.PackageMissing(
            "{} has no CMake packages; install them with: {}".format(
                tree, _dist.pip_hint("libraries", "devel")
            )
        )
    return directory
