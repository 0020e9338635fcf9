"""The profilers' console commands; they run from this package's own tree, named as core names its own."""

import sys


def _run(name):
    try:
        from rocm_sdk_core import _cli as core
    except ModuleNotFoundError as error:
        if error.name != "rocm_sdk_core":
            raise
        sys.exit('rocm: the profilers need rocm-sdk-core; install it with: pip install "rocm[profiler]"')
    root = core.tree(__package__)
    program = core.find_program(name, root)
    if program is None:
        sys.exit(f"rocm: the program of this command is not in {root}; reinstall rocm-profiler")
    core.execute(program)


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def command():
        _run(name)

    command.__name__ = name
    return command
