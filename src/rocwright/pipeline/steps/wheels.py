"""What steps tell each other of wheels: which a step was given, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from rocwright.builder.run.project import BuiltWheel
from rocwright.engine.graph import Inputs
from rocwright.sdk.build import BuiltPackages


class Wheels(msgspec.Struct, frozen=True):
    """Wheels of the family as a step left them, all that take the place of those it was given."""

    paths: tuple[str, ...]


def family_wheels(inputs: Inputs) -> list[Path]:
    """The wheels among what a step was given, those split off included; after a split only the split ones."""
    found: list[Path] = []
    for value in inputs.values.values():
        if isinstance(value, Wheels):
            found += map(Path, value.paths)
        elif isinstance(value, BuiltWheel):
            found += map(Path, (value.path, *value.device))
    return found


def built_wheels(inputs: Inputs) -> dict[str, BuiltWheel]:
    """The builds among what a step was given, by project."""
    values = inputs.values.values()
    return {value.project: value for value in values if isinstance(value, BuiltWheel)}


def files_of_set(inputs: Inputs) -> list[Path]:
    """Every file of the run's set, ROCm's packages before the family's wheels."""
    return [*inputs.get("rocm-packages", BuiltPackages).paths, *family_wheels(inputs)]


def wheel_paths(value: BuiltWheel | Wheels) -> tuple[Path, ...]:
    """Where the wheels of a result lie."""
    paths: Iterable[str] = value.paths if isinstance(value, Wheels) else (value.path, *value.device)
    return tuple(map(Path, paths))
