"""Find the ROCm that a place names, or bring it there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from rocwright.builder.rocm.ask import describe_rocm
from rocwright.builder.rocm.install import install_rocm
from rocwright.builder.rocm.origins import find_environment
from rocwright.builder.rocm.own import rocm_environment
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.rocm.prefix import describe_prefix
from rocwright.builder.rocm.rocm import Rocm
from rocwright.errors import InvalidPrefix, UsageError
from rocwright.system.venv import Environment, installed


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
        else "give --index-url or --find-links, --rocm-environment, or --rocm-prefix",
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
    if place.kind == "own":
        return rocm_environment(
            own_root(work_dir),
            place.places,
            spec=place.spec,
            extras=place.extras,
            pre=place.pre,
            pip_cache_dir=cache,
            log=log,
            note=note,
        )
    environment = place_environment(place, caller)
    note(f"installing ROCm into {environment.root}")
    return install_rocm(
        environment,
        place.places,
        spec=place.spec,
        extras=place.extras,
        pre=place.pre,
        pip_cache_dir=cache,
        log=log,
        note=note,
    )
