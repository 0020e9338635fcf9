"""What the end of a worker says of the test that it was in."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from rocwright.model.testing import Verdict

# Of what a lost test printed: the beginning, where the first complaint stands, and the end.
_HEAD = 6_000
_TAIL = 24_000
# Lines by which drivers, C++ and Python say what killed them.
_TELLING = re.compile(
    r"Memory access fault by GPU.*|HSA_STATUS_ERROR\w*.*|HIP error:.*|hipError\w+.*|CUDA error:.*|"
    r"terminate called.*|\s*what\(\):.*|Fatal Python error: (?!Segmentation|Aborted|Bus|Illegal|Floating).*|"
    r".*Assertion .* failed.*"
)
# As a worker ends that has lost its connection (`inside/rocwright_worker.py`).
LOST = 70


def of_exit(code: int | None, printed: str, *, killed_for_memory: bool) -> tuple[Verdict, str]:
    """Verdict and message for a process that ended in a test with `code` (a signal: negative)."""
    said = next(
        (match.group(0).strip() for match in map(_TELLING.fullmatch, printed.splitlines()) if match), ""
    )
    if code is None:
        return "crashed", "its process stopped answering, and cannot be ended"
    if code < 0:
        name = _signal_name(-code)
        if killed_for_memory:
            return "memory", f"the system ran out of memory and ended its process ({name})"
        return "crashed", f"ended by {name}" + (f": {said}" if said else "")
    if code == LOST:
        return "crashed", "closed the connection or the log of its worker"
    return "crashed", f"ended its process with exit code {code}" + (f": {said}" if said else "")


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"


def phase_of(dump: str) -> str:
    """Whether a traceback stands in setup, call or teardown; empty where it does not say."""
    for phase in ("setup", "teardown", "call"):
        if re.search(rf"in pytest_runtest_{phase}\b", dump):
            return phase
    # Classes and files are torn down on the way to the next test.
    return "teardown" if "teardown_exact" in dump else ""


def since(log: Path, at: int) -> str:
    """What was written to a log from `at` on, both ends of it."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, 2)
            at = min(at, size)
            stream.seek(at)
            if size - at <= _HEAD + _TAIL:
                return stream.read().decode("utf-8", "replace").strip()
            head = stream.read(_HEAD).decode("utf-8", "replace")
            stream.seek(size - _TAIL)
            tail = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return f"{head}\n[… {size - at - _HEAD - _TAIL} bytes …]\n{tail}".strip()
