"""What of the caller's environment a build does not see, and what of it a wheel depends on: variables,
compilers, and the ROCm, told without reading large files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.rocm import Rocm
from rocwright.system.files import fact_line, walk_files
from rocwright.system.redact import is_secret

# Another Python, another ROCm, another project's settings: what is needed of these a plan sets.
_LEAKS = re.compile(
    r"PYTHON.*|VIRTUAL_ENV.*|CONDA_.*|PIP_.*|PIPENV_.*|UV_.*|LD_(LIBRARY_PATH|PRELOAD|AUDIT)"
    r"|ROCM_.*|HIP_.*|HSA_.*|HIPCC_BIN.*|DEVICE_LIB_PATH|AMDGPU_TARGETS|GPU_TARGETS|PYTORCH_.*|TRITON_WHEEL_.*"
    r"|TORCH_CUDA_ARCH_LIST|BUILD_VERSION|BUILD_NUMBER|VERSION_NAME|SETUPTOOLS_.*|DISTUTILS_.*|CMAKE_.*|ROCWRIGHT_.*|MAKEFLAGS"
)
# Knobs that name no place and that a user turns on purpose.
_KEPT = frozenset(
    f"CMAKE_{name}"
    for name in ("ARGS", "BUILD_PARALLEL_LEVEL", "BUILD_TYPE", "GENERATOR", "POLICY_VERSION_MINIMUM")
)
# What no wheel depends on, and what differs from login to login, job to job or machine to machine. Any other
# variable counts: a project's build reads what it likes, so a list of what matters would lack something.
_NO_MATTER = re.compile(
    # Who works, where, in which directory. What lies in a home is in no key either.
    r"HOME|USER|USERNAME|USERPROFILE|USERDOMAIN.*|LOGNAME|LOGONSERVER|SESSIONNAME|MAIL|HOST|HOSTNAME|COMPUTERNAME"
    r"|PWD|OLDPWD|INIT_CWD|TMPDIR|TEMP|TMP|(XDG|TEMP|TMP|LOG|HISTORY)_.*|(LOCAL)?APPDATA"
    # A shell, a terminal, a desktop, a remote login, a service.
    r"|_|SHELL|SHLVL|HIST.*|PS[0-4]|PROMPT.*|TERM|TERM(CAP|INFO|_).*|COLORTERM|COLUMNS|LINES|VTE_.*|WINDOWID|TMUX.*|STY"
    r"|.*_?COLORS?|EDITOR|VISUAL|PAGER|LESS.*|MANPATH|INFOPATH|DISPLAY|WAYLAND_.*|XAUTHORITY|DBUS_.*|DESKTOP_.*"
    r"|(GNOME|GTK|QT|KDE|KONSOLE|VSCODE|SSH|SUDO|GPG|SYSTEMD|KITTY|ALACRITTY|WEZTERM|ITERM|WT|WSL)_.*"
    r"|SESSION_MANAGER|WSLENV|KRB5CCNAME|INVOCATION_ID|JOURNAL_STREAM|MANAGERPID|MANAGERPIDFDID"
    # Of messages; sources are read as UTF-8.
    r"|LANG|LANGUAGE|LC_.*|TZ"
    # A job and its numbers.
    r"|CI|(CI|GITHUB|RUNNER|ACTIONS|GITLAB|BUILDKITE|CIRCLE|JENKINS|HUDSON|SLURMD?|PMIX?|PYTEST)_.*|(PBS|LSB|SGE)_.*"
    r"|ID|NEEDS_JSON|BUILD_(ID|TAG|URL)|JOB_.*|NODE_NAME|EXECUTOR_NUMBER|WORKSPACE|MFLAGS|MAKE(FLAGS|LEVEL|OVERRIDES|_TERM(OUT|ERR))"
    # Which GPUs and how many threads it has.
    r"|.*_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK|(OMP|MKL|OPENBLAS)_NUM_THREADS"
    # How the network is reached, and with what rights.
    r"|([a-z]+|[A-Z]+)_(proxy|PROXY)|.*_CA_BUNDLE|SSL_CERT_.*"
    r"|(GOOGLE|CLOUDSDK|AWS|AZURE|DOCKER)_.*"
    # Tools that keep several versions of something: those in use are found on PATH.
    r"|(PYENV|NVM)_.*|(CARGO|RUSTUP)_HOME|MODULE(PATH|SHOME|S_).*|LOADEDMODULES|_*(LMOD|LMFILES|ModuleTable).*"
)
# Of all, what says how a build is carried out, not what comes out. Programs on PATH are compared themselves.
_MANNER = re.compile(
    r"PATH|MAX_JOBS|CMAKE_BUILD_PARALLEL_LEVEL|VERBOSE|NINJA_STATUS|.*_LAUNCHER"
    r"|(CCACHE|SCCACHE|ROCWRIGHT|CC_PRINT)_.*"
)
# What gcc, clang, hipcc and Microsoft's compiler take besides their command line: ninja sees no change of it.
_COMPILERS = re.compile(
    r"CPATH|[A-Z]+_INCLUDE_PATH|LIBRARY_PATH|COMPILER_PATH|GCC_EXEC_PREFIX|CCC_OVERRIDE_OPTIONS"
    r"|HIPCC_(COMPILE|LINK)_FLAGS_APPEND|INCLUDE|LIB|LIBPATH|_?CL_?|_?LINK_?"
)


def leaks(caller: Mapping[str, str], planned: Mapping[str, str]) -> list[str]:
    """Names of the caller's variables that the build must not have."""
    return sorted(
        name for name in caller if _LEAKS.fullmatch(name) and name not in _KEPT and name not in planned
    )


