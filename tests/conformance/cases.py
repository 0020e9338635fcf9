"""Which function looks at which row. A case gets the world and its row; it fails by an assertion."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.table import Row
    from conformance.world import World

Case = Callable[["World", "Row"], None]
CASES: dict[str, Case] = {}


def row(*ids: str) -> Callable[[Case], Case]:
    """Register a case for these rows of the table."""

    def registered(case: Case) -> Case:
        for id_ in ids:
            assert id_ not in CASES, f"{id_} has two cases: {where(CASES[id_])} and {where(case)}"
            CASES[id_] = case
        return case

    return registered


def loaded() -> Mapping[str, Case]:
    """All cases, by row: those of every module of scenes."""
    from conformance import scenes

    for module in pkgutil.iter_modules(scenes.__path__, "conformance.scenes."):
        importlib.import_module(module.name)
    return CASES


def where(case: Case) -> str:
    """Module and name of a case, as the documentation gives them."""
    return f"{case.__module__.removeprefix('conformance.scenes.')}.{case.__name__}"
