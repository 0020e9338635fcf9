"""Every fault of a suite on a real torch, through `rocwright test units` and `rocwright test report`."""

from __future__ import annotations

import pytest

from real.gputest import faults
from real.gputest.userland import Ran

LOST = ("segfault", "hang", "os_exit", "memory")


@pytest.fixture(scope="module")
def ran(desk):
    """One run over all the files, in one worker, so that each fault is followed by others."""
    checkout = faults.write_checkout(desk.root / "faults")
    desk.newcomer.own(checkout)
    reports = desk.fresh()
    files = [fault.file for fault in (*faults.FAULTS, faults.GOOD)]
    done = desk.rocwright(*faults.units_words(desk.python, checkout, reports / "units", files))
    faults.write_truncated(reports)
    return Ran(done, reports)


@pytest.mark.parametrize("fault", [*faults.FAULTS, faults.GOOD], ids=lambda fault: fault.name)
def test_a_fault_costs_one_test_and_is_called_by_its_name(ran, fault):
    of_file = {name: verdict for name, verdict in ran.verdicts.items() if name.startswith(fault.file)}
    assert of_file == fault.expected
    if fault.verdict != "passed":
        (bad,) = (
            one for one in ran.record["results"] if one["id"].startswith(fault.file) and one.get("message")
        )
        assert fault.says in bad["message"]


def test_only_lost_workers_are_replaced(ran):
    assert ran.done.returncode == 1
    assert ran.record["worker_starts"] == 1 + len(LOST)
    assert ran.record.get("complete", True)


@pytest.mark.parametrize("name", ["segfault", "hang"])
def test_the_detail_says_where_the_test_was(ran, name):
    found = ran.result(f"test_{name}.py::test_fault")
    assert f"test_{name}.py" in found["detail"] and "test_fault" in found["detail"]


def test_the_report_has_a_verdict_for_every_expected_run(ran, desk):
    done = desk.rocwright(*faults.report_words(ran.reports))
    expected = {faults.RUN: "failed", faults.TRUNCATED: "no report", faults.MISSING: "no report"}
    assert faults.states_of(done) == expected
    assert done.returncode == 1, done.stderr
