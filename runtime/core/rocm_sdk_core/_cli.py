"""The console commands of ROCm: each attribute of this module runs the program that it names.

The attribute of a command is its name with `-` and `.` written `_` and `+` written `p`:
`amdclang++` is `rocm_sdk_core._cli:amdclangpp`. On Windows the name is meant without `.exe`.
"""

import os
import sys

# Where programs live in a ROCm tree, in the order of preference.
PROGRAM_DIRECTORIES = ("bin", "lib/llvm/bin", "llvm/bin")
SUFFIX = ".exe" if os.name == "nt" else ""
# Only these need headers and build files beside them, hence the expanded devel tree. Everything else, above
# all system information, runs from the core tree and never causes an expansion.
COMPILER_COMMANDS = frozenset(
    (
        "amdclang",
        "amdclangpp",
        "amdclang_cl",
        "amdclang_cpp",
        "amdflang",
        "amdlld",
        "hipcc",
        "hipconfig",
        "hipify_clang",
        "hipify_perl",
        "offload_arch",
        "roc_obj",
        "roc_obj_extract",
        "roc_obj_ls",
    )
)


def attribute(command):
    """The attribute of this module that runs `command`."""
    return command.replace("-", "_").replace(".", "_").replace("+", "p")


def find_program(name, root):
    """Path of the program in a ROCm tree that the attribute `name` runs, None when the tree has none."""
    for directory in PROGRAM_DIRECTORIES:
        place = os.path.join(root, *directory.split("/"))
        try:
            candidates = os.listdir(place)
        except OSError:
            continue
        for candidate in sorted(candidates):
            path = os.path.join(place, candidate)
            stem = candidate[: len(candidate) - len(SUFFIX)]
            if (
                candidate.endswith(SUFFIX)
                and attribute(stem) == name
                and os.path.isfile(path)
                and os.access(path, os.X_OK)
            ):
                return path
    return None


def tree(module):
    """Directory of the package with the files, by the name of the pure package: `_rocm_sdk_core`, ...."""
    loaded = __import__("_" + module)
    return os.path.dirname(os.path.abspath(loaded.__file__))


def execute(program):
    """Replace this process by the program, with this process's arguments. Windows runs it and waits."""
    arguments = [program, *sys.argv[1:]]
    try:
        if os.name != "nt":
            os.execv(program, arguments)
        # execv of Windows starts another process and ends this one at once, without its exit status.
        import subprocess

        sys.exit(subprocess.call(arguments))
    except OSError as error:
        sys.exit(f"rocm: cannot run {program}: {error.strerror}")


def devel_root():
    """The expanded devel tree, None when the devel package (or rocm itself) is not installed."""
    try:
        from rocm_sdk import _devel
    except ModuleNotFoundError as error:
        if error.name != "rocm_sdk":
            raise
        return None
    try:
        return _devel.installed_root()
    except (ImportError, OSError, RuntimeError) as error:
        sys.exit(f"rocm: {error}")


def run(name):
    """Run the program of the attribute `name`, of the devel tree if it is a compiler's, else of core."""
    root = tree(__package__)
    program = None
    if name in COMPILER_COMMANDS:
        devel = devel_root()
        program = find_program(name, devel) if devel else None
    program = program or find_program(name, root)
    if program is None:
        sys.exit(f"rocm: the program of this command is not in {root}; reinstall rocm-sdk-core")
    execute(program)


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def command():
        run(name)

    command.__name__ = name
    return command
