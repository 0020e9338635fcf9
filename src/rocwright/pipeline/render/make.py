"""A plan as a Makefile: a target for each cell, for machines where make is all there is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from rocwright.model.plan import Plan
from rocwright.pipeline.render.units import PLAN_FILE, Unit, plan_text, units

MAKEFILE = "Makefile"


def render_make(plan: Plan) -> dict[PurePosixPath, str]:
    """Text by path: `plan.json`, `Makefile`. Raises `UsageError` as `units`."""
    all_units = units(plan, "cell")
    return {
        PurePosixPath(PLAN_FILE): plan_text(plan),
        PurePosixPath(MAKEFILE): "\n".join(_makefile(plan, all_units)) + "\n",
    }


def _makefile(plan: Plan, all_units: tuple[Unit, ...]) -> Iterator[str]:
    needed = {need for unit in all_units for need in unit.needs}
    # What tells how a run ended is no file that could be up to date.
    telling = [unit for unit in all_units if unit.last and unit.id not in needed]
    made = [unit for unit in all_units if unit not in telling]
    yield from _HEAD.format(run=_literal(plan.run_id), plan=PLAN_FILE).splitlines()
    yield "CELLS := \\"
    yield from (f"  {unit.id} \\" for unit in made)
    yield ""
    yield from _ALL.splitlines()
    yield from _telling(telling)
    yield ""
    yield ".PHONY: cells $(CELLS)"
    yield "cells: $(CELLS)"
    yield "$(CELLS): %: done/%"
    for unit in made:
        yield ""
        yield " ".join([f"done/{unit.id}:", *(f"done/{need}" for need in unit.needs)])
        yield f"\t$(STEP) {shlex.quote(unit.id)}"
        yield "\t@mkdir -p $(@D) && touch $@"


def _literal(text: str) -> str:
    return text.replace("$", "$$").replace("#", r"\#")


def _telling(telling: list[Unit]) -> Iterator[str]:
    steps = "; ".join(f"$(STEP) {shlex.quote(unit.id)} || status=1" for unit in telling)
    yield (
        "\t@status=0; $(MAKE) --no-print-directory --keep-going cells || status=1; "
        + (f"{steps}; " if steps else "")
        + "exit $$status"
    )


_HEAD = """\
# Rendered by `rocwright pipeline render --to make`; change the plan, not this.
#   make -j4            every cell, those first that others need; what is done is not done again
#   make build-torch/…  one cell, with what it needs
#   make clean          forget what is done; results stay in the store
STEP ?= rocwright pipeline step
export ROCWRIGHT_PLAN := $(CURDIR)/{plan}
export ROCWRIGHT_RUN_ID := {run}
export ROCWRIGHT_STORE ?= $(CURDIR)/store

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
"""
_ALL = """\
.PHONY: all clean
clean:
\trm -rf done

# Whatever became of the cells, the last word is the summary's.
all:
"""
