"""One world for all workers of a run, and the four counts at its end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.table import KINDS, rows
from conformance.world import World
from needs import lacking
from windows_tree import COMPILER

_PLACE = "ROCWRIGHT_CONFORMANCE"


def pytest_configure(config: pytest.Config) -> None:
    if _PLACE not in os.environ:
        os.environ[_PLACE] = tempfile.mkdtemp(prefix="rocwright-conformance-")
        config.stash[_OWN] = True


_OWN = pytest.StashKey[bool]()


def pytest_sessionstart() -> None:
    # The scenes build upon each other: without these most would fail, each for another reason.
    if reason := lacking("g++", COMPILER, "Python.h", "cmake", "ninja", "xz"):
        pytest.exit(f"the documents' commands cannot be typed here: {reason}", returncode=2)


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(_OWN, False):
        shutil.rmtree(os.environ.pop(_PLACE), ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.conformance)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many rows of each kind passed."""
    kinds = {row.id: row.how for row in rows()}
    passed = [
        report.nodeid.rpartition("[")[2].rstrip("]") for report in terminalreporter.stats.get("passed", [])
    ]
    counted = Counter(kinds[name] for name in passed if name in kinds)
    if counted:
        terminalreporter.section("rows of the documents")
        for kind, meaning in KINDS.items():
            of = sum(how == kind for how in kinds.values())
            terminalreporter.write_line(f"{kind:10}{counted[kind]:4} of {of:3}  {meaning}")
        total = counted.total()
        terminalreporter.write_line(f"{'all':10}{total:4} of {len(kinds)}")


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    yield World(Path(os.environ[_PLACE]))
