"""What is particular to each project's build, as data."""

from __future__ import annotations

import re
from graphlib import CycleError
from pathlib import PureWindowsPath
from typing import Literal

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.engine.graph import in_order
from rocwright.errors import InvalidData, UsageError
from rocwright.model.build_env import variable_problem
from rocwright.model.platforms import PLATFORMS

Backend = Literal["setup.py", "build"]


_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)
_OPTION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def _require_requirement(text: str) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement, such as numpy or numpy>=2") from error


def _require_below(field: str, path: str) -> None:
    """What a build writes and removes lies in its own tree."""
    parts = PureWindowsPath(path).parts
    if not parts or PureWindowsPath(path).anchor or ".." in parts:
        raise ValueError(f"{field} has {path!r}, which is not a path below the checkout")


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of `data/recipes.toml`; the file's head explains the fields."""

    project: str
    option: str = ""
    switch: bool = True
    import_name: str = ""
    platforms: tuple[str, ...] = PLATFORMS
    opt_in: tuple[str, ...] = ()
    how: Backend = "build"
    how_windows: Backend | None = None
    setup: tuple[str, ...] = ("setup.py",)
    options: tuple[str, ...] = ()
    version_file: str = ""
    version_env: str = ""
    version_env_too: str = ""
    number_env: str = ""
    number_suffix: str = ""
    suffix_env: str = ""
    name_env: str = ""
    after: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    install: bool = False
    requirements: tuple[str, ...] = ()
    requirements_files: tuple[str, ...] = ()
    uninstalled_windows: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()
    pin_rocm: bool = False
    requirements_env: str = ""
    torch_version_env: str = ""
    rocm_init: str = ""
    sysdeps: bool = False
    flash_attention: bool = False
    per_python: tuple[str, ...] = ()
    plain_compilers: bool = False
    unit_memory: int = 1_000_000_000
    hours_per_target: float = 0.0
    device_code: bool = False
    local_version: bool = False
    finds_torch: bool = False
    targets_env: dict[str, str] = {}
    fetches: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_linux: dict[str, str] = {}
    env_windows: dict[str, str] = {}
    shared_env: dict[str, str] = {}
    copied_windows: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.project):
            raise ValueError(f"project {self.project!r} is not a distribution name")
        if self.option and not _OPTION.fullmatch(self.option):
            raise ValueError(f"option {self.option!r} is not the word of an option, such as pytorch-audio")
        for name, given in (("platforms", self.platforms), ("opt_in", self.opt_in)):
            if unknown := [word for word in given if word not in PLATFORMS]:
                raise ValueError(f"{name} has {unknown[0]!r}; there are {', '.join(PLATFORMS)}")
        if stray := set(self.optional) - set(self.after):
            raise ValueError(f"optional has {min(stray)!r}, which is not in after")
        if stray := set(self.pins) - set(self.after):
            raise ValueError(f"pins has {min(stray)!r}, which is not in after")
        set_here = {**self.env, **self.env_linux, **self.env_windows, **self.shared_env}
        given_to = (
            self.version_env, self.version_env_too, self.number_env, self.suffix_env, self.name_env,
            self.requirements_env, self.torch_version_env, *self.targets_env,
        )  # fmt: skip
        for name in (*set_here, *filter(None, given_to)):
            if why := variable_problem(name, set_here.get(name, ""), own=True):
                raise ValueError(f"the variable {name!r} {why}")
        if bool(self.version_env) != bool(self.version_file):
            raise ValueError("version_file and version_env go together")
        if self.local_version and self.version_env:
            raise ValueError("local_version is for projects that version_env does not tell their version")
        if not self.setup:
            raise ValueError("setup is empty; it says where setup.py may lie")
        for text in (*self.requirements, *self.uninstalled_windows):
            _require_requirement(text)
        for path in self.per_python:
            _require_below("per_python", path)
        for path in self.copied_windows:
            _require_below("copied_windows", path)
        if self.rocm_init:
            _require_below("rocm_init", self.rocm_init)
        if set(re.findall(r"\{number\}|[{}]", self.number_suffix)) - {"{number}"}:
            raise ValueError(f"number_suffix {self.number_suffix!r} has a brace that is not of {{number}}")

    @property
    def word(self) -> str:
        """What its options are called after: `pytorch-audio` in `--pytorch-audio-dir`."""
        return self.option or re.sub(r"[._]", "-", self.project.lower())

    @property
    def module(self) -> str:
        """What is imported to see that the wheel works."""
        return self.import_name or self.project.replace("-", "_")

    def how_on(self, platform: str) -> Backend:
        """What is run on `linux` or `windows`."""
        return (self.how_windows or self.how) if platform == "windows" else self.how

    def environment(self, platform: str) -> dict[str, str]:
        """The project's own settings on `linux` or `windows`."""
        return self.env | (self.env_windows if platform == "windows" else self.env_linux)


