"""Describe a ROCm to builds: a directory tree (AMD's `/opt/rocm`, a tree just built, a distribution's
`/usr`) by looking at its files, the packages of a Python environment by asking them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocwright.builder.rocm.rocm import Rocm
from rocwright.data import load_table
from rocwright.errors import CommandFailed, InvalidInput, InvalidPrefix
from rocwright.model.gpu import InvalidTarget, base_targets, is_target, parse_targets
from rocwright.model.platforms import RocmLibraries
from rocwright.system import venv
from rocwright.system.files import rocm_root
from rocwright.system.venv import Environment

_COMPILER = ("bin/hipcc", "bin/hipcc.exe", "bin/hipcc.bat", "bin/hipcc.bin")
_HEADER = "include/hip/hip_version.h"
# Of a tree that was built from ROCm's sources as a whole: what it was built for.
_DIST_INFO, _DIST_TARGETS = "share/therock/dist_info.json", "dist_amdgpu_targets"
# Debian puts libraries and CMake's files below a directory of the machine's name.
_LIBRARY_DIRECTORIES = ("lib", "lib/*-linux-gnu", "lib64", "bin")
_CMAKE_PACKAGES = tuple(f"{place}/cmake" for place in _LIBRARY_DIRECTORIES)
_HIP_PACKAGES = ("hip/hip-config.cmake", "hip/HIPConfig.cmake", "HIP/HIPConfig.cmake")
# In the order of preference: ROCm's own, older releases, Debian's, those inside a clang.
_BITCODE = (
    "lib/llvm/amdgcn/bitcode",
    "amdgcn/bitcode",
    "lib/*-linux-gnu/amdgcn/bitcode",
    "lib/llvm/lib/clang/*/amdgcn/bitcode",
    "lib/llvm/lib/clang/*/lib/amdgcn/bitcode",
    "lib/llvm-*/lib/clang/*/amdgcn/bitcode",
    "lib/llvm-*/lib/clang/*/lib/amdgcn/bitcode",
)
_DEVICE_LIBRARIES = ("ockl.bc", "ockl.amdgcn.bc")


def describe_prefix(prefix: Path) -> Rocm:
    """The ROCm in a plain tree; nothing in it is run.

    The GPU targets are those that the tree says it was built for, which most trees do not. Raises
    `InvalidPrefix` naming everything that is missing for a build.
    """
    # Not resolved: /opt/rocm stays the name of it, whichever version it leads to.
    root = rocm_root(prefix.expanduser().absolute())
    if not root.is_dir():
        state = "is not a directory" if root.exists() else "does not exist"
        raise InvalidPrefix(f"{root} {state}", where=root, next_step=_advice(root))
    cmake = _cmake(root)
    version = _version(root)
    missing = [
        what
        for what, there in (
            ("the compiler driver bin/hipcc", _has_compiler(root)),
            (f"HIP's headers ({_HEADER})", (root / _HEADER).is_file()),
            ("CMake's package hip (lib/cmake/hip)", cmake is not None),
            ("its version (.info/version, rocm_version.h, hip_version.h)", version is not None),
        )
        if not there
    ]
    if missing or cmake is None or version is None:
        raise InvalidPrefix(
            f"{root} is not a ROCm to build against: it lacks {', '.join(missing)}",
            where=root,
            next_step=_advice(root),
        )
    return Rocm(
        version=version,
        root=str(root),
        bin=str(root / "bin"),
        cmake=str(cmake),
        device_libraries=_text(_device_libraries(root)),
        host_math=_directory(root / "lib" / "host-math"),
        sysdeps=_directory(root / "lib" / "rocm_sysdeps"),
        roctracer_include=_directory(root / "include" / "roctracer"),
        libraries=_libraries(root),
        targets=_targets(root),
        origin="prefix",
    )


def device_libraries(root: Path) -> str:
    """The directory of the compiler's GPU libraries (`ockl.bc`) below a ROCm; empty when there is none."""
    return _text(_device_libraries(root))


def _device_libraries(root: Path) -> Path | None:
    places = (place for pattern in _BITCODE for place in _newest_first(root.glob(pattern)))
    return next(
        (place for place in places if any((place / name).exists() for name in _DEVICE_LIBRARIES)), None
    )


def _newest_first(places: Iterable[Path]) -> list[Path]:
    """Directories whose names differ in a version, the newest first: clang/9 comes after clang/15.0.6."""
    return sorted(
        places, key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))], reverse=True
    )


