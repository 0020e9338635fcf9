"""The table itself: whole, each row with its kind and a reason where it was not run, enough of them run."""

from __future__ import annotations

from collections import Counter

from conformance.table import KINDS, rows

# How many rows each part of the documents has, counted by hand: 418.
PARTS = {"AU": 75, "AL": 20, "AD": 22, "AM": 8, "AO": 43, "AG": 8, "CL": 71, "FL": 21, "FD": 64, "UR": 31,
         "EV": 15, "NM": 32, "CO": 8}  # fmt: skip


def test_every_row_is_there_once() -> None:
    found = [row.id for row in rows()]
    assert Counter(id_.split("-")[0] for id_ in found) == PARTS
    assert len(set(found)) == len(found) == 418


def test_every_row_says_how_and_a_command_that_was_not_run_says_why() -> None:
    assert {row.id: row.how for row in rows() if row.how not in KINDS} == {}
    silent = [row.id for row in rows() if row.how == "explained" and not row.why]
    silent += [row.id for row in rows() if row.id.startswith("CL-") and row.how != "run" and not row.why]
    assert silent == []


def test_at_least_210_rows_are_run_and_no_links_or_libraries_among_them() -> None:
    run = [row.id for row in rows() if row.how == "run"]
    assert len(run) >= 210
    assert [id_ for id_ in run if id_.startswith(("AU", "AL", "AM"))] == []


def test_what_a_torch_can_do_is_run_and_what_cannot_be_says_why() -> None:
    """Data types, functions, options and known issues are tried; the rest of that page is a page."""
    tried = [row for row in rows() if row.id.startswith(("AD", "AO")) or row.id in ("CO-02", "CO-06")]
    assert {row.id for row in tried if row.how != "run"} == {"AO-03", "AO-39"}
    assert [row.id for row in tried if row.how != "run" and not row.why] == []
    assert [row.id for row in rows() if row.id.startswith("CO") and row.how == "run"] == ["CO-02", "CO-06"]
