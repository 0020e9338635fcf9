"""Which ROCm a build is made against: exactly one kind of place, decided before anything is looked at, then
found there, or brought there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.builder.rocm.describe import describe_prefix, describe_rocm
from rocwright.builder.rocm.install import install_rocm, rocm_requirement
from rocwright.builder.rocm.own import rocm_environment
from rocwright.builder.rocm.rocm import Rocm
from rocwright.engine.hold import held
from rocwright.errors import InvalidPrefix, UsageError
from rocwright.system.venv import Closed, Environment, installed, links_page

_MAKE_ONE = "make one with `python3 -m venv .venv` and name it, or activate it"


def closed_places(index_url: str | None, find_links: Sequence[str] = ()) -> Closed:
    """The places that ROCm is taken from; empty text stands for an option that was not given.

    Directories are made absolute. Raises `UsageError` for no place at all, and for a directory that is not
    there: pip would only say that it found no package.
    """
    index = (index_url or "").strip() or None
    pages = tuple(links_page(text.strip()) for text in find_links if text.strip())
    if index is None and not pages:
        raise UsageError(
            "no place to take ROCm from", next_step="give --index-name, --index-url or --find-links"
        )
    return Closed(index_url=index, find_links=pages)


def exact_version(spec: str) -> str | None:
    """The version, where a specifier asks with `==` for one alone."""
    text = spec.strip()
    exact = text.startswith("==") and not text.startswith("===") and "*" not in text and "," not in text
    return text[2:].strip() if exact else None


class PlainPython(Environment, frozen=True):
    """A Python that is no virtual environment, such as the system's; its program may have any name."""

    executable: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.executable

    @property
    def bin(self) -> Path:
        """Its directory of programs."""
        return self.executable.parent


def find_environment(given: Path | None, caller: Mapping[str, str]) -> Environment:
    """The Python environment that is meant: `given`, else `$VIRTUAL_ENV`, else the one that runs this.

    `given` is the directory of an environment or its interpreter; `caller` the environment variables this
    tool was started with. Raises `UsageError` for anything else.
    """
    if given is not None:
        return _environment(given.expanduser().absolute(), said=str(given))
    active = caller.get("VIRTUAL_ENV", "").strip()
    if active:
        return _environment(Path(active).absolute(), said=f"VIRTUAL_ENV={active}")
    return _of_interpreter(Path(sys.executable))


def _environment(path: Path, *, said: str) -> Environment:
    if path.is_file() and os.access(path, os.X_OK):
        return _of_interpreter(path)
    if Environment(path).python.exists():
        return Environment(path)
    if not path.exists():
        raise UsageError(f"{said}: there is no such Python environment", where=path, next_step=_MAKE_ONE)
    what = "has no bin/python, so it is not a Python environment" if path.is_dir() else "cannot be executed"
    raise UsageError(f"{said} {what}", where=path, next_step=_MAKE_ONE)


def _of_interpreter(program: Path) -> Environment:
    """The environment around an interpreter; links are not followed, they lead to the one it was made of."""
    root = program.parent.parent
    if program.parent == Environment(root).bin and (root / "pyvenv.cfg").exists():
        return Environment(root)
    return PlainPython(root, program)


class RocmPlace(msgspec.Struct, frozen=True):
    """Where ROCm is, or comes from.

    `own`: packages of `index_url` and `find_links`, in an environment that belongs to the build.
    `environment`: packages in the Python environment `directory` (None: the active one), which are installed
    there first with `install`. `prefix`: a plain tree in `directory`. Where the active environment has none,
    and CMAKE_PREFIX_PATH names none, the plain tree `dist_dir` is taken.
    """

    kind: Literal["own", "environment", "prefix"]
    directory: str | None = None
    install: bool = False
    index_url: str | None = None
    find_links: tuple[str, ...] = ()
    spec: str = ">1.0"
    extras: tuple[str, ...] = ()
    pre: bool = True
    pip_cache_dir: str | None = None
    dist_dir: str | None = None

    @property
    def places(self) -> Closed:
        """The only places that ROCm's packages are taken from."""
        return Closed(index_url=self.index_url, find_links=self.find_links)

    @property
    def exact_version(self) -> str | None:
        """The version, where `==` asks for one alone."""
        return exact_version(self.spec)