def _cmake(root: Path) -> Path | None:
    places = (place for pattern in _CMAKE_PACKAGES for place in sorted(root.glob(pattern)))
    return next((place for place in places if any((place / name).is_file() for name in _HIP_PACKAGES)), None)


def _has_compiler(root: Path) -> bool:
    return any((root / name).exists() for name in _COMPILER)


def _version(root: Path) -> str | None:
    """What the tree says of its version, the whole product's before HIP's own."""
    info = root / ".info" / "version"
    if info.is_file():
        # Some installations append a build number: 6.4.1-83.
        said = info.read_text(encoding="utf-8", errors="replace").split("-", 1)[0].strip()
        if said:
            return said
    for header, name in (
        ("include/rocm-core/rocm_version.h", "ROCM_VERSION"),
        ("include/rocm_version.h", "ROCM_VERSION"),
        (_HEADER, "HIP_VERSION"),
    ):
        if (root / header).is_file():
            text = (root / header).read_text(encoding="utf-8", errors="replace")
            found = [_defined(text, f"{name}_{part}") for part in ("MAJOR", "MINOR", "PATCH")]
            if all(found):
                return ".".join(filter(None, found))
    return None


def _defined(text: str, name: str) -> str | None:
    found = re.search(rf"^\s*#\s*define\s+{name}\s+(\d+)\b", text, re.MULTILINE)
    return found[1] if found else None


def _targets(root: Path) -> tuple[str, ...]:
    """The targets that a tree was built for; none where it does not say so in words that are targets."""
    try:
        said = json.loads((root / _DIST_INFO).read_text(encoding="utf-8"))[_DIST_TARGETS]
        return tuple(str(target) for target in parse_targets(said))
    except (OSError, ValueError, TypeError, KeyError, InvalidTarget):
        return ()


def _libraries(root: Path) -> tuple[str, ...]:
    """Short names of the libraries in the tree, sorted."""
    table = load_table("packages", RocmLibraries)
    places = [*_LIBRARY_DIRECTORIES, "lib/rocm_sysdeps/lib", "lib/host-math/lib"]
    names = {name for place in places for directory in root.glob(place) for name in _files(directory)}
    found = {table.short_name(name, platform) for name in names for platform in ("linux", "windows")}
    return tuple(sorted({row[0] for row in found if row is not None}))


def _files(directory: Path) -> list[str]:
    """Names of the files in a directory; links that lead nowhere are none."""
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if entry.is_file()]
    except NotADirectoryError:
        return []


def _directory(path: Path) -> str:
    return str(path) if path.is_dir() else ""


def _text(path: Path | None) -> str:
    return str(path) if path is not None else ""


def _advice(root: Path) -> str:
    """What to do about a wrong directory: what was probably meant, where it can be told."""
    if (root / "pyvenv.cfg").exists() or (root / "bin" / "rocm-sdk").exists():
        return f"this is a Python environment; ROCm's packages in it are used with --rocm-environment {root}"
    near = [root / "rocm", root / "dist" / "rocm", root / "build" / "dist" / "rocm", *list(root.parents)[:3]]
    for place in near:
        if (place / _HEADER).is_file() and _has_compiler(place) and _cmake(place) is not None:
            return f"give the directory above bin/ and lib/, probably {place}"
    return "give the directory above bin/ and lib/, such as /opt/rocm, or /usr with Debian's packages"


_DEVICE_PACKAGE = "rocm-sdk-device-"
_SITE = "import os, rocm_sdk; print(os.path.dirname(os.path.dirname(os.path.abspath(rocm_sdk.__file__))))"
# What AMD's first releases of the packages know, who have no `version --json`: names, then which of them the
# installed packages hold.
_OLDER_LIBRARIES = """
import json, rocm_sdk
from rocm_sdk._dist_info import ALL_LIBRARIES
found = []
for name in ALL_LIBRARIES:
    try:
        rocm_sdk.find_libraries(name)
    except Exception:
        continue
    found.append(name)
print(json.dumps(found))
"""
# Several commands of rocm-sdk in one process: what each prints on standard output, null for one that fails.
_TOGETHER = """
import contextlib, io, json, runpy, sys
said = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["rocm-sdk", *words]
    out = io.StringIO()
    code = 0
    try:
        with contextlib.redirect_stdout(out):
            runpy.run_module("rocm_sdk", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    except Exception:
        code = 1
    said.append(None if code else out.getvalue().strip())
print(json.dumps(said))
"""
_PATHS = ("--root", "--bin", "--cmake")
_QUESTIONS = (
    ("version",),
    *(("path", flag) for flag in _PATHS),
    ("version", "--json"),
    ("targets", "--json"),
)


