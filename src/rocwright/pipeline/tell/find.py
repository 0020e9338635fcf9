"""A run as its store has it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import msgspec

from rocwright.model.plan import Plan
from rocwright.pipeline.records import WORK, Record, read_plan, run_prefix, run_records
from rocwright.pipeline.tell.state import RunState, run_state
from rocwright.store.channel.lease import LEASES, PACE
from rocwright.store.objects.protocol import ObjectStore


def find_run(
    store: ObjectStore, run_id: str, now: datetime | None = None, work: Path | None = None
) -> tuple[Plan, RunState]:
    """The plan of a run and how it stands; `now` by the clock of the store.

    `work` is the directory of the run that the store lies in, where it does. Raises `InvalidInput` where the
    store has no plan of that run.
    """
    plan = read_plan(store, run_id)
    running = _running(store, run_id, now or datetime.now(timezone.utc))
    found = {id_: in_place(record, work) for id_, record in run_records(store, run_id).items()}
    return plan, run_state(plan, found, running)


def in_place(record: Record, work: Path | None) -> Record:
    """The record with addresses below `work` as this machine has them; as it is without `work`."""
    if work is None:
        return record
    text = bytes(record.value).decode()
    for token, place in ((f"file://{WORK}", work.as_uri()), (WORK, str(work))):
        # Inside of JSON's texts.
        text = text.replace(token, msgspec.json.encode(place).decode()[1:-1])
    return msgspec.structs.replace(record, value=msgspec.Raw(text.encode()))


def _running(store: ObjectStore, run_id: str, now: datetime) -> frozenset[str]:
    """Ids of the cells that a machine renews the lease of; one that died stops doing so."""
    prefix = LEASES + run_prefix(run_id)
    ttl = PACE.get().ttl
    return frozenset(
        one.key.removeprefix(prefix).rpartition("/")[0].removesuffix("/_cell")
        for one in store.list(prefix)
        if (now - one.modified).total_seconds() < ttl
    )
