"""A plan as files for machines of one's own: scripts for sbatch and for submitting them, or a Makefile.

A script or a target stands for a cell, or a job. Those that are left out of the run have none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from rocwright.errors import UsageError
from rocwright.model.plan import Cell, Job, Plan
from rocwright.model.workflows import Ask, SlurmTable

SUBMIT = "submit.sh"
_RENDERED = "# Rendered by `rocwright pipeline render --to slurm`; change the plan or the table, not this."
PLAN_FILE = "plan.json"
MAKEFILE = "Makefile"


class Unit(msgspec.Struct, frozen=True):
    """`needs` are ids of units, each before this one; `last` runs also after what failed."""

    id: str
    needs: tuple[str, ...]
    cells: tuple[str, ...]
    last: bool
    gpu: bool


def units(plan: Plan, each: Literal["cell", "job"]) -> tuple[Unit, ...]:
    """In the plan's order. What needs a skipped unit waits for what that unit needs instead.

    Raises `UsageError` for cells of Windows, which neither a cluster nor make runs, and for an empty run.
    """
    there: Sequence[Cell | Job] = plan.cells if each == "cell" else plan.jobs
    if any(one.platform == "windows" and not one.skip for one in there):
        raise UsageError(
            "the run has steps of Windows, which run neither here nor on a cluster",
            next_step="plan it with --platforms linux; rocwright pipeline render --to github has both",
        )
    needs: dict[str, tuple[str, ...]] = {}
    skipped = {one.id for one in there if one.skip}
    for one in there:
        needs[one.id] = _present(one.needs, skipped, needs)
    found = tuple(
        Unit(
            id=one.id,
            needs=needs[one.id],
            cells=(one.id,) if isinstance(one, Cell) else _kept(plan, one),
            last=one.last,
            gpu=bool(one.runner),
        )
        for one in there
        if not one.skip
    )
    if not found:
        raise UsageError("the run has nothing to do", next_step="rocwright pipeline plan says why")
    return found


def _present(
    needs: Sequence[str], skipped: set[str], before: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Needs with those of skipped units in their place."""
    return tuple(
        dict.fromkeys(
            each for need in needs for each in (before[need] if need in skipped else (need,)) if each
        )
    )


def _kept(plan: Plan, job: Job) -> tuple[str, ...]:
    return tuple(cell.id for cell in plan.cells_of(job.id) if not cell.skip)


def plan_text(plan: Plan) -> str:
    """The plan as the rendered commands read it."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1).decode() + "\n"


# -- scripts for sbatch, one for each cell or job, and one script that submits them in order


def slurm_asks(plan: Plan, table: SlurmTable) -> dict[str, Ask]:
    """What each job asks for, by its id; raises `UsageError` as `units`."""
    asks = {unit.id: (table.asked(unit.cells, plan.sources), unit.gpu) for unit in units(plan, table.each)}
    return {id_: ask if gpu else msgspec.structs.replace(ask, gpus="") for id_, (ask, gpu) in asks.items()}


def render_slurm(
    plan: Plan, table: SlurmTable, asks: Mapping[str, Ask] | None = None
) -> dict[PurePosixPath, str]:
    """Text by path: `plan.json`, `submit.sh`, `cells/<id>.sh`; `asks` as `slurm_asks` or what fits.

    All machines of the cluster have to see the folder. Raises `UsageError` as `units`.
    """
    all_units = units(plan, table.each)
    asks = slurm_asks(plan, table) if asks is None else asks
    texts = {PLAN_FILE: plan_text(plan), SUBMIT: _submit(plan, all_units)}
    for unit in all_units:
        texts[f"cells/{unit.id}.sh"] = "\n".join(_script(plan, unit, table, asks[unit.id])) + "\n"
    return {PurePosixPath(path): text for path, text in texts.items()}


def _script(plan: Plan, unit: Unit, table: SlurmTable, ask: Ask) -> Iterator[str]:
    """Environment and one command: what this cell is, plan and store say."""
    yield "#!/usr/bin/env bash"
    yield _RENDERED
    yield from (f"#SBATCH {option}" for option in _options(unit, ask))
    yield "set -euo pipefail"
    yield from table.setup
    # Slurm runs a copy of the script, in the directory that it was submitted from.
    yield f'export ROCWRIGHT_PLAN="$PWD/{PLAN_FILE}"'
    yield f"export ROCWRIGHT_RUN_ID={shlex.quote(plan.run_id)}"
    yield 'export ROCWRIGHT_STORE="${ROCWRIGHT_STORE:-$PWD/store}"'
    place = f'--work-dir "{table.work}" --jobs "$SLURM_CPUS_ON_NODE"'
    yield f"exec rocwright pipeline step {shlex.quote(unit.id)} {place}"


def _options(unit: Unit, request: Ask) -> Iterator[str]:
    yield f"--job-name={unit.id}"
    yield f"--output=logs/{unit.id}.log"
    # A job whose machine was lost is queued again and writes on where it was.
    yield "--open-mode=append"
    yield "--requeue"
    yield "--kill-on-invalid-dep=yes"
    yield "--nodes=1"
    yield "--ntasks=1"
    if request.cpus:
        yield f"--cpus-per-task={request.cpus}"
    if request.memory_gb:
        yield f"--mem={request.memory_gb}G"
    if request.minutes:
        yield f"--time={request.minutes}"
    if request.gpus:
        yield f"--gres={request.gpus}"
    for name in ("partition", "account", "qos", "constraint"):
        if value := getattr(request, name):
            yield f"--{name}={value}"
    yield from request.options


def _submit(plan: Plan, all_units: tuple[Unit, ...]) -> str:
    lines = [
        " ".join(
            ["submit", "afterany" if unit.last else "afterok", *map(shlex.quote, (unit.id, *unit.needs))]
        )
        for unit in all_units
    ]
    return "\n".join(
        ["#!/usr/bin/env bash", _RENDERED, f"run={shlex.quote(plan.run_id)}", _BEGIN, *lines, _END]
    )


# All are submitted or none: an error cancels what this call has submitted. Which job stands for which cell is
# in the file `submitted`.
_BEGIN = r"""# Submits all cells in order, or those that are named. A cell that has its record ends at once.
set -euo pipefail
cd "$(dirname "$0")"

