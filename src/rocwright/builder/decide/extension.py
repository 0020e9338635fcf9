"""What is particular to the build of a project that stands on torch, as data, and its recipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from graphlib import CycleError
from types import MappingProxyType
from typing import Literal

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rocwright.builder.decide.recipe import Recipe, RecipeTable
from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.engine.graph import in_order
from rocwright.errors import InvalidData
from rocwright.model.edits import Edit
from rocwright.model.platforms import PLATFORMS
from rocwright.model.project import TORCH

# How a build switches HIP on: torch's own BuildExtension, CMake run by a setup.py, scikit-build-core.
Kind = Literal["torch", "cmake", "scikit-build-core"]
# built: whole, here; sampled: some of its device sources were compiled; refused; untried: only read.
State = Literal["built", "sampled", "refused", "untried"]

# For projects that look for a GPU before they build device code; all else torch's BuildExtension reads.
_OF_KIND: dict[str, dict[str, str]] = {"torch": {"FORCE_CUDA": "1"}}
_NOTHING: Mapping[str, Collection[str]] = MappingProxyType({})
_HERE: Mapping[str, str] = MappingProxyType({})


class Extension(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of `data/extensions.toml`; the file's head explains the fields."""

    project: str
    import_name: str = ""
    platforms: tuple[str, ...] = PLATFORMS
    options: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    unit_memory: int = 2_000_000_000
    hours_per_target: float = 0.0
    device_code: bool = True
    kind: Kind | None = None
    env: dict[str, str] = {}
    targets_env: dict[str, str] = {}
    needs: tuple[str, ...] = ()
    state: State = "untried"
    version: str = ""
    date: str = ""
    source: str = ""
    found: str = ""
    refused: str = ""
    fetches: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.project, *self.needs):
            if name != canonicalize_name(name):
                raise ValueError(f"{name!r} is written {canonicalize_name(name)!r} here, as an index does")
        if self.project == TORCH:
            raise ValueError("torch is what extensions stand on; it has a recipe")
        if TORCH in self.needs:
            raise ValueError(f"needs of {self.project} has torch, which every extension needs")
        if bool(self.refused) != (self.state == "refused"):
            raise ValueError(f"{self.project}: refused says why, where state is refused, and only there")
        if self.state != "untried" and not (self.version and self.date and self.source):
            raise ValueError(f"{self.project}: {self.state} needs version, date and source")
        if self.date:
            try:
                date.fromisoformat(self.date)
            except ValueError as error:
                raise ValueError(f"{self.project}: date {self.date!r} is not a day, 2026-11-27") from error
        # What a recipe refuses is refused here, too: a variable that no build may set, for example.
        self.recipe()

    def recipe(self, kind: Kind | None = None, *, device_code: bool = True) -> Recipe:
        """How it is built: after torch and what it needs, and for exactly this torch.

        `kind` and `device_code` are what its sources say, where the row says nothing.
        """
        kind = self.kind or kind
        own = _OF_KIND.get(kind, {}) if kind else {}
        return Recipe(
            project=self.project,
            switch=False,
            import_name=self.import_name,
            platforms=self.platforms,
            options=self.options,
            after=(TORCH, *self.needs),
            # Needed where its wheel runs, and there as of another run, perhaps.
            optional=self.needs,
            requirements=(*(("ninja",) if kind == "torch" else ()), *self.requirements),
            pins=(TORCH,),
            plain_compilers=kind == "torch",
            unit_memory=self.unit_memory,
            hours_per_target=self.hours_per_target,
            device_code=self.device_code and device_code,
            local_version=True,
            finds_torch=kind in ("cmake", "scikit-build-core"),
            targets_env=self.targets_env,
            env=own | self.env,
        )


class ExtensionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table `data/extensions.toml`, each project once."""

    extension: tuple[Extension, ...]

    def get(self, project: str) -> Extension:
        """The row of a project; one with the defaults where there is none."""
        name = canonicalize_name(project)
        return next((row for row in self.extension if row.project == name), Extension(name))

    def needs(self, project: str) -> tuple[str, ...]:
        """What a project needs, and what that needs in turn, each once."""
        found: dict[str, None] = {}
        pending = list(self.get(project).needs)
        while pending:
            name = pending.pop(0)
            if name not in found and name != project:
                found[name] = None
                pending += self.get(name).needs
        return tuple(found)

    def in_order(
        self, projects: Iterable[str], after: Mapping[str, Collection[str]] = _NOTHING
    ) -> tuple[str, ...]:
        """Projects, each behind those of them that it needs, or that `after` says of it.

        Raises `InvalidData` for a circle.
        """
        wanted: tuple[str, ...] = tuple(dict.fromkeys(map(canonicalize_name, projects)))
        needs: dict[str, Collection[str]] = {
            name: {*self.needs(name), *after.get(name, ())}.intersection(wanted) for name in wanted
        }
        try:
            return tuple(in_order(needs))
        except CycleError as error:
            circle = ", ".join(name for name in wanted if name in set(error.args[1]))
            raise InvalidData(
                f"no build order, since these extensions need one another: {circle}",
                next_step="take a project out of one `needs` in [[extensions.extension]], or out of what a "
                "build requires",
            ) from None


def load_extensions(overlay: Overlay | None) -> ExtensionTable:
    """The built-in table with the rows of a user's `rocwright.toml`, which take the place of built-in ones.

    Raises `InvalidData` naming file and field.
    """
    table = load_table("extensions", ExtensionTable, overlay)
    return ExtensionTable(tuple({row.project: row for row in table.extension}.values()))


def with_extensions(
    table: RecipeTable, extensions: ExtensionTable, found: Mapping[str, Recipe], *, family: Collection[str]
) -> RecipeTable:
    """The recipes of a run: those of `family` that it builds, and behind them those of extensions, in order.

    What has a recipe keeps it.
    """
    own = [row for row in table.recipe if row.project in family or row.project in found]
    known = {row.project for row in own}
    after = {name: row.after for name, row in found.items()}
    rows = [found[name] for name in extensions.in_order(found, after) if name not in known]
    return msgspec.structs.replace(table, recipe=(*own, *rows))


def in_force(requires: Iterable[str], environment: Mapping[str, str] = _HERE) -> Iterator[Requirement]:
    """What is required without extras, by this Python or in another environment."""
    for wanted in map(Requirement, requires):
        if wanted.marker is None or wanted.marker.evaluate({**environment, "extra": ""}):
            yield wanted


def contradicted(
    project: str, requires: Iterable[str], versions: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Requirements of a build that these versions do not meet: what is wrong, and what to do."""
    for wanted in in_force(requires):
        version = versions.get(canonicalize_name(wanted.name))
        if version is not None and not wanted.specifier.contains(version, prereleases=True):
            yield (
                f"{project}: its build requires {wanted}, and would be done against {wanted.name} {version}",
                f"give another {wanted.name}, or a version of {project} that is for this one",
            )
