"""Every row of the documents, by its case. Which kind of proof that is stands in the table."""

from __future__ import annotations

import re

import pytest

from conformance.table import KINDS, Row, loaded, rows, where
from conformance.world import Done, World

CASES = loaded()
ROWS = rows()
# What begins a command in the cells of the table.
_PROGRAMS = ("python", "pip", "pytest", "rocm-sdk", "bash", "export", "echo", "ls", "mkdir", "git", "cd",
             "(cd", "build_prod_wheels.py", "build_python_packages.py", "upload_python_packages.py",
             "./", "PYTORCH_TEST_WITH_ROCM=1")  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row(world: World, row: Row) -> None:
    assert row.how in KINDS, f"{row.id}: the table does not say how it is covered"
    assert row.id in CASES, f"{row.id} has no case"
    with world.watched() as seen:
        CASES[row.id](world, row)
    if row.how == "run":
        assert seen, f"{row.id} is counted as run, and {where(CASES[row.id])} ran nothing"
        if row.id.startswith("CL-"):
            missing = [text for text in commands(row) if not any(shows(done, text) for done in seen)]
            assert not missing, f"{row.id}: printed there and not typed: {missing}"


def commands(row: Row) -> list[str]:
    """What the cell of a row prints as commands."""
    quoted = [cell.strip("`") for cell in re.findall(r"`[^`]+`", row.item)]
    return [text for text in quoted if text.startswith(_PROGRAMS)]


def shows(done: Done, text: str) -> bool:
    """Whether a command was printed with these words."""
    return says(done.printed, text)


def says(printed: str, text: str) -> bool:
    """Whether a printed command has the words of a cell, in which `...` stands for any."""
    wanted = [re.escape(piece) for piece in " ".join(text.split()).split("...")]
    return re.search(".*".join(wanted), " ".join(printed.split())) is not None
