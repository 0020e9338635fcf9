"""Decide how one project is built for one Python: everything a build will run and see."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath, PurePosixPath, PureWindowsPath

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rocwright.builder.decide.environment import (
    common_environment,
    fence,
    joined_suffix,
    planned_version,
    project_suffix,
    suffix_of_torch,
    sysdeps_environment,
    torch_for_cmake,
    version_check,
)
from rocwright.builder.decide.extension import contradicted, in_force
from rocwright.builder.decide.plan import BuildPlan, BuildRequest, version_of
from rocwright.builder.decide.recipe import Recipe, RecipeTable
from rocwright.builder.decide.tree import SourceFacts
from rocwright.builder.rocm.rocm import Rocm
from rocwright.builder.units.launch import PART, PART_ROOT
from rocwright.errors import UsageError
from rocwright.model.project import TORCH

_SCIKIT_BUILD = "scikit_build_core.build"


class Circumstances(msgspec.Struct, frozen=True):
    """What the builds of one run share.

    `building` are the projects of the run in order, `wheel_names` the names their wheels get, `shared` the
    variables that every project gets because another one's directory is known, `needed` requirements of every
    build, `torch` the version of torch that these builds are made against, as far as it is known.
    """

    wanted: BuildRequest
    rocm: Rocm
    table: RecipeTable
    building: tuple[str, ...]
    wheel_names: dict[str, str]
    caller: Mapping[str, str]
    jobs: int
    flash_attention: bool = False
    shared: dict[str, str] = {}
    launchers: Mapping[str, str] = {}
    include: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    torch: str = ""

    @property
    def given(self) -> frozenset[str]:
        """Wheels of this run and of others, by name: nothing may bring another version of them."""
        return frozenset(canonicalize_name(self.wheel_names[name]) for name in self.building)

    @property
    def windows(self) -> bool:
        """Whether the plan is for Windows, wherever it is made."""
        return self.wanted.platform == "windows"


def plan_project(
    recipe: Recipe, tree: SourceFacts, python: str, *, first: bool, run: Circumstances
) -> BuildPlan:
    """Plan the build of one project for one Python; `first` is the first Python of this tree."""
    wanted = run.wanted
    editable = recipe.project in wanted.editable
    if recipe.local_version:
        suffix = suffix_of_torch(wanted, run.rocm, tree, run.torch)
    else:
        suffix = project_suffix(wanted, run.rocm, tree, recipe.project)
    _require_this_torch(recipe, tree, run)
    told, version = planned_version(recipe, tree, wanted, suffix)
    pins = _pins(recipe, run)
    asked = [*tree.requires, *recipe.requirements, *_for_python(run.needed, python)]
    requirements = build_requirements(run.table.tools, without(asked, run.given))
    uninstalled = recipe.uninstalled_windows if run.windows else ()
    generated = _generated(recipe, run)
    copied = _copied(recipe, run)
    return BuildPlan(
        project=recipe.project,
        directory=_directory(tree, run),
        version=version,
        argv=_command(
            recipe, tree, run, editable=editable, included=[*generated, *copied], lax=bool(uninstalled)
        ),
        env=_environment(recipe, tree, run, version=told, suffix=suffix, pins=pins),
        platform=wanted.platform,
        python=python,
        # Of what stands on torch only its wheel tells it, unless its row does.
        import_name=recipe.import_name if recipe.local_version else recipe.module,
        requirements=requirements,
        requirements_files=tree.requirements_files,
        uninstalled=uninstalled,
        removed=_removed(recipe, wanted, first=first),
        generated=generated,
        copied=copied,
        pins=() if editable else pins,
        install=recipe.install and not editable,
        editable=editable,
        split=wanted.split and recipe.device_code and not editable,
        tree=tree.directory,
        wheel_name=run.wheel_names[recipe.project],
        per_python=recipe.per_python,
        programs=_programs(recipe, tree, requirements, uninstalled),
        local=suffix if recipe.local_version else "",
        fenced=recipe.project in wanted.fenced,
        plain_compilers=recipe.plain_compilers,
        shown=canonicalize_name(recipe.project) in wanted.shown and not editable,
    )


def _require_this_torch(recipe: Recipe, tree: SourceFacts, run: Circumstances) -> None:
    """Raise `UsageError` where what stands on the torch of this run wants to be built with another."""
    if not (recipe.local_version and run.torch and TORCH in run.wanted.sources):
        return
    # The local part may not be known yet.
    versions = {TORCH: run.torch.partition("+")[0]}
    for what, next_step in contradicted(
        recipe.project, (text for text in tree.requires if "+" not in text), versions
    ):
        raise UsageError(what, where=tree.directory, next_step=next_step)


def _directory(tree: SourceFacts, run: Circumstances) -> str:
    if tree.setup == ".":
        return tree.directory
    return str((PureWindowsPath if run.windows else PurePosixPath)(tree.directory) / tree.setup)


def _removed(recipe: Recipe, wanted: BuildRequest, *, first: bool) -> tuple[str, ...]:
    """What an earlier build left: its objects when asked, once for all Pythons."""
    if first:
        return ("build",) if wanted.clean else ()
    return recipe.per_python


def _programs(
    recipe: Recipe, tree: SourceFacts, requirements: tuple[str, ...], uninstalled: tuple[str, ...]
) -> tuple[str, ...]:
    """What a CMake project needs that no requirement brings."""
    if not tree.cmake or (recipe.local_version and not recipe.finds_torch):
        # Of projects that stand on torch many have a CMakeLists.txt for others, and build without it.
        return ()
    brought = names(requirements) - set(uninstalled)
    return tuple(name for name in ("cmake", "ninja") if name not in brought)


def _pins(recipe: Recipe, run: Circumstances) -> tuple[str, ...]:
    """Exact versions of what the wheel was built with; a plain prefix is no package to require."""
    pins = [f"rocm[libraries]=={run.rocm.version}"] if recipe.pin_rocm and run.rocm.origin != "prefix" else []
    built = [name for name in recipe.pins if name in run.building and name not in run.wanted.editable]
    return (*pins, *(f"{run.wheel_names[name]}=={version_of(name)}" for name in built))


def _command(
    recipe: Recipe, tree: SourceFacts, run: Circumstances, *, editable: bool, included: list[str], lax: bool
) -> tuple[str, ...]:
    # The backend takes what git does not ignore; these files are no part of the checkout.
    settings = [f"wheel.force-include.{path}={path}" for path in included]
    options = [f"--build-option={word}" for word in recipe.options]
    given = [f"-C{text}" for text in (settings if tree.backend.startswith(_SCIKIT_BUILD) else options)]
    if editable:
        return ("python", "-m", "pip", "install", "--no-build-isolation", "--no-deps", *given, "-e", ".")
    # A later version may have become a pyproject.toml without setup.py.
    if recipe.how_on(run.wanted.platform) == "setup.py" and tree.has_setup:
        return ("python", "setup.py", "bdist_wheel", *recipe.options)
    check = ["--skip-dependency-check"] if lax else []
    return ("python", "-m", "build", "--wheel", "--no-isolation", *check, *given)


def _environment(
    recipe: Recipe, tree: SourceFacts, run: Circumstances, *, version: str, suffix: str, pins: tuple[str, ...]
) -> dict[str, str]:
    wanted = run.wanted
    env = common_environment(run.rocm, wanted, caller=run.caller, jobs=run.jobs, include=run.include)
    env |= run.launchers
    env |= run.shared
    if recipe.sysdeps and not run.windows:
        env |= sysdeps_environment(run.rocm, env, run.caller)
    env |= recipe.environment(wanted.platform)
    env |= {name: between.join(wanted.targets) for name, between in recipe.targets_env.items()}
    if recipe.finds_torch:
        env |= torch_for_cmake(env, run.caller, windows=run.windows)
    if recipe.project in wanted.fenced:
        env |= fence()
    named = {
        recipe.version_env: version,
        recipe.version_env_too: version,
        recipe.number_env: str(wanted.build_number),
        recipe.name_env: run.wheel_names[recipe.project],
        recipe.requirements_env: "|".join(pins),
    }
    env |= {name: value for name, value in named.items() if name and value}
    if recipe.suffix_env:
        env[recipe.suffix_env] = joined_suffix(tree.build_env.get(recipe.suffix_env, ""), suffix)
    if recipe.torch_version_env and "torch" in run.building and "torch" not in wanted.editable:
        env[recipe.torch_version_env] = version_of("torch")
    if recipe.flash_attention:
        value = "1" if run.flash_attention else "0"
        env |= {"USE_FLASH_ATTENTION": value, "USE_MEM_EFF_ATTENTION": value}
    if run.windows and tree.llvm_hash:
        env |= windows_llvm(tree, run.caller)
    if wanted.part:
        env |= {PART: ";".join(wanted.part), PART_ROOT: tree.directory}
    if date := run.caller.get("SOURCE_DATE_EPOCH") or tree.source_date:
        env["SOURCE_DATE_EPOCH"] = str(date)
    return env


def windows_llvm(tree: SourceFacts, caller: Mapping[str, str]) -> dict[str, str]:
    """Triton's own LLVM on Windows: the caller's `LLVM_SYSPATH`, else unpacked inside the tree."""
    folder = f"llvm-{tree.llvm_hash}-windows-x64"
    root: PurePath = PureWindowsPath(caller.get("LLVM_SYSPATH") or PureWindowsPath(tree.directory) / folder)
    return {
        "LLVM_SYSPATH": str(root),
        "LLVM_BUILD_DIR": str(root),
        "LLVM_INCLUDE_DIRS": str(root / "include"),
        "LLVM_LIBRARY_DIR": str(root / "lib"),
    }


def _generated(recipe: Recipe, run: Circumstances) -> dict[str, str]:
    """The module through which the wheel finds ROCm's packages; a plain prefix is found by the system."""
    if not recipe.rocm_init or run.rocm.origin == "prefix":
        return {}
    wanted = run.table.preload[run.wanted.platform]
    # Without a ROCm at hand nothing is known to be missing.
    known = wanted if run.rocm.origin == "unknown" else run.rocm.libraries
    check = version_check(run.rocm, run.wanted.release_type)
    return {recipe.rocm_init: render_rocm_init(preload_list(wanted, known), check)}


