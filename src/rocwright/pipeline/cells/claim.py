"""One machine at a time does a cell: a lease in the store, renewed while it works, taken over when it died.

Losing a lease costs work, not correctness: two machines that do a cell at once both write what they made
under its digest, and the first record stands. So a machine that was asleep just goes on.
"""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from rocwright.errors import ChannelBusy, RocwrightError, UsageError
from rocwright.store.lease import LEASES, PACE, Lease, Pace, leased
from rocwright.store.objects.protocol import ObjectStore, Stored
from rocwright.system import process

LEASE_S = "ROCWRIGHT_LEASE_S"
_LEAST_S = 1.0
_USUAL_S = 120.0
# A store may tell times in whole seconds.
_ROUNDING_S = 2.0
_LONGEST_PAUSE_S = 5.0
# So often a lease of our own is refused although nobody else has any, before the store is to blame.
_UNSEEN = 40

_T = TypeVar("_T")
Say = Callable[[str], None]
_held: dict[str, Lease] = {}
# Leases of this process that are over, whether the store could be told or not.
_over: set[str] = set()
_lock = threading.Lock()


class AtWork(Exception):
    """Somebody else does the cell at this moment. Never leaves this room."""


class _By(msgspec.Struct):
    by: str = ""


def pace() -> Pace:
    """How long a lease holds without being renewed; `ROCWRIGHT_LEASE_S` in seconds, by default 120."""
    said = os.environ.get(LEASE_S, "").strip()
    try:
        seconds = float(said) if said else _USUAL_S
    except ValueError:
        seconds = 0.0
    if not _LEAST_S <= seconds <= 24 * 3600:
        raise UsageError(
            f"{LEASE_S} is {said!r}", next_step="write seconds, 1 or more; 120 where it is not set"
        )
    return Pace(ttl=seconds, patience=-1.0)


def who() -> str:
    """This process, for people and for others on this machine that want to know whether it still lives."""
    return f"{platform.node()}, process {os.getpid()} [{_boot()} {_began(os.getpid())}]"


@contextmanager
def claimed(
    store: ObjectStore, scope: str, ready: Callable[[], _T | None], say: Say, *, patient: bool = True
) -> Iterator[_T | None]:
    """Hold the right to do a cell while the block runs, or yield what `ready` gives: it is done already.

    Waits while somebody else does it; not `patient`: raises `AtWork` then. `scope` ends with `/`.
    """
    # No other scope begins with it, as places of families lie below those of their group.
    scope = f"{scope}_cell/"
    with ExitStack() as stack:
        watch = _Watch(store, scope, say)
        unseen = 0
        while True:
            found = ready()
            if found is not None:
                yield found
                return
            busy = watch.busy()
            if not busy:
                try:
                    _enter(stack, store, scope, say)
                    break
                except ChannelBusy:
                    unseen = 0 if store.list(LEASES + scope) else unseen + 1
                    if unseen > _UNSEEN:
                        raise
            if busy and not patient:
                raise AtWork
            process.pause(watch.pause())
        # Whoever had it before us may have just ended.
        yield ready()


def _enter(stack: ExitStack, store: ObjectStore, scope: str, say: Say) -> None:
    def lost() -> None:
        say("warning: this machine was away too long; another one may be doing the same step by now")

    ended: list[str] = []
    stack.callback(_over.update, ended)
    # Only for this: channels are leased inside, at their own pace.
    token = PACE.set(pace())
    try:
        lease = stack.enter_context(leased(store, scope, by=who(), lost=lost))
    finally:
        PACE.reset(token)
    ended.append(lease.key)
    stack.enter_context(_noted(lease))


@contextmanager
def _noted(lease: Lease) -> Iterator[None]:
    with _lock:
        _held[lease.key] = lease
    try:
        yield
    finally:
        with _lock:
            _held.pop(lease.key, None)


def release_all() -> None:
    """Give back what this process still holds: it is about to end."""
    with _lock:
        held = dict(_held)
    for key, lease in held.items():
        with suppress(RocwrightError, OSError):
            lease.store.delete(key)


class _Watch:
    """Looks at the leases of others without writing anything, as waiting may take hours."""

    def __init__(self, store: ObjectStore, scope: str, say: Say) -> None:
        self._store, self._scope, self._say = store, scope, say
        self._seen: dict[str, tuple[Stored, float]] = {}
        self._told = ""
        self._waited = 0
        self._pace = pace()

    def busy(self) -> bool:
        """Whether somebody holds a lease that may still count."""
        now = self._pace.clock()
        alive = False
        for one in self._store.list(LEASES + self._scope):
            before, since = self._seen.get(one.key, (one, now))
            if before != one:
                before, since = one, now
            self._seen[one.key] = (before, since)
            if now - since > self._pace.ttl + _ROUNDING_S:
                # Nobody renewed it: whether it has expired is for the store's own clock to say.
                continue
            by = self._holder(one.key)
            if one.key in _over or _dead(by):
                self._say(f"{_plain(by)} ended without finishing; taking over")
                self._store.delete(one.key)
                continue
            alive = True
            if by != self._told:
                self._say(f"waiting: {_plain(by) or 'another machine'} is working on it")
                self._told = by
        return alive

    def pause(self) -> float:
        """Seconds until the next look; longer and longer, never the same for two that wait."""
        self._waited += 1
        return min(0.1 * 1.3**self._waited, _LONGEST_PAUSE_S, self._pace.ttl) * (0.5 + self._pace.chance())

    def _holder(self, key: str) -> str:
        try:
            return msgspec.json.decode(self._store.read(key), type=_By).by
        except (RocwrightError, msgspec.MsgspecError):
            return ""


_PROCESS = re.compile(r", process (\d+) \[(\S+) (\d+)\]$")


def _dead(by: str) -> bool:
    """Whether the holder was a process of this machine, as it runs now, and is gone."""
    match = _PROCESS.search(by)
    if match is None or match[2] != _boot() or _boot() == "-":
        return False
    return _began(int(match[1])) != int(match[3])


def _plain(by: str) -> str:
    return _PROCESS.sub(r", process \1", by)


@cache
def _boot() -> str:
    """This start of this machine and its space of process numbers; `-` where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "-"


def _began(pid: int) -> int:
    """When a process began, in ticks since the machine's start; 0 once it is gone. proc_pid_stat(5)."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])
