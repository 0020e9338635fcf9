"""Decide how one project is built: everything a build will run and see, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.build.decide.environment import common_environment, project_environment
from rocwright.build.decide.recipe import RecipeTable
from rocwright.build.decide.rocm_init import preload_list, render_rocm_init
from rocwright.build.rocm.described import Rocm
from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.version import check_pattern, rocm_suffix, wheel_version


class BuildPlan(msgspec.Struct, frozen=True):
    """One build of one project for one Python: `argv` runs in `directory` with `env` over the caller's.

    The first word `python` of `argv` stands for the build environment's interpreter. `version` is empty where
    only the build knows it. Values may hold `${TRITON_VERSION}`, `${TORCH_VERSION}`: versions of wheels that
    come earlier in the same run, filled in as soon as they are built.

    `requirements` and those of `requirements_files` (below `directory`; absent ones are skipped) are installed
    first, `uninstalled` is taken out of the environment after that. `removed` (paths below `directory`) go
    before the build. `generated` maps paths below the directory to text, `copied` to files elsewhere; both are
    there for the time of the build only. `pins` are requirements that the wheel has to state, whatever its
    project wrote. `install` puts the wheel into the build environment, because later builds need it.
    """

    project: str
    directory: str
    version: str
    argv: tuple[str, ...]
    env: dict[str, str]
    platform: str = "linux"
    python: str = ""
    import_name: str = ""
    requirements: tuple[str, ...] = ()
    requirements_files: tuple[str, ...] = ()
    uninstalled: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    generated: dict[str, str] = {}
    copied: dict[str, str] = {}
    pins: tuple[str, ...] = ()
    install: bool = False
    editable: bool = False
    split: bool = False


def plan_build(
    project: str,
    directory: Path,
    *,
    table: RecipeTable,
    rocm: Rocm,
    targets: Sequence[str],
    built: Mapping[str, str],
    caller: Mapping[str, str],
    jobs: int,
    release_type: str = "release",
    version_suffix: str | None = None,
    commit: str | None = None,
    source_date: int | None = None,
    include: Sequence[str] = (),
) -> BuildPlan:
    """Plan the build of the project checked out in `directory`.

    `built` maps projects of this run to their wheel versions: torch pins triton, the others pin torch.
    `source_date` (seconds since 1970) dates what the build writes, so that equal sources give equal wheels;
    `include` are further directories of headers.
    """
    recipe = table.get(project)
    suffix = version_suffix or rocm_suffix(rocm.version)
    version = ""
    if recipe.version_env:
        version = wheel_version(
            _base_version(directory / recipe.version_file), suffix, release_type=release_type, commit=commit
        )
    pins = [f"rocm[libraries]=={rocm.version}"]
    if "triton" in built:
        pins.append(f"triton=={built['triton']}")
    env = common_environment(rocm, targets, caller=caller, jobs=jobs, include=include)
    env |= project_environment(recipe, table, version=version, number="1", targets=targets, requirements=pins)
    if source_date is not None:
        env.setdefault("SOURCE_DATE_EPOCH", str(source_date))
    generated: dict[str, str] = {}
    if project == "torch":
        names = preload_list(table.preload["linux"], rocm.libraries)
        generated["torch/_rocm_init.py"] = render_rocm_init(names, check_pattern(rocm.version, release_type))
    if project == "triton":
        # What the checkout wrote for a commit from a pin: an empty suffix, to which ours is added.
        pinned = _build_env(directory / "build_env.json")
        env |= pinned
        env["TRITON_WHEEL_VERSION_SUFFIX"] = pinned.get("TRITON_WHEEL_VERSION_SUFFIX", "") + suffix
    return BuildPlan(
        project=project,
        directory=str(directory),
        version=version,
        argv=("python", "setup.py", "bdist_wheel"),
        env=env,
        requirements_files=(recipe.requirements,) if recipe.requirements else (),
        generated=generated,
        install=recipe.install,
    )


def _base_version(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{path.name} is missing, so the version of the wheel is unknown",
            where=path,
            next_step="check the project out with `rocwright checkout`",
        ) from error


def _build_env(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise InvalidData(f"{path.name} is no table of variables: {error}", where=path) from error
