"""One publisher at a time, on any store that shows at once what was written, without compare-and-swap.

A publisher creates an object of its own below `_leases/<scope>/`, then lists them all. Alone, it goes on;
beside another it removes its own, waits for a random time and tries again. Of two that come at the same
moment, who lists later sees the other: so at most one of them goes on, and perhaps none. The scope is a
channel's prefix, or the whole store, which excludes every channel.

A publisher that died leaves its object behind. It counts as gone when it is older than `ttl` compared with
the object that the newcomer has just written: both times are the store's, no clock of a machine takes part.
The holder for its part stops well before: it measures the time since it last renewed (a clock that goes on
while the machine sleeps), and asks the store again before it says that a change is done. A thread renews in
time: listing a million objects or rendering two million lines takes longer than a lease lasts. Through
`HeldStore` every write asks first whether the lease still holds.

A holder that is paused just before a write, for longer than `ttl`, still does this one write later. It cannot
lose anything: events have keys of their own. A page it writes may be older than the log; it notices, and
brings the pages into line. If it is killed in just that moment, whoever publishes next does, because pages
are compared with what the log asks for, not with what somebody remembers to have written.
"""

from __future__ import annotations

import math
import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from rocwright.errors import ChannelBusy, NoObject, NoSpace, RocwrightError
from rocwright.model.sets import canonical_json
from rocwright.store.objects.protocol import InFront, ObjectStore, Stored
from rocwright.system import console

LEASES = "_leases/"
WHOLE_STORE = "_store/"
# Steps of the pipeline hold leases of their own for hours; they and changes of the store do not meet.
PIPELINE = "_pipeline/"
# Some stores tell times in whole seconds.
_ROUNDING_S = 2.0
# Once the pauses are longer than this, whoever waits is told for what.
_SHORT_S = 0.5