def _copied(recipe: Recipe, run: Circumstances) -> dict[str, str]:
    """Files of the caller's tool chain; a variable that he did not set stays visible."""
    if not run.windows:
        return {}

    def value(match: re.Match[str]) -> str:
        return (run.caller.get(match[1]) or match[0]).rstrip("\\/")

    filled = {to: re.sub(r"\$\{(\w+)\}", value, text) for to, text in recipe.copied_windows.items()}
    return {to: str(PureWindowsPath(text)) for to, text in filled.items()}


# -- what the environment of a build needs: pinned build tools and what the tree's pyproject.toml asks for


def build_requirements(tools: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    """The tools' pins, and what the tree asks for besides; builds run without isolation, so it must be there.

    Where both name a package, the pin stands if the tree accepts it, else the tree's own requirement.
    """
    pins = {canonicalize_name(Requirement(text).name): Requirement(text) for text in tools}
    refused: set[str] = set()
    others: list[str] = []
    for text in asked:
        wanted = Requirement(text)
        pin = pins.get(canonicalize_name(wanted.name))
        if pin is None:
            others.append(text)
        elif not _accepts(wanted, pin) or wanted.extras:
            refused.add(canonicalize_name(wanted.name))
            others.append(text)
    kept = [str(pin) for name, pin in pins.items() if name not in refused]
    return tuple(dict.fromkeys([*kept, *others]))


def _for_python(requirements: Sequence[str], python: str) -> Iterator[str]:
    """Those that are for this Python, which an installer need not be asked again."""
    for wanted in in_force(requirements, {"python_version": python.rstrip("t")}):
        wanted.marker = None
        yield str(wanted)


def without(requirements: Sequence[str], given: Collection[str]) -> list[str]:
    """The requirements that are not of what is given already."""
    return [text for text in requirements if canonicalize_name(Requirement(text).name) not in given]


def _accepts(wanted: Requirement, pin: Requirement) -> bool:
    version = next(iter(pin.specifier)).version
    return wanted.url is None and wanted.specifier.contains(version, prereleases=True)


def names(requirements: Sequence[str]) -> frozenset[str]:
    """The canonical names of requirements."""
    return frozenset(canonicalize_name(Requirement(text).name) for text in requirements)


# -- `torch/_rocm_init.py`: the module through which a framework wheel finds its ROCm


def preload_list(wanted: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """The wanted short names that the installed ROCm has, in order.

    A name that the ROCm at hand does not know would make `import torch` fail on every machine.
    """
    available = frozenset(known)
    return tuple(name for name in wanted if name in available)


def render_rocm_init(preload: Sequence[str], check_version: str) -> str:
    """The module's text: one function `initialize()`, importing `rocm_sdk` only when called."""
    names = "".join(f"            {name!r},\n" for name in preload)
    return (
        '"""Generated at build time: loads ROCm from its Python packages before any extension needs it."""\n'
        "\n\n"
        "def initialize():\n"
        "    import rocm_sdk\n"
        "\n"
        "    rocm_sdk.initialize_process(\n"
        f"        preload_shortnames=[\n{names}        ],\n"
        f"        check_version={check_version!r},\n"
        "    )\n"
    )
