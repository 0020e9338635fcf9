"""Somebody who may write into the store, but has none of the keys that its channels trust.

What such a one drops there is no part of what the checker counts: it is kept apart by its keys. If the gate,
a repair or a page counts it all the same, the checker finds a set that must not be there.
"""

from __future__ import annotations

import hashlib
import json
import random
from importlib.util import find_spec
from typing import Any

import msgspec

from real.store.history_builds import RULE, Build
from real.store.history_checks import Checker
from real.store.history_evidence import required
from real.store.history_harm import Job
from rocwright.model.channels import Channels

# Only where signatures cover all that opens a gate is there something to forge.
SIGNS = find_spec("rocwright.store.trust") is not None


def key_of(seed: int) -> tuple[Any, ...]:
    """The key of an honest publisher, the same for the same seed; none where nothing is signed."""
    if not SIGNS:
        return ()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    from rocwright.store.trust.keys import signing_keys

    private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(str(seed).encode()).digest())
    return signing_keys(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def trusting(channels: Channels, keys: tuple[Any, ...]) -> Channels:
    """The table, with channels that trust these keys."""
    public = tuple(one.public for one in keys)
    return msgspec.structs.replace(channels, trusted={one.name: public for one in channels.channel})


def signing(job: Job, channels: Channels, keys: tuple[Any, ...], today: Any, *, stating: bool = True) -> Job:
    """The job of somebody who has the keys, as the commands open a store."""
    if not keys:
        return job
    from rocwright.store.trust.guard import guarded

    return lambda store: job(guarded(store, channels, today, keys, stating=stating))


def sign(store: Any, built: Build, keys: tuple[Any, ...]) -> None:
    """What `set create` does with a key: the manifest is signed before anybody lists it."""
    if keys:
        from rocwright.store.sets.sign import sign_set

        sign_set(store, built.manifest, keys)


def forge(checker: Checker, prefix: str, past: list[Build], chance: random.Random) -> str:
    """Drop something into the store that nobody signed, about one of the last sets; says what it was."""
    recorded = [one for one in past[-6:] if f"sets/{one.id}/manifest.json" in checker.world.modified]
    if not recorded:
        return "nothing to forge about"
    built = chance.choice(recorded)
    what = chance.choice(["results", "waiver", "event", "withdrawal"])
    if what == "results":
        for suite, family, target in required(msgspec.to_builtins(built.manifest)):
            said = {"suite": suite, "family": family, "target": target, "result": "passed", "runner": True}
            _state(checker, built, "test", {**said, "attempt": 99})
    elif what == "waiver":
        _state(checker, built, "waiver", {"rule": RULE, "reason": "forged", "expires": "9999-12-31"})
    else:
        action = "list" if what == "event" else "yank"
        # Beside the last one, or behind it: a gap would be seen as damage.
        last = max((int(key[-30:-22]) for key, _ in checker.folded(prefix).events), default=0)
        number = max(1, last + chance.randint(0, 1))
        event = {"action": action, "at": "2026-01-01T00:00:00Z", "by": "forger", "reason": "forged"}
        data = _canonical({**event, "schema": "rocwright.channel-event/1", "sets": [built.id]})
        _drop(checker, f"{prefix}_log/{number:08d}-{hashlib.sha256(data).hexdigest()[:16]}.json", data)
    return what


def _state(checker: Checker, built: Build, kind: str, predicate: dict[str, Any]) -> None:
    subjects = [{"name": "rocwright:set", "digest": {"sha256": built.id}}]
    subjects += [{"name": one.name, "digest": {"sha256": one.sha256}} for one in built.manifest.files]
    said = {"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicate": predicate}
    data = _canonical({**said, "predicateType": f"urn:rocwright:{kind}:v1"})
    name = f"{kind}-{hashlib.sha256(data).hexdigest()[:32]}.json"
    _drop(checker, f"sets/{built.id}/_statements/{name}", data)


def _canonical(value: dict[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _drop(checker: Checker, key: str, data: bytes) -> None:
    world = checker.world
    if key in world.modified:
        return
    world.backing.put_bytes(key, data)
    checker.forged.add(key)
    checker.checks["objects forged"] += 1
    world.came(key)
