"""Work in order on several threads, within a bound on what is in flight; types that threads meet first."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

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


class Refused(Exception):
    """An error of its own, so that it can be referred to weakly."""


def test_an_error_ends_what_hands_out_the_items_and_is_kept_by_nothing() -> None:
    """A display of progress that waits for the collector is ended in whatever thread that runs."""
    ended: list[bool] = []

    def items() -> Iterator[tuple[int, int]]:
        try:
            yield from ((number, 1) for number in range(9))
        finally:
            ended.append(True)

    def refuse(number: int) -> int:
        raise Refused(number)

    def refused() -> weakref.ref[Refused]:
        try:
            list(in_order(refuse, items(), threads=2, window=1))
        except Refused as error:
            assert ended == [True], "while the error is still held"
            return weakref.ref(error)
        raise AssertionError

    gc.disable()
    try:
        assert refused()() is None
    finally:
        gc.enable()


# New types each time, as every process has; threads that take turns as often as the interpreter allows.
PROGRAM = """
import sys
import threading

import msgspec

from rocwright.system.parallel import in_order

sys.setswitchinterval(1e-6)
text = '''
import msgspec
class Inner(msgspec.Struct, frozen=True):
    a: int
    c: tuple[str, ...] = ()
class Outer(msgspec.Struct, frozen=True):
    x: int
    z: tuple[Inner, ...]
    w: dict[str, Inner]
'''
data = b'{"x":1,"z":[{"a":1,"c":["r"]}],"w":{"k":{"a":2}}}'
wrong = []

def decode(kind):
    together.wait()
    try:
        found = msgspec.json.decode(data, type=kind)
    except Exception as error:
        wrong.append(error)
        return
    if (found.z[0].c, found.w["k"].a) != (("r",), 2):
        wrong.append(found)

for _ in range(400):
    module = {}
    exec(text, module)
    together = threading.Barrier(4)
    list(in_order(decode, [(module["Outer"], 1)] * 4, threads=4, window=100))
sys.exit(str(wrong[:3]) if wrong else 0)
"""


def test_threads_decode_types_that_nobody_met_before() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
