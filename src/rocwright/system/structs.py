"""Make values ready for threads: msgspec finds out about a type when it first meets one, and unguarded."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import msgspec

_lock = threading.Lock()
_ready: set[type[object]] = set()


def ready_for_threads() -> None:
    """Have msgspec look at every struct that is loaded, in this thread, before others decode them.

    Two threads that decode the first value of a type at the same moment end the process with a segmentation
    fault (msgspec 0.22): the second one takes what the first has not filled in yet.
    """
    with _lock:
        for one in {*_below(msgspec.Struct)} - _ready:
            # One that refers to what is not defined yet is met later.
            with contextlib.suppress(NameError, TypeError):
                msgspec.json.Decoder(one)
                _ready.add(one)


def _below(base: type[object]) -> Iterator[type[object]]:
    for one in base.__subclasses__():
        yield one
        yield from _below(one)
