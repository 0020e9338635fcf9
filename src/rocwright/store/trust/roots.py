"""Who is trusted by whom: the root documents of a channel, each signed by the one before it and by itself.

`_trust/<channel>/<version>.json` is an envelope around a `Root`. The keys in the configuration are the
anchor: version 1 is signed by them, as TUF has it (5.3 of
https://theupdateframework.github.io/specification/latest/).
python-tuf's own `Root` knows four roles by name and refuses any other, so the document is ours; keys,
envelopes and signatures are securesystemslib's, on which python-tuf stands, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import msgspec

from rocwright.errors import GateClosed, IntegrityError, InvalidInput
from rocwright.model.channels import Channel
from rocwright.model.sets import canonical_json
from rocwright.model.trusted import Trusted
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.trust.keys import SigningKey, holders, read_envelope, signed_envelope

ROOT_TYPE = "application/vnd.rocwright.root+json"
ROOT_SCHEMA = "rocwright.root/1"
TRUST = "_trust/"
_ROTATE = "rocwright store trust rotate, with the keys that the version before names"


class Root(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a channel from some version on, to the end of the day `expires`."""

    channel: str
    version: int
    expires: date
    trusted: Trusted
    schema: str = ROOT_SCHEMA


class Trust(msgspec.Struct, frozen=True):
    """Whom a channel trusts now, and the versions of its root that led there; none for the anchor alone."""

    channel: str
    trusted: Trusted
    roots: tuple[Root, ...] = ()

    @property
    def version(self) -> int:
        """The version of the root that counts; 0 for the keys of the configuration."""
        return self.roots[-1].version if self.roots else 0


def root_key(channel: str, version: int) -> str:
    """Where a version of a channel's root lies."""
    return f"{TRUST}{channel}/{version:08d}.json"


def trust_of(store: ObjectStore, channel: Channel, today: date) -> Trust | None:
    """Whom the channel trusts; None where it takes what nobody signed.

    Raises `IntegrityError` for a root that is not signed by the one before it and by itself, for one that is
    left out, older than the configuration asks for, or expired.
    """
    anchor = channel.trusted
    if anchor is None:
        return None
    there = {one.key for one in store.list(f"{TRUST}{channel.name}/")}
    roots: list[Root] = []
    trusted = anchor
    while (key := root_key(channel.name, len(roots) + 1)) in there:
        roots.append(_read_root(store, key, channel.name, len(roots) + 1, trusted))
        trusted = roots[-1].trusted
    known = {root_key(channel.name, one.version) for one in roots}
    skipped = sorted(there - known)
    if skipped:
        raise IntegrityError(
            f"{skipped[0]} is there, and {root_key(channel.name, len(roots) + 1)} before it is not",
            where=skipped[0],
            next_step="put the version that is missing back from a copy of the store",
        )
    if len(roots) < anchor.version:
        raise IntegrityError(
            f"the root of {channel.name} has version {len(roots)}, the configuration asks for "
            f"{anchor.version}: somebody took newer ones away",
            where=root_key(channel.name, len(roots) + 1),
            next_step="put the version that is missing back from a copy of the store",
        )
    if roots and roots[-1].expires < today:
        raise IntegrityError(
            f"the root of {channel.name}, version {len(roots)}, held to {roots[-1].expires.isoformat()}",
            where=root_key(channel.name, len(roots)),
            next_step=_ROTATE,
        )
    return Trust(channel.name, trusted, tuple(roots))


def _read_root(store: ObjectStore, key: str, channel: str, version: int, before: Trusted) -> Root:
    envelope = read_envelope(read_there(store, key) or b"", where=key)
    try:
        root = msgspec.json.decode(envelope.payload, type=Root)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"{key} is not a root of trust: {error}", where=key) from error
    if envelope.payload_type != ROOT_TYPE or (root.channel, root.version) != (channel, version):
        raise IntegrityError(
            f"{key} is signed for something else: version {root.version} of {root.channel}", where=key
        )
    for trusted, whose in ((before, "the version before it"), (root.trusted, "its own keys")):
        signed, needed = holders(envelope, trusted.keys("root")), trusted.threshold("root")
        if len(signed) < needed:
            raise IntegrityError(
                f"{key} is forged: signed by {len(signed)} of the {needed} that {whose} asks for",
                where=key,
                next_step="find out who changed it; take it out, and rotate the keys",
            )
    return root


def rotate(
    store: ObjectStore,
    channel: Channel,
    trusted: Trusted,
    expires: date,
    signers: Iterable[SigningKey],
    today: date,
) -> Root:
    """Write the next version of a channel's root, signed by the keys before it and by its own.

    Raises `InvalidInput` for a channel that trusts nobody, or a last day that is past; `GateClosed` where
    keys are missing that have to sign.
    """
    keys = tuple(signers)
    known = trust_of_any_age(store, channel)
    if known is None:
        raise InvalidInput(
            f"{channel.name} trusts no keys",
            next_step="name its first keys in rocwright.toml: [channels.trusted]",
        )
    if expires < today:
        raise InvalidInput(f"{expires.isoformat()} is past", next_step="give a later day: --expires")
    root = Root(channel.name, known.version + 1, expires, trusted)
    data = signed_envelope(ROOT_TYPE, canonical_json(root), keys)
    mine = {key.public for key in keys}
    for asked, whose in ((known.trusted, "the version before"), (trusted, "the new version")):
        missing = asked.threshold("root") - len(mine & set(asked.keys("root")))
        if missing > 0:
            raise GateClosed(
                f"a new root of {channel.name} needs {missing} more signatures by the keys of {whose}",
                next_step="give each private key with --key FILE, those before and the new ones",
            )
    store.put_bytes(root_key(channel.name, root.version), data)
    return root


def trust_of_any_age(store: ObjectStore, channel: Channel) -> Trust | None:
    """As `trust_of`, also when the root has expired: whoever holds its keys may write the next one."""
    return trust_of(store, channel, date.min)
