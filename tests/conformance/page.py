"""The page of the documentation that says how each row is covered, and where."""

from __future__ import annotations

from collections import Counter

from conformance.table import KINDS, Row, loaded, rows, where

# What the rows are from. The first two describe one thing, in a newer and an older version.
DOCUMENTS = {
    "S0": "building PyTorch with ROCm",
    "S1": "the same, in an older version",
    "S2": "which PyTorch works with which ROCm",
    "S3": "Python packages of ROCm",
    "S4": "building and testing PyTorch's packages in CI",
}
PARTS = {
    "CL": "Command lines",
    "FL": "Options",
    "FD": "Files and directories",
    "UR": "Addresses",
    "EV": "Environment variables",
    "NM": "Names",
    "AG": "Goals of CI",
    "CO": "The compatibility page",
    "AL": "Libraries of the compatibility page",
    "AD": "Data types of the compatibility page",
    "AM": "Domain libraries of the compatibility page",
    "AO": "Other names of the compatibility page",
    "AU": "Links",
}


def render() -> str:
    """The counts, and a table for each part of the documents, as Markdown."""
    found, cases = rows(), loaded()
    counted = Counter(row.how for row in found)
    head = [f"| {kind} | {counted[kind]} | {meaning} |" for kind, meaning in KINDS.items()]
    text = ["| How | Rows | Meaning |", "| --- | --- | --- |", *head, f"| all | {len(found)} | |", ""]
    text += ["| Document | What it describes |", "| --- | --- |"]
    text += [f"| {name} | {what} |" for name, what in DOCUMENTS.items()]
    for part, title in PARTS.items():
        text += ["", f"## {title}", "", "| Row | What it is | How, and where |", "| --- " * 3 + "|"]
        text += [_line(row, where(cases[row.id])) for row in found if row.id.startswith(f"{part}-")]
    return "\n".join(text) + "\n"


def _line(row: Row, place: str) -> str:
    item = row.item if "`" in row.item else f"`{row.item}`"
    # As words, which the cells of a page can break into lines.
    module, _, name = place.partition(".")
    where = f"({module.replace('_', ' ')}: {name.replace('_', ' ')})"
    how = f"**{row.how}** {where}{f'. {row.why[0].upper()}{row.why[1:]}' if row.why else ''}"
    cells = (f"`{row.id}` {row.seed.replace(',', ', ')}", item, how)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
