"""Run tests isolated and keep what they showed: the one way from a plan to a record on the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rocwright.errors import Interrupted
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.run import run_isolated
from rocwright.gputest.record import write_record, writing_alone
from rocwright.gputest.tell import Teller
from rocwright.model.testing import Ran, RunRecord


def run_recorded(
    ran: Ran, isolation: Isolation, directory: Path, teller: Teller, *, notes: Sequence[str] = ()
) -> RunRecord:
    """Run the tests of a plan and write their record below `directory`; `teller` hears of each result.

    Raises what `run_isolated` raises, `UsageError` when another run writes there, and `Interrupted` once the
    record of a run that was stopped is written.
    """
    with writing_alone(directory):
        done = run_isolated(isolation, tell=teller.take)
        teller.close()
        record = RunRecord(
            ran=ran,
            results=done.results,
            seconds=done.seconds,
            complete=done.complete,
            worker_starts=done.worker_starts,
            deselected=done.deselected,
            notes=(*notes, *done.notes),
            start_s=done.start_s,
            collect_s=dict(done.collect_s),
        )
        write_record(record, directory)
    if done.interrupted:
        raise Interrupted("stopped; what was seen until then is in the record", where=directory)
    return record
