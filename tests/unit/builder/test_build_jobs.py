"""The number of compilers at once, and the sentence that says why."""

from __future__ import annotations

import pytest

from rocwright.builder.units.launch import Jobs, asked_jobs, choose_jobs
from rocwright.errors import UsageError
from rocwright.system.limits import Memory

GB = 10**9


def memory(available_gb: float, limit_of: str = "") -> Memory:
    return Memory(64 * GB, int(available_gb * GB), limit_of)


def test_cores_decide_where_memory_suffices() -> None:
    jobs = choose_jobs(memory(40), 8, [], default_peak=2 * GB)
    assert jobs == Jobs(
        8,
        "8 compilers at a time, one for each core: at most 16.0 GB (estimated), and 36.0 GB of memory are "
        "free for them",
    )


def test_the_largest_units_together_have_to_fit() -> None:
    # 0.9 x 20 = 18 GB: 9 + 5 + 3 fit, with 2 more they do not; the many small ones do not matter.
    peaks = [GB // 10] * 500 + [3 * GB, 9 * GB, 2 * GB, 5 * GB]
    jobs = choose_jobs(memory(20), 16, peaks, default_peak=2 * GB)
    assert jobs == Jobs(
        3,
        "3 compilers at a time, not 16: the 4 largest translation units need 19.0 GB (recorded), and "
        "18.0 GB of memory are free for them",
    )


def test_units_that_were_not_recorded_count_as_estimated() -> None:
    # 0.9 x 10 = 9 GB: 4 recorded, then 2 and 2 estimated.
    jobs = choose_jobs(memory(10), 8, [4 * GB], default_peak=2 * GB)
    assert jobs.number == 3
    assert "the 4 largest translation units need 10.0 GB (estimated)" in jobs.why


def test_exactly_what_fits_is_taken() -> None:
    assert choose_jobs(memory(10), 8, [3 * GB] * 8, default_peak=GB).number == 3
    assert choose_jobs(memory(10), 8, [3 * GB] * 2 + [3 * GB + 1] * 6, default_peak=GB).number == 2


def test_one_that_does_not_fit_alone_is_said() -> None:
    jobs = choose_jobs(memory(8, "/sys/fs/cgroup/job"), 32, [30 * GB], default_peak=2 * GB)
    assert jobs == Jobs(
        1,
        "one compiler at a time, and even one may need 30.0 GB (recorded), while 7.2 GB of memory are "
        "free for them (the limit of the control group /sys/fs/cgroup/job)",
        too_large=True,
    )


def test_memory_that_is_not_known_leaves_the_cores() -> None:
    jobs = choose_jobs(Memory(), 4, [30 * GB], default_peak=2 * GB)
    assert jobs.number == 4
    assert "does not say how much memory" in jobs.why


@pytest.mark.parametrize(
    ("flag", "caller", "expected"),
    [
        (None, {}, None),
        (None, {"MAX_JOBS": " "}, None),
        (None, {"MAX_JOBS": "12"}, (12, "the variable MAX_JOBS")),
        (3, {"MAX_JOBS": "12"}, (3, "--jobs")),
        (3, {"MAX_JOBS": "many"}, (3, "--jobs")),
    ],
)
def test_what_the_user_asks_for(
    flag: int | None, caller: dict[str, str], expected: tuple[int, str] | None
) -> None:
    assert asked_jobs(flag, caller) == expected


def test_what_the_user_asks_for_wins() -> None:
    jobs = choose_jobs(memory(1), 2, [], default_peak=2 * GB, asked=(64, "--jobs"))
    assert jobs == Jobs(64, "64 compilers at a time, as --jobs says")


@pytest.mark.parametrize("text", ["many", "0", "-2", "1.5", "²"])
def test_a_number_that_is_none_names_its_variable(text: str) -> None:
    with pytest.raises(UsageError, match="MAX_JOBS") as caught:
        asked_jobs(None, {"MAX_JOBS": text})
    assert caught.value.next_step


def test_a_flag_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="--jobs 0"):
        asked_jobs(0, {})
