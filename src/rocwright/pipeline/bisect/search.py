"""Which set to try next, and what the verdicts so far say: pure, by position in a channel's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rocwright.errors import InvalidInput

Verdict = Literal["good", "bad", "skip"]


@dataclass(frozen=True)
class Narrowed:
    """`good` is the newest known good position, `bad` the oldest known bad one; `next` is to be tried.

    `next` is None when nothing is left to try: then the first bad one is `bad` itself, or, where those
    between were skipped, any of `good + 1 … bad`.
    """

    good: int
    bad: int
    next: int | None


def narrow(good: int, bad: int, verdicts: Mapping[int, Verdict]) -> Narrowed:
    """Halve what lies between; what was skipped is gone around, nearest to the middle first.

    Raises `InvalidInput` when a bad one is older than a good one: then there is no single first bad one.
    """
    inside = {at: verdict for at, verdict in verdicts.items() if good <= at <= bad}
    low = max([good, *(at for at, verdict in inside.items() if verdict == "good")])
    high = min([bad, *(at for at, verdict in inside.items() if verdict == "bad")])
    if low >= high:
        raise Contradiction(low, high)
    left = [at for at in range(low + 1, high) if verdicts.get(at) != "skip"]
    middle = (low + high) / 2
    return Narrowed(low, high, min(left, key=lambda at: (abs(at - middle), at), default=None))


class Contradiction(InvalidInput):
    """A set is good although an older one is bad, or one set is both."""

    def __init__(self, good: int, bad: int) -> None:
        super().__init__(f"position {bad} is bad and {good} is good")
        self.good = good
        self.bad = bad