def outcome_environment(caller: Mapping[str, str], planned: Mapping[str, str]) -> dict[str, str]:
    """The variables that the wheel's content may depend on, with their values.

    That is what the build's commands are given, without what is known not to matter. Before there is a plan,
    `planned` is empty: what plans set follows from their other inputs.
    """
    dropped = set(leaks(caller, planned))
    inherited = {
        name: value
        for name, value in caller.items()
        if name not in dropped and not _NO_MATTER.fullmatch(name) and not is_secret(name)
    }
    return {
        _text(name): _text(value)
        for name, value in {**inherited, **planned}.items()
        if not _MANNER.fullmatch(name)
    }


def compiler_environment(outcome: Mapping[str, str]) -> dict[str, str]:
    """Those that compilers read themselves: with others, objects that are there cannot be used."""
    return {name: value for name, value in outcome.items() if _COMPILERS.fullmatch(name)}


def _text(value: str) -> str:
    """Bytes that are no UTF-8 spelled out, so that they can go into a key."""
    return value.encode("utf-8", "backslashreplace").decode()


# Programs that a build takes from PATH unless a variable names another.
_TOOLS = {"CC": "cc", "CXX": "c++", "CMAKE": "cmake", "NINJA": "ninja", "HIPCC": "hipcc"}
# A directory with the compiler of device code, for hipcc.
_CLANG = "HIP_CLANG_PATH"
# Where a plain installation keeps what compiles: Debian, AMD's packages and a build of one's own differ.
_PLACES = (".info", "lib", "bin", "llvm/bin", "lib/llvm/bin", "amdgcn/bitcode", "lib/llvm/amdgcn/bitcode")
# What is ROCm's of headers, and of Debian's libraries, which lie among those of everything else. Some of its
# libraries are headers alone.
_OURS = re.compile(
    r"(lib)?(amdhip|amd_comgr|hip|hsa|miopen|rccl|roc(?!k))|(thrust|ck|ck_tile)$", re.IGNORECASE
)


def rocm_identity(rocm: Rocm) -> str:
    """Differs when another ROCm lies there, without reading its libraries."""
    digest = hashlib.sha256(msgspec.json.encode(rocm))
    if rocm.site:
        for record in sorted(Path(rocm.site).glob("rocm*.dist-info/RECORD")):
            digest.update(record.read_bytes())
        return digest.hexdigest()
    for name in _PLACES:
        directory = Path(rocm.root) / name
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            # A directory's time tells of anything that is installed there, a package of games too.
            is_one = path.is_dir() and not path.is_symlink()
            digest.update(path.name.encode() if is_one else fact_line(path.name, path.lstat()))
    root = Path(rocm.root)
    ours = [path for path in root.glob("include/*") if path.is_dir() and _OURS.match(path.name)]
    files = [file for path in sorted(ours) for file in walk_files(path)]
    files += sorted(path for path in root.glob("lib/*-linux-gnu/*.so*") if _OURS.match(path.name))
    for file in files:
        digest.update(fact_line(file.relative_to(root).as_posix(), file.lstat()))
    return digest.hexdigest()


def tools(plan: BuildPlan, caller: Mapping[str, str]) -> dict[str, str]:
    """Which compilers the build will find, as file and time; behind a launcher (`ccache gcc`) too."""
    found = {}
    named = {
        variable: (plan.env.get(variable) or caller.get(variable) or name).split() or [name]
        for variable, name in _TOOLS.items()
    }
    if plan.env.get(_CLANG):
        named[_CLANG] = [f"{plan.env[_CLANG]}/clang++"]
    for variable, words in named.items():
        paths = [shutil.which(word, path=plan.env.get("PATH", os.defpath)) for word in words]
        files = [Path(path).resolve() for path in paths if path is not None]
        if files:
            states = [path.stat() for path in files]
            found[variable] = " ".join(
                f"{path} {state.st_size} {state.st_mtime_ns}"
                for path, state in zip(files, states, strict=True)
            )
    return found
