"""As a program: digests of what decides each cell of some plans, on a machine with directories of its own.

The argument is the directory of that machine.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from rocwright.model.plan import Cell, Choice, Publication, Rocm
from rocwright.pipeline.cells.inputs import inputs_digest, portable
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.records import SCHEMA, Machine, Record
from rocwright.pipeline.steps.of_cell import steps_of
from rocwright.store.objects.local import LocalStore

_CHOICES = {
    "plain": {},
    "parts": {"split": True, "device_groups": 2},
    "packages": {"rocm": Rocm("packages", "123")},
    "artifacts": {"rocm": Rocm("artifacts", "123", "someone/TheRock")},
    "gpu": {"sources": "upstream", "families": ("gfx94X-dcgpu",), "platforms": ("linux",)},
    "emulated": {
        "profile": "emulated",
        "sources": "upstream",
        "families": ("gfx94X-dcgpu",),
        "platforms": ("linux",),
    },
}


def _record(cell: Cell, machine: Machine) -> Record:
    """As if the cell had been done, on whichever machine."""
    value = portable({"path": str(machine.work / "x"), "cell": cell.id}, machine)
    raw = msgspec.Raw(msgspec.json.encode(value))
    return Record(SCHEMA, cell.id, "0" * 64, "done", raw, (), "", 1.0, "somebody")


def digests(root: Path) -> dict[str, str]:
    """By plan and cell."""
    store = LocalStore(root / "store")
    machine = Machine(store, str(store.root), root / "work", root / "cache", jobs=len(root.name))
    known_ = known(environment={})
    found: dict[str, str] = {}
    for name, asked in _CHOICES.items():
        pythons = ("{}.{}".format(*sys.version_info[:2]),)
        choice = msgspec.structs.replace(Choice("ci", "7", pythons=pythons), **asked)
        plan = make_plan(
            profiles().named(choice.profile), choice, known_, Publication(upload=True, channels=True)
        )
        for cell in plan.cells:
            needs = {id_: _record(plan.cell(id_), machine) for id_ in cell.needs}
            steps = steps_of(cell, plan, machine)
            found[f"{name} {cell.id}"] = inputs_digest(cell, plan, steps, needs, machine)
    return found


if __name__ == "__main__":
    print(msgspec.json.encode(digests(Path(sys.argv[1]))).decode())
