"""Install the ROCm packages into a user's Python environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rocwright.builder.before.needs import needs
from rocwright.builder.rocm import pip
from rocwright.builder.rocm.ask import describe_rocm
from rocwright.builder.rocm.extras import ALWAYS, require_extras
from rocwright.builder.rocm.rocm import Rocm
from rocwright.errors import InvalidInput, UsageError
from rocwright.system.interpreters import ask_interpreter
from rocwright.system.venv import Closed, Environment

# An index that was just written to shows it within a few minutes.
INDEX_WAIT_S = 180.0


def _silently(text: str) -> None:
    """Tell nobody."""


def rocm_requirement(spec: str, extras: Sequence[str] = ()) -> str:
    """`rocm[libraries,devel]` with a version specifier that has an operator, such as `==7.10.0`."""
    try:
        wanted = SpecifierSet(spec)
    except InvalidSpecifier as error:
        raise UsageError(
            f"{spec!r} is no version specifier", next_step="write the operator too: '==7.10.0', '>1.0'"
        ) from error
    names = dict.fromkeys((*ALWAYS, *extras))
    for name in names:
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(
                f"{name!r} is no name of an extra", next_step="write them like device-gfx942,profiler"
            )
    return f"rocm[{','.join(names)}]{wanted}"


def satisfies(version: str, spec: str) -> bool:
    """Whether a version is one that `spec` asks for; pre-releases count."""
    try:
        return SpecifierSet(spec).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


def require_version(version: str, spec: str, *, environment: Environment) -> None:
    """Raise `InvalidInput` for a ROCm that is none of those asked for."""
    if not satisfies(version, spec):
        raise InvalidInput(
            f"ROCm {version} is installed, but rocm{spec} was asked for",
            where=environment.root,
            next_step="is another ROCm in this environment? use a fresh one",
        )


def require_python(environment: Environment) -> None:
    """Raise `UsageError` for an environment whose Python no wheels are built for, `MissingTool` for none."""
    python, wanted = ask_interpreter(environment.python), needs().pythons
    if not wanted.has(python.version):
        raise UsageError(
            f"{environment.root} has Python {python.version}; wheels are built for {wanted.first} to "
            f"{wanted.last}, so ROCm is of no use there",
            where=environment.python,
            next_step=f"make an environment of another Python: `python{wanted.last} -m venv .venv`",
        )


def install_rocm(
    environment: Environment,
    places: Closed,
    *,
    spec: str = ">1.0",
    extras: Sequence[str] = (),
    pre: bool = True,
    pip_cache_dir: Path | None = None,
    index_wait_s: float = INDEX_WAIT_S,
    index_every_s: float = pip.RETRY_EVERY_S,
    log: Path,
    note: pip.Note = _silently,
) -> Rocm:
    """Install `rocm[libraries,devel]` anew from the given places only, expand devel's files, describe it.

    `index_wait_s` is how long an index may take to show the packages; 0 asks once. Raises `UsageError` for a
    malformed `spec`, for a Python that no wheels are built for and for the operating system's,
    `CommandFailed` with pip's last lines otherwise, `InvalidInput` when what is installed then is not what
    was asked for, in version or extras.
    """
    wanted = pip.Install(
        rocm_requirement(spec, extras), places, pre=pre, reinstall=True, cache_dir=pip_cache_dir
    )
    require_python(environment)
    pip.install(environment, wanted, wait_s=index_wait_s, every_s=index_every_s, log=log, note=note)
    rocm = describe_rocm(environment, log=log)
    require_version(rocm.version, spec, environment=environment)
    require_extras(rocm, extras)
    return rocm