fail() {
  printf 'submit.sh: %s\n' "$*" >&2
  exit 1
}

cancel_begun() {
  [ -f submitted.partial ] || return 0
  cut -f 1 submitted.partial | xargs -r scancel --quiet
  rm submitted.partial
}

for tool in sbatch squeue scancel; do
  command -v "$tool" >/dev/null || fail "$tool is not here: run this on a login node of the cluster"
done
exec 9>.submit.lock
flock --nonblock 9 || fail "this run is being submitted already"

declare -A wanted=() numbers=()
for id in "$@"; do
  [ -f "cells/$id.sh" ] || fail "this run has no cells/$id.sh"
  wanted[$id]=1
done

# Of a submission that was killed: half a run.
cancel_begun
if [ -f submitted ]; then
  queue=$(squeue --noheader --format=%i) || fail "Slurm does not say what is queued; nothing was submitted"
  if count=$(grep --count --line-regexp --fixed-strings --file=<(cut -f 1 submitted) <<<"$queue"); then
    printf '%s\n' "$count jobs of run $run are queued or running; nothing was submitted" \
      "to stop them: (cd '$PWD' && cut -f 1 submitted | xargs scancel)" >&2
    exit 0
  fi
fi

# submit afterok|afterany CELL NEED...; a need that is not submitted with it has its record already.
submit() {
  local how=$1 id=$2 after="" log=logs/$2.log need number
  shift 2
  [ ${#wanted[@]} -eq 0 ] || [ -n "${wanted[$id]-}" ] || return 0
  for need in "$@"; do
    [ -z "${numbers[$need]-}" ] || after+=":${numbers[$need]}"
  done
  mkdir -p "${log%/*}"
  number=$(sbatch --parsable ${after:+"--dependency=$how$after"} "cells/$id.sh") ||
    fail "sbatch refused cells/$id.sh; what was submitted is cancelled"
  numbers[$id]=${number%%;*}
  printf '%s\t%s\n' "${numbers[$id]}" "$id" >>submitted.partial
}

trap cancel_begun EXIT
trap 'exit 130' INT TERM HUP
: >submitted.partial
"""
_END = r"""
mv submitted.partial submitted
printf '%s\n' "submitted ${#numbers[@]} jobs of run $run" \
  "which is which: $PWD/submitted" "what they say: $PWD/logs"
"""


# -- a Makefile with a target for each cell, for machines where make is all there is


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
        if unit.id not in plan.spare:
            # That one which may fail ended well says nothing of its result: it is asked again each time.
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
