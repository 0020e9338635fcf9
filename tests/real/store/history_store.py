"""A stand-in for a store under simulation: its own clock, publishers that take turns, kills, lost answers.

It wraps a real store (by default a dictionary), so what is simulated is when something happens and to whom,
never what a store does. Publishers are threads of which exactly one runs: before each operation that another
publisher could notice, a seeded generator says who goes on, who sleeps on, who is frozen for minutes, and who
is killed before it, or after it, when the answer was lost.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec

from rocwright.errors import IntegrityError, NoObject, RocwrightError
from rocwright.store.layout import check_key
from rocwright.store.lease import LEASES, PACE, Pace
from rocwright.store.objects.protocol import ObjectStore, Stored

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


class Memory:
    """Objects in a dictionary: the stand-in's stand-in for a disk."""

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})

    def put_file(self, source: Path, key: str) -> None:
        self.put_bytes(key, source.read_bytes())

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        check_key(key)
        if not overwrite and self.objects.get(key, data) != data:
            raise IntegrityError(f"{key} has other content", where=key)
        self.objects[key] = data

    def copy(self, source: str, key: str) -> None:
        self.put_bytes(key, self.read(source))

    def read(self, key: str) -> bytes:
        if key not in self.objects:
            raise NoObject(f"the store has no object {key}")
        return self.objects[key]

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.read(key)[start : start + length]

    def stat(self, key: str) -> Stored | None:
        data = self.objects.get(key)
        return None if data is None else Stored(key, len(data), START)

    def exists(self, key: str) -> bool:
        return key in self.objects

    def list(self, prefix: str) -> tuple[Stored, ...]:
        keys = sorted(key for key in self.objects if key.startswith(prefix))
        return tuple(Stored(key, len(self.objects[key]), START) for key in keys)

    def folders(self, prefix: str) -> tuple[str, ...]:
        below = (key[len(prefix) :].partition("/") for key in self.objects if key.startswith(prefix))
        return tuple(sorted({name for name, slash, _ in below if slash}))

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def digest(self, key: str) -> str:

        return hashlib.sha256(self.read(key)).hexdigest()

    def url(self, key: str) -> str:
        return f"http://127.0.0.1:8000/{key}"


@dataclass
class Fate:
    """What becomes of a publisher: killed at its n-th operation, before or after it; frozen at some."""

    dies_at: int | None = None
    answer_lost: bool = False
    freezes_at: int | None = None
    frozen_s: float = 0.0


@dataclass
class Publisher:
    """One process: a thread that runs when it is its turn."""

    name: str
    fate: Fate
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    done: bool = False
    dead: bool = False
    wakes: float = 0.0
    operations: int = 0
    result: Any = None
    problem: BaseException | None = None


@dataclass
class Counts:
    """What happened so far."""

    operations: int = 0
    writes: int = 0
    kills: int = 0
    lost_answers: int = 0
    freezes: int = 0
    waits: int = 0
    power_cuts: int = 0
    lost: int = 0
    lagging: int = 0


@dataclass(frozen=True)
class Lag:
    """From when to when listings show the store as it was so many seconds ago."""

    begin: float
    end: float
    seconds: float


