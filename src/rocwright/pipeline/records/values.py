"""What the machines of a run tell each other: records of cells in the store. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.data.overlay import Overlay
from rocwright.model.plan import Cell
from rocwright.store.objects.protocol import ObjectStore

SCHEMA = 1
# Stands for the directory of the run on whichever machine reads a record.
WORK = "${work}"
State = Literal["done", "skipped", "failed", "dry"]
# What a step that needs it is given besides results: how the cells ended that its own needs (`Ended`).
ENDED = "ended"


class CellOutput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that a cell left: where it lies below the run's directory, and its object in the store.

    A directory is packed (`tree`): `size` and `sha256` are those of the object.
    """

    path: str
    key: str
    sha256: str
    size: int
    tree: bool = False


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a cell ended. `inputs` is the digest of all that decided its result, `value` its step's result.

    Paths in `value` begin with `WORK`. `wall_s` and `by` are for people; `why` says why nothing was done.
    """

    schema: int
    cell: str
    inputs: str
    state: State
    value: msgspec.Raw
    outputs: tuple[CellOutput, ...]
    summary: str
    wall_s: float
    by: str
    why: str = ""


class NeedEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one cell ended; `missing`: nobody has done it, `blocked`: left out because of another one's end."""

    state: Literal["done", "skipped", "failed", "dry", "missing", "blocked"]
    summary: str = ""
    why: str = ""


class Ended(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the needed cells ended, by id: for what also runs when some of them failed."""

    cells: dict[str, NeedEnd]


class LeftOut(Exception):
    """Raised by a step that has nothing to work on, with the reason: its cell is then left out."""


@dataclass(frozen=True)
class Machine:
    """Where cells run: the store between machines, its address, a directory of the run, a cache.

    `jobs` are steps and compilers at once; with `dry_run` nothing is written outside of `work`. `overlay` is
    what a rocwright.toml adds to the tables.
    """

    store: ObjectStore
    address: str
    work: Path
    cache: Path
    jobs: int
    dry_run: bool = False
    overlay: Overlay | None = None


def place_of(cell: Cell) -> str:
    """Where a cell works below `Machine.work`: its id without the kind; cells of one place take turns."""
    return cell.id.partition("/")[2] or "run"
