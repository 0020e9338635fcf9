"""The plan of a run in its store: written once, so that all machines of a run have one plan."""

from __future__ import annotations

import msgspec

from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.manifest import canonical_json
from rocwright.model.plan import Plan, parse_plan
from rocwright.pipeline.records.values import Record
from rocwright.pipeline.records.written import all_records, run_prefix
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.system import console


def plan_key(run_id: str) -> str:
    """Where the plan of a run lies."""
    return f"{run_prefix(run_id)}plan.json"


def record_plan(store: ObjectStore, plan: Plan) -> None:
    """Write the plan of a run, or find the same one there.

    What may be published is up to each machine, so it may differ. Raises `InvalidInput` naming the
    difference where the run has another plan: results of different plans never mix.
    """
    key = plan_key(plan.run_id)
    if not store.exists(key):
        try:
            store.put_bytes(key, canonical_json(plan))
            return
        except IntegrityError:
            # Another machine was faster.
            pass
    there = read_plan(store, plan.run_id)
    difference = _difference(there, plan)
    if difference:
        raise InvalidInput(
            f"run {plan.run_id} has another plan in this store: {difference}",
            where=store.url(key),
            next_step="give this one another --run-id, or ask for the same as before",
        )


def has_plan(store: ObjectStore, run_id: str) -> bool:
    """Whether a plan of the run is recorded."""
    return store.exists(plan_key(run_id))


def read_plan(store: ObjectStore, run_id: str) -> Plan:
    """The plan of a run; raises `InvalidInput` where none is recorded, `InvalidData` for a damaged one."""
    key = plan_key(run_id)
    data = read_there(store, key)
    if data is None:
        raise InvalidInput(
            f"the store has no plan of run {run_id}",
            where=store.url(key),
            next_step="give --run-id or --plan; pipeline run and pipeline setup record the plan",
        )
    return parse_plan(data, where=store.url(key))


def records(store: ObjectStore, run_id: str) -> dict[str, Record]:
    """The records of a run by cell: of several with different inputs the newest, by the store's clock."""
    return all_records(store, run_id, console.say)


def _difference(there: Plan, here: Plan) -> str:
    """What differs first, for people; empty where nothing does that decides a result."""
    for name in ("profile", "sources", "rocm", "groups"):
        before, now = getattr(there, name), getattr(here, name)
        if before != now:
            shown = [msgspec.json.encode(value).decode() for value in (before, now)]
            return f"its {name} is {shown[0]}, here {shown[1]}"
    old, new = ({cell.id: cell for cell in plan.cells} for plan in (there, here))
    for words, ids in (("lacks", new.keys() - old.keys()), ("also has", old.keys() - new.keys())):
        if ids:
            first = min(ids)
            return f"it {words} {first}" + (f" and {len(ids) - 1} more steps" if len(ids) > 1 else "")
    for id_, cell in new.items():
        if old[id_].digest != cell.digest or old[id_].needs != cell.needs:
            return f"{id_} has the settings {old[id_].settings}, here {cell.settings}"
    return ""
