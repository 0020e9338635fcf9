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


def test_at_least_150_rows_are_run_and_no_links_or_page_data_among_them() -> None:
    run = [row.id for row in rows() if row.how == "run"]
    assert len(run) >= 150
    assert [id_ for id_ in run if id_.startswith(("AU", "AL", "AD", "AM", "AO", "CO"))] == []
