"""The rows that the compatibility data has to hold: a list made from the document, not from the data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    id: str
    item: str
    fact: str


def rows(kind: str) -> list[Row]:
    """Rows by kind: AL libraries, AD data types, AM domain libraries, AO names, CO facts."""
    lines = Path(__file__).with_name("rows.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [row for row in (Row(*line.split("\t")) for line in lines) if row.id.startswith(f"{kind}-")]
