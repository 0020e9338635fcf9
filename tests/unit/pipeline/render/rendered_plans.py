"""Plans for tests of renderers: small ones by hand, and random ones of any shape."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hypothesis import strategies as st

from rocwright.model.plan import SCHEMA, Cell, Plan, Publication, Rocm
from rocwright.pipeline.define.cells import make_jobs


def plan_of(*cells: Cell, run_id: str = "r1", sources: Literal["miniature", "upstream"] = "upstream") -> Plan:
    return Plan(
        schema=SCHEMA,
        profile="ci",
        run_id=run_id,
        sources=sources,
        rocm=Rocm(),
        publication=Publication(True, True),
        groups=(),
        cells=cells,
        jobs=make_jobs(cells),
    )


def cell(name: str, *needs: str, **more) -> Cell:
    """A step of Linux whose kind and job have the same name."""
    kind = name.partition("/")[0]
    return Cell(**{"id": name, "kind": kind, "job": kind, "platform": "linux", "needs": needs, **more})


@st.composite
def any_plan(draw) -> Plan:
    """Each cell needs some of those before it; some are left out, some run whatever happened."""
    cells: list[Cell] = []
    for number in range(draw(st.integers(1, 12))):
        needs = draw(st.lists(st.sampled_from(cells), unique_by=lambda one: one.id)) if cells else []
        cells.append(
            cell(
                f"step-{number}/linux/gfx90a+gfx942",
                *(need.id for need in needs),
                skip=draw(st.sampled_from(["", "", "", "no runner"])) if number else "",
                last=draw(st.booleans()),
                group=f"g{number}",
            )
        )
    return plan_of(*cells)


def waits_for(plan: Plan, id_: str) -> set[str]:
    """What a cell needs, found by walking: through those that are left out to what these need."""
    by_id = {one.id: one for one in plan.cells}
    found: set[str] = set()
    walk = list(by_id[id_].needs)
    while walk:
        need = by_id[walk.pop()]
        if need.skip:
            walk += need.needs
        else:
            found.add(need.id)
    return found


def written(files, root: Path) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root
