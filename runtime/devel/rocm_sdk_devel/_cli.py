"""The compiler's console commands, where it is part of the development files; named as core names its own."""

import sys


def _run(name):
    from rocm_sdk_core import _cli as core

    root = core.devel_root()
    if root is None:
        sys.exit('rocm: the package rocm is not installed; install it with: pip install "rocm[devel]"')
    program = core.find_program(name, root)
    if program is None:
        sys.exit(f"rocm: the program of this command is not in {root}; reinstall rocm-sdk-devel")
    core.execute(program)


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def command():
        _run(name)

    command.__name__ = name
    return command