class World:
    """The store, its clock, and who runs. `wrote(publisher, key)` is called after each change."""

    def __init__(self, backing: ObjectStore, seed: int, *, now: float = 0.0) -> None:
        self.backing = backing
        self.random = random.Random(seed)
        self.now = now
        # Every key there is, and when it came; the same by folder; what never changes once it was read.
        self.modified: dict[str, float] = {}
        self.folders: dict[str, set[str]] = {}
        # When what is gone came.
        self.born: dict[str, float] = {}
        # How often the keys of a folder changed: who remembers what follows from them compares this.
        self.changes: Counter[str] = Counter()
        self.remembered: dict[str, bytes] = {}
        self.counts = Counts()
        self.publishers: list[Publisher] = []
        self.finished = threading.Semaphore(0)
        self.wrote: Callable[[Publisher, str], None] = lambda publisher, key: None
        self.violation: BaseException | None = None
        # After so many operations the power fails, for all of them at once; `cut` is told what was lost.
        self.power_until: int | None = None
        self.cut: Callable[[list[str]], None] = lambda lost: None
        self.lag = Lag(0.0, 0.0, 0.0)
        # Rates at which turns change hands.
        self.switch = 0.3

    def came(self, key: str) -> None:
        """A key was written."""
        self.modified[key] = self.now
        folder = key.rpartition("/")[0]
        self.folders.setdefault(folder, set()).add(key)
        self.changes[folder] += 1

    def went(self, key: str) -> None:
        """A key was deleted, or lost."""
        self.born[key] = self.modified.pop(key, self.now)
        self.remembered.pop(key, None)
        folder = key.rpartition("/")[0]
        self.folders.get(folder, set()).discard(key)
        self.changes[folder] += 1

    def inside(self, folder: str) -> list[str]:
        """The keys of a folder (without `/`), sorted; not those of folders in it."""
        return sorted(self.folders.get(folder, ()))

    def once(self, key: str) -> bytes:
        """The content of a key that is written once."""
        if key not in self.remembered:
            self.remembered[key] = self.backing.read(key)
        return self.remembered[key]

    def at(self, seconds: float | None = None) -> datetime:
        """The store's clock."""
        return START + timedelta(seconds=self.now if seconds is None else seconds)

    def run(self, jobs: list[tuple[str, Fate, Callable[[ObjectStore], Any]]]) -> list[Publisher]:
        """Run jobs side by side to their ends, or deaths; raises what a check of the world raised."""
        self.publishers = [Publisher(name, fate) for name, fate, _ in jobs]
        threads = [
            threading.Thread(target=self._life, args=(publisher, job), daemon=True)
            for publisher, (_, _, job) in zip(self.publishers, jobs, strict=True)
        ]
        for thread in threads:
            thread.start()
        self._next().turn.release()
        self.finished.acquire()
        for thread in threads:
            thread.join()
        if self.violation is not None:
            raise self.violation
        return self.publishers

    def _life(self, publisher: Publisher, job: Callable[[ObjectStore], Any]) -> None:
        publisher.turn.acquire()
        PACE.set(
            Pace(
                clock=lambda: self.now,
                sleep=lambda seconds: self.sleep(publisher, seconds),
                chance=self.random.random,
            )
        )
        try:
            publisher.result = job(SimulatedStore(self, publisher))
            self._settle(publisher, "", write=True)
        except BaseException as problem:
            publisher.problem = problem
        publisher.done = True
        if any(not one.done for one in self.publishers):
            self._next().turn.release()
        else:
            self.finished.release()

    def _next(self) -> Publisher:
        alive = [one for one in self.publishers if not one.done]
        awake = [one for one in alive if one.wakes <= self.now]
        if not awake:
            self.now = min(one.wakes for one in alive)
            awake = [one for one in alive if one.wakes <= self.now]
        return self.random.choice(awake)

    def _yield(self, publisher: Publisher) -> None:
        chosen = self._next()
        if chosen is not publisher:
            chosen.turn.release()
            publisher.turn.acquire()

    def sleep(self, publisher: Publisher, seconds: float) -> None:
        """What a publisher that waits does: the others go on."""
        if publisher.dead:
            raise Killed
        self.counts.waits += 1
        publisher.wakes = self.now + seconds
        self._yield(publisher)

    def operate(self, publisher: Publisher, key: str, act: Callable[[], Any], *, write: bool) -> Any:
        """One operation of a publisher on `key`, with all that may befall it."""
        if publisher.dead or self.violation is not None:
            publisher.dead = True
            raise Killed
        fate = publisher.fate
        publisher.operations += 1
        self.counts.operations += 1
        # What is written once and never changes is the same whenever it is read.
        noticed = write or not key.startswith(("files/", "sets/"))
        self.now += self.random.uniform(0.01, 0.1) if noticed else 0.002
        if publisher.operations == fate.freezes_at:
            self.counts.freezes += 1
            publisher.wakes = self.now + fate.frozen_s
            self._yield(publisher)
        elif noticed and self.random.random() < self.switch:
            self._yield(publisher)
        dies = publisher.operations == fate.dies_at
        if dies and not fate.answer_lost:
            self._kill(publisher)
        if write and hasattr(self.backing, "begin"):
            # Also where its answer is lost, or the power goes just behind it.
            self.backing.begin(id(publisher), key)
        if self.power_until is not None and self.counts.operations >= self.power_until:
            self._lose_power(act if self.random.random() < 0.5 else lambda: None)
        result = act()
        if not dies:
            self._settle(publisher, key, write=write)
        if write:
            self.counts.writes += 1
            try:
                self.wrote(publisher, key)
            except BaseException as violation:
                self.violation = violation
                self._kill(publisher)
        if dies:
            self.counts.lost_answers += 1
            self._kill(publisher)
        return result

    def _settle(self, publisher: Publisher, key: str, *, write: bool) -> None:
        if hasattr(self.backing, "settle"):
            self.backing.settle(id(publisher), key, write=write)

    def _lose_power(self, act: Callable[[], Any]) -> None:
        """Everybody is dead; of what was under way and not synced some is there, some is not."""
        self.power_until = None
        self.counts.power_cuts += 1
        for one in self.publishers:
            one.dead = True
        with suppress(RocwrightError):
            act()
        lost = self.backing.lose(self.random)
        self.counts.lost += len(lost)
        for key in lost:
            self.remembered.pop(key, None)
            if self.backing.exists(key) and key not in self.modified:
                self.came(key)
            elif not self.backing.exists(key):
                self.went(key)
        try:
            self.cut(lost)
        except BaseException as violation:
            self.violation = violation
        raise Killed

    def shows(self, key: str) -> bool:
        """Whether a listing has the key by now."""
        lag = self.lag
        hidden = lag.begin <= self.now < lag.end and self.modified[key] > self.now - lag.seconds
        self.counts.lagging += hidden
        return not hidden

    def _kill(self, publisher: Publisher) -> None:
        self.counts.kills += 1
        publisher.dead = True
        raise Killed


