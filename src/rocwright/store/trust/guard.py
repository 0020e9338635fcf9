"""A store in which, where a channel trusts keys, only what is signed counts; what it is given, it signs.

It stands between the store and all that reads it: the gate, publishing, pages, landing page, retention,
repair. An event or a mark that is not signed for its place is not in its listings, so nobody can forget to
ask. What is written through it is signed first, so that nobody ever sees it without. Channels without trusted
keys are passed through as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from datetime import date

from rocwright.errors import GateClosed, IntegrityError, NoObject
from rocwright.model.channels import Channel, Channels
from rocwright.model.sets import canonical_json
from rocwright.model.trusted import Trusted
from rocwright.store.layout import LOG
from rocwright.store.objects.protocol import InFront, ObjectStore, Stored, read_there
from rocwright.store.trust.keys import FIND_OUT, PRIVATE_ENV, SigningKey
from rocwright.store.trust.roots import Trust, trust_of
from rocwright.store.trust.seals import (
    SIGNATURES,
    STATEMENT_TYPE,
    STATEMENTS,
    Forged,
    Sealed,
    Seals,
    digest_of,
    kind_of,
    last_before,
    place_of,
    promotes_elsewhere,
    save_signature,
    sealed_log,
    statement_refused,
)

_IN_LOG = re.compile(rf"(?P<prefix>(?P<channel>[^/]+)/[^/]+/){LOG}(?P<name>(?:\d{{8}}|shown)-[^/]+\.json)")
_SIGNED = re.compile(r"(?P<stem>\d{8}-[0-9a-f]{16})\.[0-9a-f]{16}\.json")
_STATEMENT = re.compile(rf"sets/(?P<set>[0-9a-f]{{64}})/{STATEMENTS}[^/]+\.json")


class Guarded(InFront):
    """An `ObjectStore` in front of another; see above. Hides statements that one of `only` does not count.

    Statements are signed only by those who are `stating` something. Methods raise `IntegrityError` for a root
    of trust that cannot be believed, `GateClosed` for an event that no key at hand may sign.
    """

    def __init__(
        self,
        below: ObjectStore,
        channels: Iterable[Channel],
        today: date,
        signers: tuple[SigningKey, ...] = (),
        *,
        only: tuple[Trust, ...] = (),
        stating: bool = True,
    ) -> None:
        super().__init__(below)
        self.signers = signers
        self._stating = stating
        self._channels = {one.prefix: one for one in channels if one.trusted is not None}
        self._today = today
        self._only = only
        self._trusts: dict[str, Trust] = {}
        self._logs: dict[str, Sealed] = {}
        self._seals = Seals(below)

    def trust(self, prefix: str) -> Trust | None:
        """Whom the channel with a key below this prefix trusts; None where it trusts no keys."""
        channel = self._channels.get(prefix.partition("/")[0])
        if channel is None:
            return None
        if channel.name not in self._trusts:
            found = trust_of(self.below, channel, self._today)
            assert found is not None
            self._trusts[channel.name] = found
        return self._trusts[channel.name]

    def trusts(self) -> tuple[Trust, ...]:
        """Whom the channels trust, of those that trust keys."""
        return tuple(trust for prefix in self._channels if (trust := self.trust(prefix)) is not None)

    def seen_by(self, trusts: tuple[Trust, ...]) -> Guarded:
        """The store without statements that one of these does not count."""
        return Guarded(self.below, self._channels.values(), self._today, self.signers, only=trusts)

    def refused_events(self, prefix: str) -> tuple[Forged, ...]:
        """Events in the log at `prefix` that are there and count for nothing; marks are only a cache."""
        if self.trust(prefix) is None:
            return ()
        refused, there = self._look(prefix).refused, set(self._names_in(prefix))
        return tuple(
            Forged(f"{prefix}{LOG}{name}", why)
            for name, why in refused.items()
            if name in there and not name.startswith("shown-")
        )

    def signed_events(self, prefix: str) -> dict[str, bytes]:
        """What was signed for each event that counts, by its key, also where the event itself is lost."""
        if self.trust(prefix) is None:
            return {}
        sealed = self._look(prefix)
        said = {
            name: place.said.encode() for name, (place, _) in sealed.places.items() if name in sealed.names
        }
        return {
            f"{prefix}{LOG}{name}": data
            for name, data in said.items()
            if hashlib.sha256(data).hexdigest() == sealed.names[name] and not name.startswith("shown-")
        }

    def refused_statements(self, set_digest: str, trust: Trust) -> tuple[Forged, ...]:
        """Statements about a set that are there and count for nothing, but promotions to other channels."""
        found = []
        for stored in self.below.list(f"sets/{set_digest}/{STATEMENTS}"):
            data = read_there(self.below, stored.key)
            if data is None or promotes_elsewhere(data, trust.channel):
                continue
            why = statement_refused(self._seals, stored.key, data, set_digest, trust.trusted)
            if why is not None:
                found.append(Forged(stored.key, why))
        return tuple(found)

    def sign_log(self, prefix: str, *, adopt: bool = False, before: Trust | None = None) -> tuple[str, ...]:
        """Sign the events at `prefix` that another trusted key signed; returns their names.

        With `adopt` all that is there, in its order; with a trust `before`, all that it let count.
        """
        trust = self.trust(prefix)
        keys = [] if trust is None else [one for one in self.signers if one.public in trust.trusted.release]
        if trust is None or not keys:
            raise self._no_key(prefix)
        names = self._names(prefix)
        counted = sealed_log(self._seals, prefix, names, (before or trust).trusted)
        done: list[str] = []
        behind = {"": 0}
        for name in names:
            place = counted.places[name][0] if name in counted.places else None
            if name.startswith("shown-") or not (adopt or place is not None):
                continue
            if before is not None and name not in counted.names:
                continue
            key = f"{prefix}{LOG}{name}"
            if adopt and name not in counted.names:
                data = read_there(self.below, key)
                place = None if data is None else place_of(prefix, name, data, last_before(behind, name))
            if place is None:
                continue
            body = canonical_json(place)
            for one in keys:
                self._seals.forget(save_signature(self.below, key, kind_of(name), body, one))
            behind[digest_of(place)] = int(name[:8])
            done.append(name)
        self._logs.pop(prefix, None)
        return tuple(done)

    # -- reading

    def _names_in(self, prefix: str) -> list[str]:
        folder = f"{prefix}{LOG}"
        found = (one.key.removeprefix(folder) for one in self.below.list(folder))
        return [name for name in found if _IN_LOG.fullmatch(f"{folder}{name}")]

    def _names(self, prefix: str) -> list[str]:
        """Of what is in the log, and of what was signed and is lost: later events stand behind it."""
        folder = f"{prefix}{SIGNATURES}"
        signed = (_SIGNED.fullmatch(one.key.removeprefix(folder)) for one in self.below.list(folder))
        lost = (f"{match['stem']}.json" for match in signed if match is not None)
        return sorted({*self._names_in(prefix), *lost})

    def _look(self, prefix: str) -> Sealed:
        trust = self.trust(prefix)
        assert trust is not None
        self._logs[prefix] = sealed_log(self._seals, prefix, self._names(prefix), trust.trusted)
        return self._logs[prefix]

    def _logged(self, key: str) -> re.Match[str] | None:
        match = _IN_LOG.fullmatch(key)
        return match if match is not None and self.trust(match["prefix"]) is not None else None

    def _hidden(self, key: str) -> bool:
        if (match := self._logged(key)) is not None:
            sealed = self._logs.get(match["prefix"])
            if sealed is None or match["name"] not in sealed.names:
                sealed = self._look(match["prefix"])
            return match["name"] not in sealed.names
        about = _STATEMENT.fullmatch(key) if self._only else None
        if about is None:
            return False
        data = read_there(self.below, key)
        return data is not None and any(
            statement_refused(self._seals, key, data, about["set"], one.trusted) is not None
            for one in self._only
        )

    def list(self, prefix: str) -> tuple[Stored, ...]:
        """See `ObjectStore.list`."""
        return tuple(self._shown(self.below.list(prefix)))

    def _shown(self, objects: Iterable[Stored]) -> Iterator[Stored]:
        looked: dict[str, Sealed] = {}
        for one in objects:
            match = self._logged(one.key)
            if match is None:
                if not self._hidden(one.key):
                    yield one
                continue
            if match["prefix"] not in looked:
                looked[match["prefix"]] = self._look(match["prefix"])
            if match["name"] in looked[match["prefix"]].names:
                yield one

    def read(self, key: str) -> bytes:
        """See `ObjectStore.read`."""
        if self._hidden(key):
            raise NoObject(f"the store has no object {key} that counts", where=key)
        data = self.below.read(key)
        if (match := self._logged(key)) is not None:
            digest = hashlib.sha256(data).hexdigest()
            if (
                match["name"].endswith(f"-{digest[:16]}.json")
                and digest != self._logs[match["prefix"]].names[match["name"]]
            ):
                raise IntegrityError(f"{key} is not what was signed", where=key, next_step=FIND_OUT)
        return data

    def stat(self, key: str) -> Stored | None:
        """See `ObjectStore.stat`."""
        return None if self._hidden(key) else self.below.stat(key)

    def exists(self, key: str) -> bool:
        """See `ObjectStore.exists`."""
        return not self._hidden(key) and self.below.exists(key)

    def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
        """See `ObjectStore.put_bytes`; what has to be signed is signed first."""
        match = self._logged(key)
        if match is not None and not self._sign_place(key, match["prefix"], match["name"], data):
            return
        if self.signers and self._stating and _STATEMENT.fullmatch(key) is not None:
            for one in self.signers:
                self._seals.forget(save_signature(self.below, key, STATEMENT_TYPE, data, one))
        self.below.put_bytes(key, data, overwrite=overwrite)

    def _sign_place(self, key: str, prefix: str, name: str, data: bytes) -> bool:
        """Sign an event or a mark; False for a mark that nobody can sign: without it nothing is lost."""
        trust = self.trust(prefix)
        assert trust is not None
        sealed = self._look(prefix)
        digest = hashlib.sha256(data).hexdigest()
        if sealed.names.get(name) == digest:
            return True
        signed = sealed.places.get(name)
        keys = [one for one in self.signers if one.public in trust.trusted.release]
        mark = name.startswith("shown-")
        if not keys:
            if mark:
                return False
            raise self._no_key(prefix)
        place = place_of(prefix, name, data, "" if mark else last_before(sealed.behind, name))
        if signed is not None and signed[0].sha256 == digest:
            place = signed[0]
        for one in keys:
            self._seals.forget(save_signature(self.below, key, kind_of(name), canonical_json(place), one))
        self._logs.pop(prefix, None)
        return True

    def _no_key(self, prefix: str) -> GateClosed:
        channel = self._channels[prefix.partition("/")[0]]
        return GateClosed(
            f"{channel.name} takes only what is signed, and no key at hand is trusted with its release",
            next_step=f"put the private key's PEM text into {PRIVATE_ENV}, and run again",
        )


def guarded(
    store: ObjectStore,
    channels: Channels,
    today: date,
    signers: tuple[SigningKey, ...] = (),
    *,
    stating: bool = True,
) -> ObjectStore:
    """The store as its channels' trusted keys let it be seen; the store itself where there are none.

    Who repairs is not `stating` anything: what a forger wrote must not come to be signed by the way.
    """
    named = [channels.named(one.name) for one in channels.channel]
    if not signers and all(one.trusted is None for one in named):
        return store
    return Guarded(store, named, today, signers, stating=stating)


def guard_of(store: ObjectStore) -> Guarded | None:
    """The guard that stands in front of a store, also behind a lease; None where there is none."""
    inner: object = store
    while inner is not None:
        if isinstance(inner, Guarded):
            return inner
        inner = getattr(inner, "below", None) or getattr(inner, "_below", None)
    return None


def minding(store: ObjectStore, channel: Channel, today: date) -> ObjectStore:
    """The store itself where it is guarded, or the channel trusts no keys; else with a guard before it."""
    if channel.trusted is None or guard_of(store) is not None:
        return store
    return Guarded(store, [channel], today)


def as_gate_sees(store: ObjectStore, channel: Channel, today: date) -> ObjectStore:
    """The store without statements that the gate of a channel does not count."""
    guard = guard_of(minding(store, channel, today))
    trust = None if guard is None else guard.trust(channel.prefix)
    return store if guard is None or trust is None else guard.seen_by((trust,))


def trusted_now(store: ObjectStore, channel: Channel) -> Trusted | None:
    """The keys that a channel trusts today, of the store's root where it has one; None where it trusts none.

    The store has to be one that minds this channel.
    """
    guard = guard_of(store)
    trust = None if guard is None else guard.trust(f"{channel.prefix}/")
    return None if trust is None else trust.trusted


def refused_statements(store: ObjectStore, channel: Channel, set_digest: str) -> tuple[Forged, ...]:
    """Statements about a set that are there, and count for nothing in a channel."""
    guard = guard_of(store)
    trust = None if guard is None else guard.trust(f"{channel.prefix}/")
    return () if guard is None or trust is None else guard.refused_statements(set_digest, trust)


def signed_only(store: ObjectStore) -> ObjectStore:
    """The store without statements that do not count in a channel that trusts keys: not to be signed."""
    guard = guard_of(store)
    return store if guard is None else guard.seen_by(guard.trusts())


def refused_events(store: ObjectStore, prefix: str) -> tuple[Forged, ...]:
    """Events in the log at `prefix` that count for nothing, as nobody signed them who has to."""
    guard = guard_of(store)
    return () if guard is None else guard.refused_events(prefix)


def require_all_signed(store: ObjectStore, prefixes: Iterable[str]) -> None:
    """Raise `IntegrityError` where a log has events that count for nothing: what they name may be meant."""
    for prefix in prefixes:
        for forged in refused_events(store, prefix):
            raise IntegrityError(
                f"{forged}; what it may refer to is not to be deleted",
                where=forged.key,
                next_step="find out who wrote it; delete it, or sign it: rocwright store trust sign",
            )


def signed_events(store: ObjectStore, prefix: str) -> dict[str, bytes]:
    """What was signed for each event of the channel at `prefix` that counts; none where it trusts no keys."""
    guard = guard_of(store)
    return {} if guard is None else guard.signed_events(prefix)


def trusts_keys(store: ObjectStore, prefix: str) -> bool:
    """Whether nothing counts in the channel at `prefix` but what is signed."""
    guard = guard_of(store)
    return guard is not None and guard.trust(prefix) is not None
