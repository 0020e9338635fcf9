"""Work on several threads whose outcomes come back in order, with a bound on what is in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def in_order(
    work: Callable[[_T], _R], items: Iterable[tuple[_T, int]], *, threads: int, window: int
) -> Generator[_R, None, None]:
    """Outcomes of `work` in the order of `items`, at most about `window` bytes of input in flight.

    `items` are (argument, bytes it will hold). The first error stops everything.
    """
    pool = ThreadPoolExecutor(max_workers=max(1, threads), thread_name_prefix="rocwright")
    pending: deque[tuple[Future[_R], int]] = deque()
    held = 0
    try:
        for item, weight in items:
            while pending and held + weight > window:
                future, released = pending.popleft()
                held -= released
                yield future.result()
                # Or the outcome would live until the next one, beside it.
                del future
            pending.append((pool.submit(work, item), weight))
            held += weight
        while pending:
            yield pending.popleft()[0].result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