def cpu_time(hours: float) -> str:
    """An estimate of a time of CPU, for people."""
    if hours >= 1:
        return f"about {hours:.1f} CPU hours"
    minutes = round(hours * 60)
    return f"about {minutes} CPU minute{'s' * (minutes != 1)}" if minutes else "less than a CPU minute"


class FlashAttention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Target prefixes that aotriton's flash attention is built for."""

    targets: tuple[str, ...]


class RecipeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table `data/recipes.toml`; `recipe` in build order, each project once."""

    preload: dict[str, tuple[str, ...]]
    flash_attention: FlashAttention
    recipe: tuple[Recipe, ...]
    tools: tuple[str, ...] = ()
    many_targets: int = 4
    hip_launcher_since: str = ""

    def __post_init__(self) -> None:
        for text in self.tools:
            operators = [part.operator for part in _require_requirement(text).specifier]
            if operators != ["=="]:
                raise ValueError(f"tools has {text!r}, which is not pinned: write {text}==1.2.3 for example")

    def get(self, project: str) -> Recipe:
        """The recipe of a project; raises `UsageError` listing the known ones."""
        for row in self.recipe:
            if row.project == project:
                return row
        known = ", ".join(row.project for row in self.recipe)
        raise UsageError(f"no recipe for {project!r}", next_step=f"known projects: {known}")


def recipes() -> RecipeTable:
    """The built-in table."""
    return load_recipes(None)


def load_recipes(overlay: Overlay | None) -> RecipeTable:
    """The built-in table with the rows of a user's `rocwright.toml` in it, sorted into build order.

    A row for a project that has a built-in one takes its place; options of the command line stay as they are
    called. Raises `InvalidData` naming file and field.
    """
    table = load_table("recipes", RecipeTable, overlay)
    where = "data/recipes.toml" if overlay is None else overlay.where
    rows = {row.project: row for row in table.recipe}
    if overlay is not None:
        for own in recipes().recipe:
            named = msgspec.structs.replace(rows[own.project], option=own.option, switch=own.switch)
            rows[own.project] = named
    return msgspec.structs.replace(table, recipe=_in_build_order(rows, where))


def _in_build_order(rows: dict[str, Recipe], where: str) -> tuple[Recipe, ...]:
    """Each row behind those it is built after; otherwise as they stand."""
    for row in rows.values():
        for name in row.after:
            if name not in rows:
                raise InvalidData(
                    f"{where}: the recipe of {row.project} is built after {name!r}, which has no recipe",
                    where=where,
                    next_step=f"add [[recipes.recipe]] for {name}, or take it out of `after`",
                )
    try:
        return tuple(rows[name] for name in in_order({row.project: row.after for row in rows.values()}))
    except CycleError as error:
        circle = set(error.args[1])
        names = ", ".join(name for name in rows if name in circle)
        raise InvalidData(
            f"{where}: no build order, since these are built after one another: {names}",
            where=where,
            next_step="take a project out of one `after`",
        ) from None
