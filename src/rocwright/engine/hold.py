"""Hold a place against other runs, and end what a killed run left at work in it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from rocwright.errors import CommandFailed
from rocwright.system import process
from rocwright.system.files import write_text
from rocwright.system.locks import turn
from rocwright.system.marked import end_marked

# Runs of this process that hold a place now.
_at_work = 0
_lock = threading.Lock()


@contextmanager
def held(directory: Path, lock: str, running: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold `directory` by two files in it; `say` is told of a wait for another run, and of what it left.

    A compiler of a killed run would go on writing beside ours. Commands that are started meanwhile bear this
    process' mark, by which a later run finds them.
    """
    noted, own = directory / running, _mark()
    with turn(directory / lock, lambda: say(f"waiting for another run in {directory}")):
        if noted.exists():
            left = noted.read_text(encoding="utf-8")
            # This very process has ended its commands here, and has others at work elsewhere.
            if left != own and (count := end_marked(left)):
                say(f"ended {count} processes that an earlier run had left running")
        write_text(noted, own)
        try:
            with _marked(own):
                yield
        except CommandFailed:
            noted.unlink(missing_ok=True)
            raise
        # Not on other errors: their commands may still be at work when this process ends.
        noted.unlink(missing_ok=True)


@cache
def _mark() -> str:
    """What commands of this process are known by to later runs; the same for all of its runs."""
    return uuid.uuid4().hex


@contextmanager
def _marked(mark: str) -> Iterator[None]:
    """Mark commands while at least one run is at work in this process."""
    global _at_work
    with _lock:
        _at_work += 1
        process.mark(mark)
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if not _at_work:
                process.mark(None)
