"""Which worker does what next: files are collected one by one, large ones shared, what a loss left goes on.

Deciding only: nothing here knows of processes or clocks but by what it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

# Seconds of a test of which nothing is known yet; of the tests that a worker is handed beforehand.
_UNKNOWN_S = 0.01
_AHEAD_S = 0.25
_MOST_AHEAD = 100


class Collect(msgspec.Struct, frozen=True):
    """Collect this file."""

    file: str


class Hand(msgspec.Struct, frozen=True):
    """Run these tests of a file that this worker has collected; `last`: nothing follows for now."""

    file: str
    tests: tuple[int, ...]
    last: bool = False


class Last(msgspec.Struct, frozen=True):
    """Finish what was handed out."""


class Renew(msgspec.Struct, frozen=True):
    """End this worker; the next test wants a fresh worker."""


Order = Collect | Hand | Last | Renew


class _File(msgspec.Struct):
    ids: tuple[str, ...] | None = None
    collect_s: float = 0.0
    shared: bool = True
    done: int = 0
    done_s: float = 0.0
    # Tests that a lost worker left, and those that are handed to nobody yet.
    loose: list[deque[int]] = msgspec.field(default_factory=list)

    @property
    def test_s(self) -> float:
        return (self.done_s + _UNKNOWN_S) / (self.done + 1)


class _Place(msgspec.Struct):
    """One worker, whichever process it is just now."""

    file: str = ""
    rest: deque[int] = msgspec.field(default_factory=deque)
    handed: deque[int] = msgspec.field(default_factory=deque)
    last: bool = False
    collected: set[str] = msgspec.field(default_factory=set)
    fresh: bool = True
    again: bool = False


class Schedule:
    """The tests of a run and who has them. Tests are indices into their file's list of ids."""

    def __init__(self, files: Iterable[str], places: int) -> None:
        self._waiting = deque(files)
        self._files = {name: _File() for name in self._waiting}
        self._places = [_Place() for _ in range(places)]
        self._again: deque[tuple[str, int]] = deque()
        self._stopped = False

    def ids(self, file: str) -> tuple[str, ...]:
        """The node ids of a file that was collected."""
        return self._files[file].ids or ()

    def next(self, number: int, running_s: Mapping[int, float]) -> Order | None:
        """What worker `number` is to be told now; None: nothing.

        `running_s` are the seconds that the present test of each worker has been running.
        """
        place = self._places[number]
        if place.rest:
            file = self._files[place.file]
            # What is handed out nobody else can take: not more than quick tests so far speak for.
            ahead = max(2, min(_MOST_AHEAD, int(_AHEAD_S / file.test_s), 2 * file.done))
            if len(place.handed) > ahead // 2:
                return None
            count = min(len(place.rest), ahead - len(place.handed))
            tests = tuple(place.rest.popleft() for _ in range(count))
            place.handed.extend(tests)
            place.last = not place.rest
            place.fresh = False
            return Hand(place.file, tests, last=place.last)
        if place.handed:
            if place.last:
                return None
            place.last = True
            return Last()
        place.again = False
        return self._begin(number, place, running_s)

    def _begin(self, number: int, place: _Place, running_s: Mapping[int, float]) -> Order | None:
        """A new piece of work for a worker that has none."""
        loose = [name for name, file in self._files.items() if file.loose]
        for name in sorted(loose, key=lambda name: name not in place.collected):
            place.file, place.rest = name, self._files[name].loose.pop()
            return self._ready(number, place, running_s)
        if self._waiting:
            place.file = self._waiting.popleft()
            return self._ready(number, place, running_s)
        if (stolen := self._steal(place, running_s)) is not None:
            place.file, place.rest = stolen
            return self._ready(number, place, running_s)
        if self._again:
            if not place.fresh or place.collected - {self._again[0][0]}:
                return Renew()
            place.file, index = self._again.popleft()
            place.rest, place.again = deque([index]), True
            return self._ready(number, place, running_s)
        return None

    def _ready(self, number: int, place: _Place, running_s: Mapping[int, float]) -> Order | None:
        if place.file in place.collected:
            return self.next(number, running_s)
        return Collect(place.file)

    def _steal(self, thief: _Place, running_s: Mapping[int, float]) -> tuple[str, deque[int]] | None:
        """The further half of the most that another has before it, if that takes longer than collecting."""
        best: tuple[float, _Place] | None = None
        for number, place in enumerate(self._places):
            file = self._files.get(place.file)
            if place is thief or file is None or not place.rest or place.again or file.ids is None:
                continue
            each = max(file.test_s, running_s.get(number, 0.0))
            cost = 0.0 if place.file in thief.collected else file.collect_s
            worth = len(place.rest) * each / 2 - cost
            if file.shared and worth > 0 and (best is None or worth > best[0]):
                best = (worth, place)
        if best is None:
            return None
        victim = best[1]
        half = deque[int]()
        for _ in range((len(victim.rest) + 1) // 2):
            half.appendleft(victim.rest.pop())
        return victim.file, half

    def collected(self, number: int, ids: tuple[str, ...], seconds: float) -> tuple[str, ...]:
        """Worker `number` has collected its file; returns the ids of its tests that are not there this time.

        Where another process collected something else, the tests are not shared.
        """
        place = self._places[number]
        file = self._files[place.file]
        place.collected.add(place.file)
        if file.ids is None:
            file.ids, file.collect_s = ids, seconds
            place.rest = deque(range(len(ids)))
            return ()
        if ids == file.ids:
            return ()
        owned = any(one is not place and one.file == place.file and one.rest for one in self._places)
        file.shared = False
        if owned and not place.again:
            file.loose.append(place.rest)
            place.rest = deque()
            return ()
        known = set(ids)
        missing = [index for index in place.rest if file.ids[index] not in known]
        place.rest = deque(index for index in place.rest if file.ids[index] in known)
        return tuple(file.ids[index] for index in missing)

    def not_collected(self, number: int) -> tuple[str, ...]:
        """Worker `number` could not collect its file; returns the ids of the tests that it was to run."""
        place = self._places[number]
        file = self._files[place.file]
        left = tuple(file.ids[index] for index in place.rest) if file.ids else ()
        if file.ids is None:
            file.ids = ()
        place.rest = deque()
        return left

    def done(self, number: int, index: int, seconds: float) -> None:
        """Worker `number` has run a test."""
        place = self._places[number]
        if index in place.handed:
            place.handed.remove(index)
        file = self._files[place.file]
        file.done, file.done_s = file.done + 1, file.done_s + seconds

    def lost(self, number: int, current: int | None) -> None:
        """The process of worker `number` is gone, in the test `current`; another takes its place."""
        place = self._places[number]
        left = deque(index for index in [*place.handed, *place.rest] if index != current)
        if left and place.again:
            self._again.extendleft((place.file, index) for index in left)
        elif left:
            self._files[place.file].loose.append(left)
        elif place.file and self._files[place.file].ids is None:
            self._waiting.appendleft(place.file)
        self._places[number] = _Place()

    def again(self, file: str, index: int) -> None:
        """Run this test once more, in a fresh worker."""
        self._again.append((file, index))

    def stop(self) -> None:
        """Hand out nothing more but what is to run again."""
        self._stopped = True
        for file in self._files.values():
            file.loose.clear()
        for place in self._places:
            if not place.again:
                place.rest.clear()
        self._waiting.clear()

    def left(self) -> tuple[list[str], list[str], list[tuple[str, int]]]:
        """What nobody has run: files, node ids of tests, and tests that were to run again."""
        parts = [(name, part) for name, file in self._files.items() for part in file.loose]
        tests = [self.ids(name)[index] for name, part in parts for index in part]
        return list(self._waiting), tests, list(self._again)

    def known(self, file: str) -> bool:
        """Whether the file was collected before."""
        return self._files[file].ids is not None

    def finished(self) -> bool:
        """Whether nothing is left to do or under way."""
        waits = self._waiting or self._again or any(file.loose for file in self._files.values())
        return not waits and not any(place.rest or place.handed for place in self._places)

    def all_ahead(self) -> bool:
        """Whether every worker has several tests before it."""
        return all(len(place.handed) > 2 for place in self._places)

    def has_work(self, number: int) -> bool:
        """Whether worker `number` has something, or there is something for it."""
        place = self._places[number]
        return bool(
            place.rest
            or place.handed
            or self._waiting
            or self._again
            or any(file.loose for file in self._files.values())
        )