def decide_place(
    *,
    index_url: str | None,
    find_links: Sequence[str],
    spec: str,
    extras: Sequence[str],
    pre: bool,
    pip_cache_dir: Path | None,
    environment: Path | None,
    prefix: Path | None,
    install: bool,
    environment_first: bool = False,
    dist_dir: Path | None = None,
) -> RocmPlace:
    """The one kind of place that the options name; an empty index or page counts as not given.

    With `environment_first`, as the documented script wants it, an index without `install` says nothing about
    the ROCm to build against. Raises `UsageError` for options that name two kinds,
    for a malformed `spec` or extra.
    """
    given = {
        "--index-url": (index_url or "").strip(),
        "--find-links": any(text.strip() for text in find_links),
    }
    sources = [name for name, is_given in given.items() if is_given]
    if prefix is not None:
        others = [
            *sources,
            *(["--rocm-environment"] if environment else []),
            *(["--install-rocm"] if install else []),
        ]
        if others and not (environment_first and others == sources):
            raise UsageError(
                f"--rocm-prefix and {' and '.join(others)} name two different ROCms",
                next_step="leave one of them out",
            )
        return RocmPlace("prefix", _text(prefix))
    if install and not sources:
        raise UsageError(
            "--install-rocm has no place to take ROCm from",
            next_step="give --index-name, --index-url or --find-links",
        )
    if environment is not None and sources and not install and not environment_first:
        raise UsageError(
            f"--rocm-environment and {' and '.join(sources)} name two different ROCms",
            next_step="add --install-rocm to install into that environment, or leave one of them out",
        )
    # Wrong text is told by a dry run, too, and before an environment is touched.
    rocm_requirement(spec, extras)
    own = bool(sources) and not install and not environment_first
    places = closed_places(index_url, find_links) if sources else Closed()
    return RocmPlace(
        "own" if own else "environment",
        _text(environment),
        install=install,
        index_url=places.index_url,
        find_links=places.find_links,
        spec=spec,
        extras=tuple(extras),
        pre=pre,
        pip_cache_dir=_text(pip_cache_dir),
        dist_dir=_text(dist_dir),
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.expanduser().absolute())


def place_environment(place: RocmPlace, caller: Mapping[str, str]) -> Environment:
    """The user's Python environment: the one with ROCm, else the active one; raises `UsageError` for none."""
    named = place.directory if place.kind == "environment" else None
    return find_environment(Path(named) if named else None, caller)


def present_rocm(place: RocmPlace, caller: Mapping[str, str]) -> Rocm:
    """The ROCm that is there: a prefix, an environment's packages, what CMAKE_PREFIX_PATH names, `dist_dir`.

    Raises `InvalidPrefix`, `UsageError` for an environment without ROCm, and what describing it raises.
    """
    if place.kind == "prefix":
        return describe_prefix(Path(place.directory or ""))
    environment = place_environment(place, caller)
    if "rocm" in installed(environment):
        return describe_rocm(environment)
    if place.directory is not None:
        raise _without_rocm(environment, place)
    for text in filter(None, (*caller.get("CMAKE_PREFIX_PATH", "").split(os.pathsep), place.dist_dir)):
        try:
            return describe_prefix(Path(text))
        except InvalidPrefix:
            # A path for something else.
            continue
    raise _without_rocm(environment, place)


def _without_rocm(environment: Environment, place: RocmPlace) -> UsageError:
    places = place.index_url or place.find_links
    named = (
        f"install them (`rocwright install-rocm --rocm-environment {environment.root} ...`) or name another"
    )
    return UsageError(
        f"no ROCm to build against: {environment.root} has no ROCm packages",
        where=environment.root,
        next_step="add --install-rocm to install them there"
        if places
        else named
        if place.directory is not None
        else "give --index-name, --index-url or --find-links, --rocm-environment, or --rocm-prefix",
    )


def own_root(work_dir: Path) -> Path:
    """The environment of ROCm's packages that belongs to the build."""
    return work_dir / "env" / "rocm"


def installed_rocm(
    place: RocmPlace, work_dir: Path, caller: Mapping[str, str], *, note: Callable[[str], None]
) -> Rocm:
    """ROCm's packages from the given places: in an environment of the build's own, or in the user's."""
    log = work_dir / "log" / "rocm.log"
    cache = Path(place.pip_cache_dir) if place.pip_cache_dir else None
    root = own_root(work_dir)
    # pip of a killed run goes on: it would write into the environment that it began, whoever works there now.
    with held(root.parent, f"{root.name}.lock", f"{root.name}.running", note):
        make: Callable[..., Rocm]
        if place.kind == "own":
            make = partial(rocm_environment, root)
        else:
            environment = place_environment(place, caller)
            note(f"installing ROCm into {environment.root}")
            make = partial(install_rocm, environment)
        return make(
            place.places,
            spec=place.spec,
            extras=place.extras,
            pre=place.pre,
            pip_cache_dir=cache,
            log=log,
            note=note,
        )
