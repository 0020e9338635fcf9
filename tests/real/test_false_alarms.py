"""No false alarm: published wheels have exactly the findings that were reviewed, and common ones no error."""

from __future__ import annotations

import os

import pytest

from real import corpus, false_alarms
from rocwright.check.run import CheckRequest, check_paths, gather_paths

TABLE = false_alarms.load()
EVERYTHING = os.environ.get("ROCWRIGHT_TEST_CORPUS") == "all"
OF_THIS_RUN = [one for one in TABLE if EVERYTHING or not one.item.wide]
# Wheels that many people use and that auditwheel or delvewheel repaired, or that hold no compiled code.
COMMON = {"numpy", "pillow", "lxml", "pyzmq", "h5py", "requests"}


@pytest.mark.parametrize("reviewed", OF_THIS_RUN, ids=lambda one: one.item.file)
def test_a_published_wheel_has_the_findings_that_were_reviewed(reviewed):
    report = check_paths([corpus.obtain(reviewed.item)])
    assert false_alarms.observed(report) == reviewed.expected


def test_check_and_create_find_the_same_in_a_published_wheel():
    [wheel] = [one.item for one in OF_THIS_RUN if one.item.name == "bitsandbytes"]
    path = corpus.obtain(wheel)
    alone, as_set = check_paths([path]), check_paths([path], closed=True)
    assert alone.findings == as_set.findings
    assert (alone.errors, alone.warnings) == (15, 2)
    # As others built it, it may go on: all of it is told, none of it is an error.
    adopted = gather_paths(CheckRequest((path,), closed=True, adopted=True)).judged()
    assert (adopted.errors, adopted.warnings) == (0, 17)
    assert [one.cause for one in adopted.findings] == [one.cause for one in alone.findings]


def test_common_wheels_have_no_error():
    common = [one for one in TABLE if one.item.name in COMMON]
    assert {one.item.name for one in common} == COMMON
    errors = [found.rule for one in common for found in one.findings if found.severity == "error"]
    assert errors == []


def test_at_least_eight_rocm_wheels_were_reviewed_and_each_finding_is_explained():
    published = {item.file for item in corpus.load()}
    rocm = [one for one in OF_THIS_RUN if one.item.file in published]
    assert len(rocm) >= 8
    unexplained = [
        (one.item.file, found.rule) for one in TABLE for found in one.findings if len(found.why) < 40
    ]
    assert unexplained == []
