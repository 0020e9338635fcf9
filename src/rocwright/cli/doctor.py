"""`rocwright doctor`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from rocwright.compat.doctor import diagnose
from rocwright.errors import MissingTool
from rocwright.system import console


def doctor(*, json: Annotated[bool, Parameter(name="--json")] = False) -> None:
    """Look at this machine: GPUs, programs, room; each problem with the command that mends it.

    Exit code 0 when nothing is missing, 4 otherwise.

    Parameters
    ----------
    json
        Print the result as JSON.
    """
    found = diagnose()
    if json:
        console.out_json(found)
    else:
        rows = [(item.id, item.verdict, item.detail, item.next_step) for item in found.findings]
        console.table("This machine", ("what", "verdict", "detail", "next"), rows)
    if found.missing:
        raise MissingTool(f"{found.missing} things are missing", next_step="see the table")
