"""The door to a workflow's files: what GitHub Actions reads back from a step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rocwright.system.files import disk_error


def tell_workflow(
    lines: Sequence[str], variable: str = "GITHUB_OUTPUT", environment: Mapping[str, str] = os.environ
) -> bool:
    """Append `name=value` lines to the file that a variable names; False where it is not set or empty."""
    said = environment.get(variable)
    if not said:
        return False
    try:
        with Path(said).open("a", encoding="utf-8") as stream:
            stream.writelines(line + "\n" for line in lines)
    except OSError as error:
        raise disk_error(error, Path(said)) from error
    return True
