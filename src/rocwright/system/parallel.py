"""Work on several threads whose outcomes come back in order, with a bound on what is in flight.

Before threads decode values, msgspec has to know their types: it finds out about a type when it first meets
one, unguarded.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition
from typing import Generic, TypeVar

import msgspec

_T = TypeVar("_T")
_R = TypeVar("_R")


def in_order(
    work: Callable[[_T], _R],
    items: Iterable[tuple[_T, int]],
    *,
    threads: int,
    window: int,
    weigh: Callable[[_R], int] | None = None,
) -> Generator[_R, None, None]:
    """Outcomes of `work` in the order of `items`, at most about `window` bytes in flight.

    `items` are (argument, bytes that the work on it holds at most); `weigh` says how many bytes its outcome
    holds from then on, as many as before where it is None. An outcome is handed out as soon as it is the
    next one, while further work goes on. The first error stops everything.
    """
    ready_for_threads()
    flight: _InFlight[_T, _R] = _InFlight(work, weigh, threads, window)
    try:
        for item, weight in items:
            while not flight.room(weight):
                yield flight.take()
            flight.submit(item, weight)
            if flight.head_done():
                yield flight.take()
        while flight.pending:
            yield flight.take()
    finally:
        flight.pool.shutdown(wait=True, cancel_futures=True)
        # It may show how far the work is: that ends now, not when the collector comes, in whatever thread.
        if isinstance(items, Generator):
            items.close()


class _Job(msgspec.Struct, Generic[_R]):
    """The outcome of an item to come, and how many bytes it holds at present."""

    outcome: Future[_R]
    weight: int


class _InFlight(Generic[_T, _R]):
    """What was submitted and not handed out yet, and the bytes it holds."""

    def __init__(
        self, work: Callable[[_T], _R], weigh: Callable[[_R], int] | None, threads: int, window: int
    ) -> None:
        self.pool = ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="rocwright")
        self.pending: deque[_Job[_R]] = deque()
        self._work, self._weigh, self._window = work, weigh, window
        self._held = 0
        self._changed = Condition()

    def submit(self, item: _T, weight: int) -> None:
        """Start work on an item as soon as a thread is free."""
        job: _Job[_R] = _Job(Future(), weight)
        with self._changed:
            self._held += weight
        self.pending.append(job)
        self.pool.submit(self._run, job, item)

    def room(self, weight: int) -> bool:
        """Wait until `weight` more bytes fit, or until the next outcome is there: whether they fit."""
        with self._changed:
            while self.pending and self._held + weight > self._window:
                if self.head_done():
                    return False
                self._changed.wait()
            return True

    def head_done(self) -> bool:
        """Whether the next outcome is there."""
        return self.pending[0].outcome.done()

    def take(self) -> _R:
        """The next outcome, waited for; its bytes no longer count."""
        job = self.pending.popleft()
        try:
            outcome = job.outcome.result()
        finally:
            # An error knows the frames that know the job: both would stay until the collector comes.
            job.outcome = Future()
        with self._changed:
            self._held -= job.weight
        return outcome

    def _run(self, job: _Job[_R], item: _T) -> None:
        try:
            outcome = self._work(item)
            weight = job.weight if self._weigh is None else self._weigh(outcome)
        except BaseException as error:
            job.outcome.set_exception(error)
        else:
            with self._changed:
                self._held += weight - job.weight
                job.weight = weight
            job.outcome.set_result(outcome)
            # Or it would live here until the thread's next outcome, beside it.
            del outcome
        with self._changed:
            self._changed.notify_all()


_lock = threading.Lock()
_ready: set[type[object]] = set()


def ready_for_threads() -> None:
    """Have msgspec look at every struct that is loaded, in this thread, before others decode them.

    Two threads that decode the first value of a type at the same moment end the process with a segmentation
    fault (msgspec 0.22): the second takes what the first has not filled in yet.
    """
    with _lock:
        for one in {*_below(msgspec.Struct)} - _ready:
            # A type that refers to what is not defined yet is met later.
            with contextlib.suppress(NameError):
                # Among them are records that no text can be decoded to. What they hold is not to be decoded
                # either: of a type that it could not make, msgspec may keep half.
                with contextlib.suppress(TypeError):
                    msgspec.json.Decoder(one)
                _ready.add(one)


def _below(base: type[object]) -> Iterator[type[object]]:
    for one in base.__subclasses__():
        yield one
        yield from _below(one)