def _awake() -> float:
    """Seconds that also pass while the machine sleeps, where the system can tell."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Pace(msgspec.Struct, frozen=True):
    """How long a lease lasts, how long to wait for it, and by what clock; seconds."""

    ttl: float = 120.0
    patience: float = 600.0
    clock: Callable[[], float] = _awake
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


# Tests make time pass at once.
PACE: ContextVar[Pace] = ContextVar("PACE", default=Pace())  # noqa: B039 - frozen


class LeaseLost(Exception):
    """The holder was too slow, so somebody else may publish by now. Never leaves this room."""


class _Holder(msgspec.Struct, frozen=True):
    """What a lease says about its holder."""

    by: str = ""
    renewed: int = 0


class Lease(msgspec.Struct):
    """The right to change one channel, or the whole store, for a while.

    `now` is the time of the store when the lease was last renewed.
    """

    store: ObjectStore
    key: str
    by: str
    pace: Pace
    now: datetime
    began: float
    _count: int = msgspec.field(default=0)
    _renewing: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease holds long enough for one more write; renew it in time."""
        elapsed = self.pace.clock() - self.began
        if elapsed > self.pace.ttl / 2:
            raise LeaseLost
        if elapsed > self.pace.ttl / 6:
            self.renew()

    def renew(self) -> None:
        """Renew, and let the store's clock say that the lease never expired in between, else `LeaseLost`."""
        with self._renewing:
            began = self.pace.clock()
            if began - self.began > self.pace.ttl / 2 or not self.store.exists(self.key):
                raise LeaseLost
            self._count += 1
            _put(self.store, self.key, _Holder(self.by, self._count), overwrite=True)
            stored = self.store.stat(self.key)
            if stored is None or (stored.modified - self.now).total_seconds() > self.pace.ttl:
                raise LeaseLost
            if self.pace.clock() - self.began > self.pace.ttl / 2:
                raise LeaseLost
            self.now, self.began = stored.modified, began

    @contextmanager
    def kept(self, lost: Callable[[], None]) -> Iterator[None]:
        """Renew in time while the block runs, whatever it waits for; `lost` is called where that failed."""
        ended = threading.Event()

        def keep() -> None:
            while not ended.wait(self.pace.ttl / 6):
                try:
                    self.check()
                except LeaseLost:
                    lost()
                    return
                except RocwrightError:
                    # The store may answer again before the lease ends.
                    continue

        keeper = threading.Thread(target=keep, name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            # A renewal under way would bring back what is removed next.
            keeper.join(timeout=30)


@contextmanager
def leased(
    store: ObjectStore, scope: str, *, by: str = "", lost: Callable[[], None] = lambda: None
) -> Iterator[Lease]:
    """Hold the lease of `scope` (a channel's prefix, or `WHOLE_STORE`) while the block runs.

    `lost` is called, in another thread, when it is not held any more; who writes through `HeldStore` finds
    out without. Raises `ChannelBusy` naming the holder when it could not be had in time.
    """
    lease = _acquire(store, scope, by, PACE.get())
    try:
        with lease.kept(lost):
            yield lease
    except BaseException:
        # What went wrong is to be told, not that the store does not take this, either.
        with suppress(RocwrightError):
            store.delete(lease.key)
        raise
    store.delete(lease.key)


def _acquire(store: ObjectStore, scope: str, by: str, pace: Pace) -> Lease:
    until = pace.clock() + pace.patience
    pause = 0.05
    told = False
    while True:
        lease, holder = _try(store, scope, by, pace)
        if holder is None:
            return lease
        store.delete(lease.key)
        # Who is only passing is gone before anybody has read of them.
        if pause > _SHORT_S and not told:
            told = True
            console.say(_waiting(store, scope, holder, lease))
        if pace.clock() > until:
            raise ChannelBusy(
                f"{_named(scope)} is being changed by {_who(store, holder)}",
                where=holder.key,
                next_step="run again when it has ended; a lease that nobody renews expires by itself",
            )
        pace.sleep(pause * (1 + pace.chance()))
        pause = min(2 * pause, 5.0)


def _waiting(store: ObjectStore, scope: str, holder: Stored, mine: Lease) -> str:
    """What is waited for: a publisher that was killed says nothing, so neither would the wait."""
    expires = holder.modified + timedelta(seconds=mine.pace.ttl + _ROUNDING_S)
    left = max(0, math.ceil((expires - mine.now).total_seconds()))
    return (
        f"waiting for {_named(scope)}: it is held by {_who(store, holder)}; unless renewed, it expires "
        f"by itself in {left} s, at {_time(expires)} by the store's clock"
    )


def _try(store: ObjectStore, scope: str, by: str, pace: Pace) -> tuple[Lease, Stored | None]:
    """A lease of our own, and who else has a lease that counts."""
    key = f"{LEASES}{scope}{secrets.token_hex(16)}.json"
    began = pace.clock()
    try:
        _put(store, key, _Holder(by))
        found = {one.key: one for one in store.list(LEASES)}
        mine = found.pop(key, None)
        if mine is None:
            raise ChannelBusy(
                f"{key} was written but is not in the listing of the store",
                where=key,
                next_step="use a store that lists at once what was written to it",
            )
    except BaseException:
        # Perhaps it is there although the answer was lost; nobody is to wait for it. What went wrong is to be
        # told, not that this does, too.
        with suppress(RocwrightError):
            store.delete(key)
        raise
    others = [one for one in found.values() if _conflict(one.key, scope)]
    alive = [one for one in others if not _expired(one, mine, pace.ttl)]
    if not alive:
        for left_behind in others:
            store.delete(left_behind.key)
    # Of several the one that has been silent for longest: others wait as well.
    silent = min(alive, key=lambda one: (one.modified, one.key), default=None)
    return Lease(store, key, by, pace, mine.modified, began), silent


def _put(store: ObjectStore, key: str, holder: _Holder, *, overwrite: bool = False) -> None:
    """A lease; without a word of who holds it on a disk that is full: it may be held to free some space."""
    try:
        store.put_bytes(key, canonical_json(holder), overwrite=overwrite)
    except NoSpace:
        store.put_bytes(key, b"", overwrite=overwrite)


def _conflict(key: str, scope: str) -> bool:
    if scope.startswith(PIPELINE) or key.startswith(LEASES + PIPELINE):
        return key.startswith(LEASES + scope)
    whole = LEASES + WHOLE_STORE
    return scope == WHOLE_STORE or key.startswith((LEASES + scope, whole))


def _expired(other: Stored, mine: Stored, ttl: float) -> bool:
    return (mine.modified - other.modified).total_seconds() > ttl + _ROUNDING_S


def _named(scope: str) -> str:
    return "the store" if scope == WHOLE_STORE else scope


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _who(store: ObjectStore, holder: Stored) -> str:
    """For a message only: the holder may end while we ask."""
    since = _time(holder.modified)
    try:
        by = msgspec.json.decode(store.read(holder.key), type=_Holder).by
    except NoObject:
        return "one publisher after the other"
    except msgspec.MsgspecError:
        by = ""
    return f"{by or 'another publisher'}, last seen at {since}"


class HeldStore(InFront):
    """The lease's store; `put_*`, `copy` and `delete` raise `LeaseLost` once somebody else may publish."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(lease.store)
        self.lease = lease

    def put_file(self, source: Path, key: str) -> None:
        """See `ObjectStore.put_file`."""
        self.lease.check()
        self.below.put_file(source, key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`."""
        self.lease.check()
        self.below.put_bytes(key, data, overwrite=overwrite)

    def copy(self, source: str, key: str) -> None:
        """See `ObjectStore.copy`."""
        self.lease.check()
        self.below.copy(source, key)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        self.lease.check()
        self.below.delete(key)
