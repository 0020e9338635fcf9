"""A visit of the doctor to the repository of the imitation, with workflows that are rendered once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from rocwright.data import load_table
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.doctor.run import Visit, visit
from rocwright.pipeline.render.workflows import github_files

FILES = github_files(known(environment={}).projects, profiles(), load_table("workflows", WorkflowTable))
PATHS = [str(path) for path in FILES if path.parts[1] == "workflows"]


def visited(profile: str = "ci", stale: Sequence[str] | None = ()) -> tuple[bool, list[dict[str, Any]]]:
    """What stands behind the command: whether all is well, and the conditions."""
    found = visit(Visit("me/rocwright", "github.com", profiles().named(profile), FILES, stale, os.environ))
    return not found.errors, msgspec.to_builtins(found)["findings"]


def of(conditions: list[dict[str, Any]], id_: str, about: str = "") -> dict[str, Any]:
    """The one condition of an id, or of it and what it is about."""
    found = [one for one in conditions if one["id"] == id_ and (not about or one.get("about") == about)]
    assert len(found) == 1, found
    return found[0]
