"""What a build is told: its environment variables, and the versions of its wheels, from an installed ROCm,
the checkout and the options; pure functions.

Source: the environment tables of the PyTorch build description. Every build gets its own mapping; the
process's own environment is never written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PureWindowsPath

from rocwright.builder.decide.plan import BuildRequest
from rocwright.builder.decide.recipe import Recipe
from rocwright.builder.decide.tree import SourceFacts
from rocwright.builder.rocm.rocm import VERSION, Rocm
from rocwright.errors import UsageError
from rocwright.model.version import GIT_TYPES, check_pattern, rocm_suffix, with_commit, with_suffix

# GCC 12 warns about PyTorch's own code, which is built with -Werror.
_GCC_QUIET = "-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict"
# A caller's compilers and flags are meant for the build; everything else of his is not.
_CALLERS = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS")


def common_environment(
    rocm: Rocm,
    wanted: BuildRequest,
    *,
    caller: Mapping[str, str],
    jobs: int,
    include: Sequence[str] = (),
) -> dict[str, str]:
    """Variables for every project; `caller` is the environment the tool was started with.

    `include` are further directories of headers for every compiler, such as Python's own.

    Raises `UsageError` when no target is given: an empty list would compile for whatever GPU is there.
    """
    if not wanted.targets:
        raise UsageError("no GPU target to build for", next_step="give --pytorch-rocm-arch, e.g. gfx942")
    windows = wanted.platform == "windows"
    env = {
        "PYTHONUTF8": "1",
        # A CUDA toolkit on the same machine must not win.
        "HIP_PLATFORM": "amd",
        "CMAKE_PREFIX_PATH": _prefix_path(rocm, caller, windows=windows),
        "ROCM_HOME": rocm.root,
        "ROCM_PATH": rocm.root,
        "HIP_PATH": rocm.root,
        "PYTORCH_ROCM_ARCH": ";".join(wanted.targets),
        "USE_KINETO": caller.get("USE_KINETO") or ("OFF" if windows else "ON"),
        "USE_GLOO": "ON",
        "MAX_JOBS": str(wanted.jobs or caller.get("MAX_JOBS") or jobs),
        "PATH": joined_paths([rocm.bin, _search_path(caller, windows=windows)], windows=windows),
    }
    if rocm.device_libraries:
        env["HIP_DEVICE_LIB_PATH"] = rocm.device_libraries
    if rocm.host_math:
        env |= {"BLAS": "OpenBLAS", "OpenBLAS_HOME": rocm.host_math, "OpenBLAS_LIB_NAME": "rocm-openblas"}
    if include:
        env["CPATH"] = joined_paths([*include, caller.get("CPATH", "")], windows=windows)
    if rocm.library_path and not windows:
        # Of projects after torch, whose builds import it.
        env["LD_LIBRARY_PATH"] = rocm.library_path
    return env | (_windows_compilers(rocm) if windows else _linux_flags(caller))


def _linux_flags(caller: Mapping[str, str]) -> dict[str, str]:
    env = {name: caller[name] for name in _CALLERS if caller.get(name)}
    return env | {name: appended(env.get(name), _GCC_QUIET) for name in ("CXXFLAGS", "CPPFLAGS")}


def _windows_compilers(rocm: Rocm) -> dict[str, str]:
    """CMake and setuptools read backslashes in these as escapes."""
    programs = PureWindowsPath(rocm.root).as_posix() + "/lib/llvm/bin"
    return {
        "HIP_CLANG_PATH": programs,
        "CC": f"{programs}/clang-cl.exe",
        "CXX": f"{programs}/clang-cl.exe",
    }


# Where torch lies, in the build environment: only a run of the build knows.
TORCH_ROOT = "${TORCH_ROOT}"
# What CMake projects call the GPUs to compile for: CMake itself, ROCm's own packages, older ones of these.
_CMAKE_TARGETS = ("CMAKE_HIP_ARCHITECTURES", "GPU_TARGETS", "AMDGPU_TARGETS")


def torch_for_cmake(env: Mapping[str, str], caller: Mapping[str, str], *, windows: bool) -> dict[str, str]:
    """How CMake finds torch, and the GPUs: scikit-build-core and most setup.py read CMAKE_ARGS.

    What `env` has there already, of the project's own, comes last: of two values CMake takes the later.
    """
    targets = env["PYTORCH_ROCM_ARCH"]
    given = " ".join(f"-D{name}={targets}" for name in _CMAKE_TARGETS)
    return {
        "CMAKE_PREFIX_PATH": joined_paths([TORCH_ROOT, env["CMAKE_PREFIX_PATH"]], windows=windows),
        "CMAKE_ARGS": " ".join(filter(None, (caller.get("CMAKE_ARGS"), given, env.get("CMAKE_ARGS")))),
    }


# Nobody listens there, so whatever asks for an address fails at once.
_NOWHERE = "http://127.0.0.1:9"


def fence() -> dict[str, str]:
    """Variables that keep curl, git, pip and Python's own modules away from the network."""
    names = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
    proxies = {spelled: _NOWHERE for name in names for spelled in (name, name.upper())}
    return proxies | {"no_proxy": "", "NO_PROXY": "", "GIT_ALLOW_PROTOCOL": "file", "PIP_NO_INDEX": "1"}


