"""What a step of a rendered workflow does besides: results travel as artifacts, a failure is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rocwright.cli.pipeline.options import PlaceOptions
from rocwright.errors import InvalidInput, RocwrightError
from rocwright.pipeline.carry import hand_on, take, there
from rocwright.pipeline.cells.act import shown_error
from rocwright.pipeline.define.inputs import carries
from rocwright.pipeline.tell.summary import failure_lines
from rocwright.store.objects.local import LocalStore
from rocwright.system import console
from rocwright.system.workflow import tell_summary, tell_workflow

# How the step went that assumes the role, and which role that is.
_OUTCOME, _ROLE = "ROCWRIGHT_ROLE_OUTCOME", "ROCWRIGHT_ROLE"


@dataclass
class Job:
    """The job that is done; `group` is what it belongs to, empty for one of the whole run."""

    name: str
    group: str = ""


@contextmanager
def workflow_job(place: PlaceOptions, name: str) -> Iterator[Job]:
    """While the block runs, its error is one for the page of the workflow, too, whatever ends it.

    Where results travel as artifacts, those of earlier jobs are there before it, and what it adds is laid out
    after it, also where it failed: later jobs and the summary want to know.
    """
    job = Job(name)
    try:
        _require_role()
        if place.store is not None or not carries(os.environ):
            yield job
            return
        work = place.work_dir.resolve()
        store = LocalStore(work / "store")
        take(work, store, place.run_id, console.say)
        before = there(store)
        try:
            yield job
        finally:
            named = hand_on(work, store, before, job.name, job.group, os.environ)
            tell_workflow([f"carried_{part}={artifact}" for part, artifact in named.items()])
    except (RocwrightError, OSError, KeyboardInterrupt) as problem:
        tell_summary(failure_lines(name, problem, shown_error(problem)))
        raise


def _require_role() -> None:
    if os.environ.get(_OUTCOME) == "failure":
        role = os.environ.get(_ROLE, "")
        raise InvalidInput(
            f"the role {role or 'of this workflow'} was refused, so nothing can be written to the store",
            next_step="let its trust policy name this repository (the condition on the token's sub), and let"
            " it last as long as the job; the step before this one has what AWS answered",
        )
