"""The directories of the installed ROCm that builds ask for."""

import os

from . import _devel, _dist


def root():
    """The expanded devel tree when rocm-sdk-devel is installed, else the core tree."""
    return _devel.installed_root() or _dist.require("core")


def path(what):
    """The directory of the installed ROCm that is asked for: `root`, `bin` or `cmake`."""
    tree = root()
    if what == "root":
        return tree
    directory = os.path.join(tree, "bin") if what == "bin" else os.path.join(tree, "lib", "cmake")
    if what == "cmake" and not os.path.isdir(directory):
        raise _dist.PackageMissing(
            "{} has no CMake packages; install them with: {}".format(
                tree, _dist.pip_hint("libraries", "devel")
            )
        )
    return directory