def sysdeps_environment(rocm: Rocm, env: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """ROCm's copies of system libraries, for a build on Linux: headers, libraries, pkg-config.

    `LD_LIBRARY_PATH` is for programs that the build runs; it is the build's alone.
    """
    added: dict[str, str] = {}
    includes = [f"-I{rocm.sysdeps}/include"] if rocm.sysdeps else []
    includes += [f"-I{rocm.roctracer_include}"] if rocm.roctracer_include else []
    if includes:
        added["CXXFLAGS"] = appended(env.get("CXXFLAGS"), " ".join(includes))
    if rocm.sysdeps:
        library = f"{rocm.sysdeps}/lib"
        added["LDFLAGS"] = appended(env.get("LDFLAGS"), f"-L{library}")
        packages = [f"{library}/pkgconfig", caller.get("PKG_CONFIG_PATH", "")]
        added["PKG_CONFIG_PATH"] = joined_paths(packages, windows=False)
        added["LD_LIBRARY_PATH"] = joined_paths([library, rocm.library_path], windows=False)
    return added


def _search_path(caller: Mapping[str, str], *, windows: bool) -> str:
    """The caller's PATH; in a plan for Windows that is made elsewhere it means nothing and stays open."""
    path = caller.get("PATH", "" if windows else os.defpath)
    return "${PATH}" if windows and path.startswith("/") else path


def _prefix_path(rocm: Rocm, caller: Mapping[str, str], *, windows: bool) -> str:
    """Where CMake looks: ROCm's packages alone, or a plain prefix before what the caller named."""
    if rocm.origin != "prefix":
        return rocm.cmake
    return joined_paths([rocm.cmake, rocm.root, caller.get("CMAKE_PREFIX_PATH", "")], windows=windows)


def joined_paths(paths: Sequence[str], *, windows: bool) -> str:
    """A search path in the platform's spelling, empty parts left out."""
    return (";" if windows else ":").join(path for path in paths if path)


def appended(first: str | None, second: str) -> str:
    """Flags behind those that are there."""
    return f"{first} {second}" if first else second


# A local version (PEP 440), with the separators that are normalized to dots.
_SUFFIX = re.compile(r"\+[a-z0-9]+([-_.][a-z0-9]+)*", re.IGNORECASE)
# In a plan without a ROCm, for the two numbers that a release accepts every patch level of.
_MAJOR_MINOR = "${ROCM_MAJOR}.${ROCM_MINOR}.*"


def local_suffix(wanted: BuildRequest, rocm: Rocm) -> str:
    """`+rocm7.10.0`: what was given, else what the ROCm's version says."""
    given = wanted.version_suffix
    if given is None:
        return f"+rocm{VERSION}" if rocm.version == VERSION else rocm_suffix(rocm.version)
    if not _SUFFIX.fullmatch(given):
        raise UsageError(
            f"version suffix {given!r} must start with '+', followed by letters, digits and dots",
            next_step="write it like --version-suffix +rocm7.10.0",
        )
    return given


def project_suffix(wanted: BuildRequest, rocm: Rocm, tree: SourceFacts, project: str) -> str:
    """The local suffix of one project's wheel: builds of a commit carry it, `+git1a2b3c4d.rocm7.10.0`."""
    suffix = local_suffix(wanted, rocm)
    if wanted.release_type not in GIT_TYPES:
        return suffix
    if not tree.commit:
        raise UsageError(
            f"a {wanted.release_type} wheel carries its commit, but {tree.directory} is not a git checkout",
            next_step=f"check {project} out with git, or give another --release-type",
        )
    return with_commit(suffix, tree.commit)


def suffix_of_torch(wanted: BuildRequest, rocm: Rocm, tree: SourceFacts, torch: str) -> str:
    """The local suffix of what stands on torch: `+torch2.9.0.rocm7.10.0`, of a torch of this version.

    In an index several versions of torch lie beside each other, each with wheels of the same version of an
    extension: one name could not tell them apart. Without a local version of torch, as other wheels have it.
    Builds of a commit carry it; what somebody released has none.
    """
    other = wanted.version_suffix is not None or "+" not in torch
    suffix = local_suffix(wanted, rocm) if other else label_of_torch(torch)
    return with_commit(suffix, tree.commit) if wanted.release_type in GIT_TYPES and tree.commit else suffix


def label_of_torch(version: str) -> str:
    """The local version of what stands on a torch of this version."""
    return "+torch" + version.replace("+", ".")


def planned_version(recipe: Recipe, tree: SourceFacts, wanted: BuildRequest, suffix: str) -> tuple[str, str]:
    """What the version variable says, and the version that the wheel then has; empty where no recipe sets it.

    They differ for builds of a number: torch counts them in the version itself.
    """
    if not recipe.version_env:
        return "", _joined(tree.version, suffix) if recipe.local_version and tree.version else ""
    version = _joined(tree.version, suffix)
    if wanted.build_number > 1 and recipe.number_suffix:
        return version, version + recipe.number_suffix.format(number=wanted.build_number)
    return version, version


def _joined(base: str, suffix: str) -> str:
    version = base + suffix
    return version if VERSION in version else with_suffix(base, suffix)


def joined_suffix(first: str, second: str) -> str:
    """Two local suffixes as one: a version has one plus sign only."""
    return second if not first else f"{first}.{second[1:]}" if "+" in first else first + second


def version_check(rocm: Rocm, release_type: str) -> str:
    """What the generated module compares the ROCm at run time with."""
    if rocm.version != VERSION:
        return check_pattern(rocm.version, release_type)
    exact = check_pattern("1.2.3", release_type) == "1.2.3"
    return VERSION if exact else _MAJOR_MINOR
