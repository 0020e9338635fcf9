"""Names of runs, which are part of the address of everything that a run leaves."""

from __future__ import annotations

import re

from rocwright.errors import InvalidInput
from rocwright.system.files import PARTIAL

_RUN_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
# Objects of all runs lie beside the runs.
_TAKEN = ("objects",)


def require_run_id(run_id: str) -> str:
    """The name itself, when a run can have it; raises `InvalidInput` else."""
    if _RUN_ID.fullmatch(run_id) is None or run_id in _TAKEN or run_id.endswith(PARTIAL):
        raise InvalidInput(
            f"{run_id!r} is no run id",
            next_step="give --run-id letters and digits, with dots, dashes and underscores behind the first "
            "one, at most 128",
        )
    return run_id
