"""Options of the commands that do steps of the pipeline on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from rocwright.cli.numbers import OptionalCount
from rocwright.cli.pipeline_options import PlaceOptions, PlanOptions
from rocwright.model.plan import Plan
from rocwright.pipeline.options import default_cache
from rocwright.pipeline.records import Machine, has_plan, read_plan, record_plan
from rocwright.store.objects.address import open_store
from rocwright.system import console
from rocwright.system.limits import available_cores


@Parameter(name="*")
@dataclass(frozen=True)
class MachineOptions:
    """What this machine gives to the run."""

    jobs: OptionalCount = None
    """Steps and compilers at once (default: this machine's cores)."""

    cache_dir: Path | None = None
    """Downloads that several runs share (default: ~/.cache/rocwright)."""

    dry_run: bool = False
    """Only say what would be done, uploaded and published."""

    def machine(self, place: PlaceOptions) -> Machine:
        """This machine, as the run sees it; nothing is made yet."""
        return Machine(
            store=open_store(place.address()),
            address=place.address(),
            work=place.work_dir.resolve(),
            cache=(self.cache_dir or default_cache()).resolve(),
            jobs=available_cores() if self.jobs is None else self.jobs,
            dry_run=self.dry_run,
            overlay=place.overlay(),
        )


def plan_of(place: PlaceOptions, options: PlanOptions, machine: Machine, *, anew: bool) -> Plan:
    """The plan of the run, which all of its machines share.

    It is the one in the store, unless options ask for one or it is made `anew`.
    """
    asked = options != PlanOptions(sources=options.sources)
    if not (anew or asked or place.plan) and has_plan(machine.store, place.run_id):
        return read_plan(machine.store, place.run_id)
    return options.plan(place)


def share_plan(plan: Plan, machine: Machine) -> None:
    """Record the plan for other machines, unless this is a dry run; raises `InvalidInput` for another one."""
    if not plan.publication.upload:
        console.say(f"a dry run: {plan.publication.why}")
    elif not machine.dry_run:
        record_plan(machine.store, plan)
