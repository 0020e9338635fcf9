"""How many compilers run at once: as many as there are cores, and no more than memory holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from rocwright.errors import UsageError
from rocwright.system.limits import Memory

# Part of the available memory that compilers may fill; the rest is for the page cache and for others.
_SHARE = 0.9


class Jobs(msgspec.Struct, frozen=True):
    """The number, a sentence for the user that says why, and whether one compiler alone may be too large."""

    number: int
    why: str
    too_large: bool = False


def asked_jobs(flag: int | None, caller: Mapping[str, str]) -> tuple[int, str] | None:
    """The number that the user wants, and where he said so: `--jobs`, else `MAX_JOBS`; None: nowhere.

    Raises `UsageError` for anything but a whole number from 1.
    """
    if flag is not None:
        if flag < 1:
            raise UsageError(
                f"--jobs {flag} is no number of jobs", next_step="give 1 or more, or leave it out"
            )
        return flag, "--jobs"
    text = caller.get("MAX_JOBS", "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(
            f"the variable MAX_JOBS holds {text!r}, which is no number of jobs",
            next_step="set it to 1 or more, or unset it",
        )
    return int(text), "the variable MAX_JOBS"


def choose_jobs(
    memory: Memory,
    cores: int,
    peaks: Sequence[int],
    *,
    default_peak: int,
    asked: tuple[int, str] | None = None,
) -> Jobs:
    """The most jobs whose largest translation units fit into memory together, at most one for each core.

    `peaks` are the bytes that each translation unit took in an earlier run; those that are not known are
    taken to need `default_peak` each. The largest may well meet: build systems start equal work together.
    What the user `asked` for wins.
    """
    if asked is not None:
        number, where = asked
        return Jobs(number, f"{_compilers(number)}, as {where} says")
    of_cores = "one for each core" if cores > 1 else "on one core"
    if memory.available is None:
        return Jobs(
            cores, f"{_compilers(cores)}, {of_cores}: the system does not say how much memory there is"
        )
    room = int(memory.available * _SHARE)
    largest = sorted(peaks, reverse=True)[:cores]
    needs = [*largest, *[default_peak] * (cores - len(largest))]
    number = next((n for n in range(cores) if sum(needs[: n + 1]) > room), cores)
    known = "recorded" if len(largest) > min(number, cores - 1) else "estimated"
    left = f"{_gb(room)} of memory are free for them{_where(memory)}"
    if number == cores:
        return Jobs(
            cores, f"{_compilers(cores)}, {of_cores}: at most {_gb(sum(needs))} ({known}), and {left}"
        )
    if number == 0:
        one = f"one may need {_gb(needs[0])} ({known})"
        return Jobs(1, f"{_compilers(1)}, and even {one}, while {left}", too_large=True)
    more = f"the {number + 1} largest translation units need {_gb(sum(needs[: number + 1]))} ({known})"
    return Jobs(number, f"{_compilers(number)}, not {cores}: {more}, and {left}")


def _compilers(number: int) -> str:
    return "one compiler at a time" if number == 1 else f"{number} compilers at a time"


def _where(memory: Memory) -> str:
    return f" (the limit of the control group {memory.limit_of})" if memory.limit_of else ""


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
