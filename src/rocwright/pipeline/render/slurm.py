"""A plan as scripts for sbatch, one for each cell, and one script that submits them in order."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from rocwright.model.plan import Plan
from rocwright.model.workflows import SlurmRequest, SlurmTable
from rocwright.pipeline.render.units import PLAN_FILE, Unit, plan_text, units

SUBMIT = "submit.sh"
_RENDERED = "# Rendered by `rocwright pipeline render --to slurm`; change the plan or the table, not this."


def render_slurm(plan: Plan, table: SlurmTable) -> dict[PurePosixPath, str]:
    """Text by path: `plan.json`, `submit.sh`, `cells/<id>.sh`.

    The folder has to be one that all machines of the cluster see. Raises `UsageError` as `units`.
    """
    all_units = units(plan, table.each)
    texts = {PLAN_FILE: plan_text(plan), SUBMIT: _submit(plan, all_units)}
    for unit in all_units:
        texts[f"cells/{unit.id}.sh"] = "\n".join(_script(plan, unit, table)) + "\n"
    return {PurePosixPath(path): text for path, text in texts.items()}


def _script(plan: Plan, unit: Unit, table: SlurmTable) -> Iterator[str]:
    """Environment and one command: what this cell is, plan and store say."""
    yield "#!/usr/bin/env bash"
    yield _RENDERED
    yield from (f"#SBATCH {option}" for option in _options(unit, table.asked(unit.cells)))
    yield "set -euo pipefail"
    yield from table.setup
    # Slurm runs a copy of the script, in the directory that it was submitted from.
    yield f'export ROCWRIGHT_PLAN="$PWD/{PLAN_FILE}"'
    yield f"export ROCWRIGHT_RUN_ID={shlex.quote(plan.run_id)}"
    yield 'export ROCWRIGHT_STORE="${ROCWRIGHT_STORE:-$PWD/store}"'
    place = f'--work-dir "{table.work}" --jobs "$SLURM_CPUS_ON_NODE"'
    yield f"exec rocwright pipeline step {shlex.quote(unit.id)} {place}"


def _options(unit: Unit, request: SlurmRequest) -> Iterator[str]:
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
    if unit.gpu and request.gpus:
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
