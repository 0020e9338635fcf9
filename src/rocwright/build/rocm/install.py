"""Install the ROCm packages into a build environment and ask them where they are."""

from __future__ import annotations

from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rocwright.build.rocm.described import Rocm
from rocwright.errors import InvalidInput, UsageError
from rocwright.system.venv import Closed, Environment, pip_install


def rocm_requirement(spec: str, extras: tuple[str, ...] = ()) -> str:
    """`rocm[libraries,devel]` with a version specifier that has an operator, such as `==7.10.0`."""
    try:
        SpecifierSet(spec)
    except InvalidSpecifier as error:
        raise UsageError(
            f"{spec!r} is no version specifier", next_step="write the operator too: '==7.10.0', '>1.0'"
        ) from error
    return f"rocm[{','.join(('libraries', 'devel', *extras))}]{spec}"


def install_rocm(
    environment: Environment, places: Closed, *, spec: str = ">1.0", extras: tuple[str, ...] = (), log: Path
) -> Rocm:
    """Install `rocm[libraries,devel]` from the given places only, expand the devel tree, describe it."""
    pip_install(
        environment, [rocm_requirement(spec, extras)], closed=places, options=["--force-reinstall"], log=log
    )
    return describe_rocm(environment, log=log)


class _Version(msgspec.Struct, frozen=True):
    """What is needed of `rocm-sdk version --json`."""

    libraries: tuple[str, ...]


def describe_rocm(environment: Environment, *, log: Path) -> Rocm:
    """Ask the installed `rocm-sdk`; raises `InvalidInput` when it names a directory that is not there."""
    tool = str(environment.bin / "rocm-sdk")

    def ask(*words: str) -> str:
        return environment.run([tool, *words], log=log).stdout.strip()

    version = ask("version")
    root, programs, cmake = (Path(ask("path", flag)) for flag in ("--root", "--bin", "--cmake"))
    for directory in (root, programs, cmake):
        if not directory.is_dir():
            raise InvalidInput(
                f"rocm-sdk names {directory}, which is no directory",
                where=log,
                next_step="is rocm[devel] installed? run `rocm-sdk test` in that environment",
            )
    known = msgspec.json.decode(ask("version", "--json"), type=_Version).libraries
    bitcode = root / "lib" / "llvm" / "amdgcn" / "bitcode"
    host_math = root / "lib" / "host-math"
    return Rocm(
        version=version,
        root=str(root),
        bin=str(programs),
        cmake=str(cmake),
        device_libraries=str(bitcode) if bitcode.is_dir() else "",
        host_math=str(host_math) if host_math.is_dir() else "",
        libraries=known,
    )
