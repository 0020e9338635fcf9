"""What a durations file holds, in a few figures."""

from __future__ import annotations

import msgspec

from rocwright.gputest.shards.durations import Durations, TimingPlace


class Summary(msgspec.Struct, frozen=True):
    """The tests of a place: how many, in how many files, what all of them and the longest take (seconds)."""

    place: TimingPlace
    files: int
    tests: int
    seconds: float
    longest: str
    longest_s: float


def summaries(durations: Durations) -> tuple[Summary, ...]:
    """A summary for each place, in order."""
    found = []
    for timed in durations.timed:
        seconds = timed.seconds()
        longest = max(seconds, key=lambda test: seconds[test])
        files = {test.partition("::")[0] for test in seconds}
        total = round(sum(seconds.values()), 3)
        found.append(Summary(timed.place, len(files), len(seconds), total, longest, seconds[longest]))
    return tuple(found)
