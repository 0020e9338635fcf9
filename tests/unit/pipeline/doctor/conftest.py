"""An imitation of GitHub with which all is well, and nothing of whoever runs the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.pipeline.doctor.imitation import TOKEN, Imitation, imitated
from unit.pipeline.doctor.visits import PATHS


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
