"""The rows of the documents that rocwright works by, how each is covered, and which case looks at it.

A case gets the world and its row; it fails by an assertion.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.world import World

TABLE = Path(__file__).with_name("table.tsv")
HEAD = ("id", "seed", "item", "expectation", "how", "why")
# In the order in which they are counted.
KINDS = {
    "run": "the command was run: on the miniature family, local stores, or a real torch for the CPU",
    "checked": "a file, layout, variable, name or behaviour was looked at",
    "rendered": "a row of documentation or of the compatibility page",
    "explained": "needs what is not here: its plan or argument vector was compared",
}


@dataclass(frozen=True)
class Row:
    """One line of the table; `seed` names the documents (S0 to S4), `why` is said of what is not run."""

    id: str
    seed: str
    item: str
    expectation: str
    how: str
    why: str


def rows() -> list[Row]:
    """All rows, in the order of the table. Cells with a quote in them are quoted as in CSV."""
    head, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    assert tuple(head.split("\t")) == HEAD
    return [Row(*(_plain(cell) for cell in line.split("\t"))) for line in lines]


def _plain(cell: str) -> str:
    quoted = len(cell) > 1 and cell[0] == cell[-1] == '"'
    return cell[1:-1].replace('""', '"') if quoted else cell


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
