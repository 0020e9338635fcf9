"""The table `data/reversion.toml`: where a version of ROCm stands."""

from __future__ import annotations

import functools

import msgspec

from rocwright.data import load_table
from rocwright.model.patterns import fits


class ReversionTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of ROCm's own projects; patterns over paths in a wheel, or below the root of an sdist."""

    own: tuple[str, ...]
    python: tuple[str, ...]
    json: tuple[str, ...]
    headers: tuple[str, ...]
    requirements: tuple[str, ...]

    def is_own(self, project: str) -> bool:
        """Whether a project (normalised name) has the version of ROCm itself."""
        return fits(project, self.own)


@functools.cache
def reversion_table() -> ReversionTable:
    """The built-in table."""
    return load_table("reversion", ReversionTable)