class SimulatedStore:
    """The world's store as one publisher sees it."""

    def __init__(self, world: World, publisher: Publisher) -> None:
        self.world = world
        self.publisher = publisher

    def _operate(self, key: str, act: Callable[[], Any], *, write: bool = False) -> Any:
        return self.world.operate(self.publisher, key, act, write=write)

    def _write(self, key: str, act: Callable[[], None], *, overwrite: bool = False) -> None:
        def write() -> None:
            known = self.world.backing.exists(key)
            act()
            if overwrite or not known:
                self.world.came(key)

        self._operate(key, write, write=True)

    def put_file(self, source: Path, key: str) -> None:
        self._write(key, lambda: self.world.backing.put_file(source, key))

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        def put() -> None:
            self.world.backing.put_bytes(key, data, overwrite=overwrite)

        self._write(key, put, overwrite=overwrite)

    def copy(self, source: str, key: str) -> None:
        self._write(key, lambda: self.world.backing.copy(source, key))

    def delete(self, key: str) -> None:
        def remove() -> None:
            self.world.backing.delete(key)
            self.world.went(key)

        self._operate(key, remove, write=True)

    def read(self, key: str) -> bytes:
        return self._operate(key, lambda: self.world.backing.read(key))

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self._operate(key, lambda: self.world.backing.read_range(key, start, length))

    def _timed(self, stored: Stored) -> Stored:
        # Whole seconds, as S3 has them.
        return msgspec.structs.replace(stored, modified=self.world.at(int(self.world.modified[stored.key])))

    def stat(self, key: str) -> Stored | None:
        found = self._operate(key, lambda: self.world.backing.stat(key))
        return None if found is None else self._timed(found)

    def exists(self, key: str) -> bool:
        return self._operate(key, lambda: self.world.backing.exists(key))

    def list(self, prefix: str) -> tuple[Stored, ...]:
        found = self._operate(prefix, lambda: self.world.backing.list(prefix))
        return tuple(self._timed(one) for one in found if self.world.shows(one.key))

    def folders(self, prefix: str) -> tuple[str, ...]:
        return self._operate(prefix, lambda: self.world.backing.folders(prefix))

    def digest(self, key: str) -> str:
        return self._operate(key, lambda: self.world.backing.digest(key))

    def url(self, key: str) -> str:
        return self.world.backing.url(key)


def copied(world: World, seed: int) -> World:
    """The world as it would be if everybody were killed now and somebody came an hour later; memory only."""
    assert isinstance(world.backing, Memory)
    other = World(type(world.backing)(world.backing.objects), seed, now=world.now + 3600)
    other.modified = dict(world.modified)
    other.folders = {folder: set(keys) for folder, keys in world.folders.items()}
    other.changes = Counter(world.changes)
    other.remembered = dict(world.remembered)
    return other


def is_lease(key: str) -> bool:
    """Whether a key is a lease, which no client ever sees."""
    return key.startswith(LEASES)


__all__ = ["Fate", "Killed", "Memory", "Publisher", "SimulatedStore", "World", "copied", "is_lease"]