class _Version(msgspec.Struct, frozen=True):
    """What is needed of `rocm-sdk version --json`."""

    libraries: tuple[str, ...]


class _Targets(msgspec.Struct, frozen=True):
    """What is needed of `rocm-sdk targets --json`."""

    targets: tuple[str, ...]


def describe_rocm(environment: Environment, *, log: Path | None = None) -> Rocm:
    """Ask the installed `rocm-sdk`, which expands the development files where that has not been done yet.

    Raises `CommandFailed` when a question fails (nothing is guessed then), `InvalidInput` when the answer
    is empty or a directory that is not there.
    """
    asked = _Asked(environment, log)
    version = asked.answer("version")
    if not version:
        raise InvalidInput(
            f"ROCm's packages in {environment.root} do not say their version",
            where=log,
            next_step="install them again with `rocwright install-rocm`",
        )
    root, programs, cmake = (Path(asked.answer("path", flag)) for flag in _PATHS)
    for directory in (root, programs, cmake):
        if not directory.is_absolute() or not directory.is_dir():
            raise InvalidInput(
                f"rocm-sdk names {directory}, which is not a directory",
                where=log,
                next_step="is rocm[devel] installed? run `rocm-sdk test` in that environment",
            )
    host_math, sysdeps, roctracer = (
        root / name for name in ("lib/host-math", "lib/rocm_sysdeps", "include/roctracer")
    )
    return Rocm(
        version=version,
        root=str(root),
        bin=str(programs),
        cmake=str(cmake),
        device_libraries=device_libraries(root),
        host_math=str(host_math) if host_math.is_dir() else "",
        sysdeps=str(sysdeps) if sysdeps.is_dir() else "",
        roctracer_include=str(roctracer) if roctracer.is_dir() else "",
        libraries=_asked_libraries(asked),
        targets=_asked_targets(asked),
        site=_python(environment, "-c", _SITE, log=log),
    )


def _python(environment: Environment, *words: str, log: Path | None) -> str:
    """What the environment's Python prints on standard output; whatever warns stays apart."""
    # Not from the caller's directory: Python would look for modules there first.
    return environment.run(
        [str(environment.python), *words],
        cwd=environment.root,
        log=log,
        next_step="is rocm[libraries,devel] installed there? `rocwright install-rocm` does that",
    ).stdout.strip()


class _Asked:
    """Answers of an environment's `rocm-sdk`, all got at once: its start takes longer than an answer."""

    def __init__(self, environment: Environment, log: Path | None) -> None:
        self.environment, self.log = environment, log
        said = self._all()
        self._said = dict(zip(_QUESTIONS, said, strict=True)) if len(said) == len(_QUESTIONS) else {}

    def _all(self) -> list[str | None]:
        questions = msgspec.json.encode(_QUESTIONS).decode()
        try:
            text = _python(self.environment, "-c", _TOGETHER, questions, log=self.log)
            return msgspec.json.decode(text, type=list[str | None])
        except (CommandFailed, msgspec.DecodeError):
            return []

    def answer(self, *words: str) -> str:
        """One answer; a question that failed among others is asked alone, so that its error is its own."""
        said = self._said.get(words)
        return _python(self.environment, "-m", "rocm_sdk", *words, log=self.log) if said is None else said


def _asked_libraries(asked: _Asked) -> tuple[str, ...]:
    """Short names that `import torch` may ask for with these packages."""
    try:
        return msgspec.json.decode(asked.answer("version", "--json"), type=_Version).libraries
    except (CommandFailed, msgspec.DecodeError):
        said = _python(asked.environment, "-c", _OLDER_LIBRARIES, log=asked.log)
        return msgspec.json.decode(said, type=tuple[str, ...])


def _asked_targets(asked: _Asked) -> tuple[str, ...]:
    """GPU targets with device code, by the hardware's order; empty where the packages do not say."""
    try:
        said = msgspec.json.decode(asked.answer("targets", "--json"), type=_Targets).targets
    except (CommandFailed, msgspec.DecodeError):
        # The older answer is a list of what was once built; the names of installed packages do not lie.
        names = venv.installed(asked.environment)
        said = tuple(name.removeprefix(_DEVICE_PACKAGE) for name in names if name.startswith(_DEVICE_PACKAGE))
        if not said:
            said = tuple(re.split(r"[\s,;]+", asked.answer("targets")))
    return base_targets(target for target in said if is_target(target))
