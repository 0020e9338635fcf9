"""The doctor, an imitation of GitHub with which all is well, and nothing of whoever runs the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocwright.data import load_table
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.doctor.run import Visit, visit
from rocwright.pipeline.render.workflows import github_files
from unit.pipeline.doctor.imitation import TOKEN, Imitation, imitated

FILES = github_files(known(environment={}).projects, profiles(), load_table("workflows", WorkflowTable))
PATHS = [str(path) for path in FILES if path.parts[1] == "workflows"]


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Imitation]:
    """A repository that builds the miniature family and has no store: nothing is missing."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "ROCWRIGHT_", "GITHUB_", "GH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with imitated() as found:
        found.variables = {"ROCWRIGHT_SOURCES": "miniature"}
        found.workflows = dict.fromkeys(PATHS, "active")
        monkeypatch.setenv("GITHUB_API_URL", found.url)
        monkeypatch.setenv("GH_TOKEN", TOKEN)
        # Where GitHub tells no variables, those of the shell count: nobody shall ask an index of the world.
        monkeypatch.setenv("ROCWRIGHT_SOURCES", "miniature")
        yield found


Doctor = Callable[..., tuple[bool, list[dict[str, Any]]]]


@pytest.fixture
def doctor(github: Imitation) -> Doctor:
    """The visit behind the command, for files rendered once: whether all is well, and the conditions."""

    def ask(profile: str = "ci", stale: Sequence[str] | None = ()) -> tuple[bool, list[dict[str, Any]]]:
        return visited(profile, stale)

    return ask


def visited(profile: str, stale: Sequence[str] | None = ()) -> tuple[bool, list[dict[str, Any]]]:
    """The same for the repository of the imitation that the environment leads to."""
    found = visit(Visit("me/rocwright", "github.com", profiles().named(profile), FILES, stale, os.environ))
    return not found.errors, msgspec.to_builtins(found)["findings"]


def of(conditions: list[dict[str, Any]], id_: str, about: str = "") -> dict[str, Any]:
    """The one condition of an id, or of it and what it is about."""
    found = [one for one in conditions if one["id"] == id_ and (not about or one.get("about") == about)]
    assert len(found) == 1, found
    return found[0]
