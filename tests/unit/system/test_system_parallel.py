"""Work in order on several threads, within a bound on what is in flight."""

from __future__ import annotations

import threading

import pytest

from rocwright.system.parallel import in_order


def test_at_most_as_much_as_the_window_is_in_flight() -> None:
    """With the consumer held up, workers may run ahead by the window only."""
    started: list[int] = []
    gate = threading.Event()

    def work(number: int) -> int:
        started.append(number)
        gate.wait(10)
        return number

    items = ((number, 4) for number in range(100))
    results = in_order(work, items, threads=8, window=16)
    threading.Timer(0.2, gate.set).start()
    assert next(results) == 0
    assert len(started) <= 5
    assert list(results) == list(range(1, 100))


def test_outcomes_that_hold_less_make_room_while_the_first_is_still_worked_on() -> None:
    """Of ten items of 4 bytes only four fit; the others need the room that outcomes of 1 byte leave."""
    first_may_end = threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert first_may_end.wait(10)
        if number == 9:
            first_may_end.set()
        return number

    items = ((number, 4) for number in range(10))
    results = in_order(work, items, threads=2, window=16, weigh=lambda _: 1)
    assert list(results) == list(range(10))


def test_an_item_larger_than_the_window_is_worked_on_alone() -> None:
    assert list(in_order(lambda number: number, [(1, 5), (2, 500), (3, 5)], threads=2, window=10)) == [
        1,
        2,
        3,
    ]


def test_the_first_error_ends_the_work() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        done.append(number)
        return number

    results = in_order(work, ((number, 1) for number in range(1000)), threads=2, window=4)
    with pytest.raises(ValueError, match="three"):
        list(results)
    assert len(done) < 20
