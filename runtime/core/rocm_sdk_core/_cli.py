"""The console commands of ROCm: each attribute of this module replaces the process by the program it names.

The attribute of a command is its name with `-` and `.` written `_` and `+` written `p`:
`amdclang++` is `rocm_sdk_core._cli:amdclangpp`.
"""

import os
import sys

# Where programs live in a ROCm tree, in the order of preference.
PROGRAM_DIRECTORIES = ("bin", "lib/llvm/bin", "llvm/bin")
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
        try:
            candidates = os.listdir(os.path.join(root, directory))
        except OSError:
            continue
        for candidate in sorted(candidates):
            path = os.path.join(root, directory, candidate)
            if attribute(candidate) == name and os.path.isfile(path) and os.access(path, os.X_OK):
                return path
    return None


def core_root():
    """Directory of the installed core tree."""
    module = __import__("_" + __package__)
    return os.path.dirname(os.path.abspath(module.__file__))


def _devel_root():
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


def _run(name):
    root = core_root()
    program = None
    if name in COMPILER_COMMANDS:
        devel = _devel_root()
        program = find_program(name, devel) if devel else None
    program = program or find_program(name, root)
    if program is None:
        sys.exit(f"rocm: the program of this command is not in {root}; reinstall rocm-sdk-core")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"rocm: cannot run {program}: {error.strerror}")


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def command():
        _run(name)

    command.__name__ = name
    return command
