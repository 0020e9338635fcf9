"""What is particular to each project's build, as data."""

from __future__ import annotations

import msgspec

from rocwright.data import load_table
from rocwright.errors import UsageError


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row: how a project takes its version, what it is built after, its own variables."""

    project: str
    version_file: str
    version_env: str
    number_env: str = ""
    after: tuple[str, ...] = ()
    install: bool = False
    requirements: str = ""
    env: dict[str, str] = {}


class FlashAttention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Target prefixes that aotriton's flash attention is built for."""

    targets: tuple[str, ...]


class RecipeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table `data/recipes.toml`."""

    preload: dict[str, tuple[str, ...]]
    flash_attention: FlashAttention
    recipe: tuple[Recipe, ...]

    def get(self, project: str) -> Recipe:
        """The recipe of a project; raises `UsageError` listing the known ones."""
        for row in self.recipe:
            if row.project == project:
                return row
        known = ", ".join(row.project for row in self.recipe)
        raise UsageError(f"no recipe for {project!r}", next_step=f"known projects: {known}")


def recipes() -> RecipeTable:
    """The built-in table."""
    return load_table("recipes", RecipeTable)
