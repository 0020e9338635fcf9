"""How a run of tests ends: pytest's exit codes, over the records of all targets."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.model.testing import RunRecord

PASSED, FAILED, INTERRUPTED, NOTHING = 0, 1, 2, 5


def exit_status(records: Sequence[RunRecord]) -> int:
    """0 passed, 1 failed, 2 stopped before the end, 5 nothing ran; of several targets the worst counts.

    A target on which nothing ran is no pass, whatever the others showed.
    """
    found = [_of(record) for record in records] or [NOTHING]
    return next(status for status in (FAILED, INTERRUPTED, NOTHING, PASSED) if status in found)


def _of(record: RunRecord) -> int:
    if record.bad:
        return FAILED
    if not record.complete:
        return INTERRUPTED
    return PASSED if record.results else NOTHING
