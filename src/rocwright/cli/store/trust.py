"""`rocwright store trust show | rotate | sign`: the keys that a channel trusts, and what they sign later."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import OfChannel, StoreOptions
from rocwright.errors import InvalidInput
from rocwright.model.channels import Channel
from rocwright.model.findings import last_day
from rocwright.model.trusted import Role, Trusted
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore, beneath
from rocwright.store.sets.find import named_place
from rocwright.store.trust.guard import Guarded
from rocwright.store.trust.keys import key_id, read_private, read_public
from rocwright.store.trust.renew import renew
from rocwright.store.trust.roots import Trust, trust_of_any_age
from rocwright.system import console, days

_DEFAULTS = StoreOptions()
_ROLES: tuple[Role, ...] = ("release", "evidence", "root")
_Keys = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]
_Private = Annotated[tuple[Path, ...], Parameter(negative=(), show_default=False)]


@replies
def trust_show(channel: str, /, *, options: StoreOptions = _DEFAULTS) -> Reply:
    """Show whom a channel trusts with what, and until when.

    Parameters
    ----------
    channel
        The name of a channel.
    json
        Print it as JSON.
    """
    chosen = options.channels().named(channel)
    trust = _known(beneath(options.opened()), chosen)
    expires = trust.roots[-1].expires if trust.roots else None

    def show() -> None:
        rows = [(role, key_id(key), key) for role in _ROLES for key in trust.trusted.keys(role)]
        console.table(f"Keys of {chosen.name}", ("role", "id", "public key"), rows)
        for role in _ROLES:
            console.out(f"{role}: {trust.trusted.threshold(role)} of {len(trust.trusted.keys(role))} sign")
        where = f"version {trust.version} of its root, to {expires}" if expires else "the configuration"
        console.out(f"by {where}")

    value = {"channel": chosen.name, "version": trust.version, "expires": expires, "trusted": trust.trusted}
    return Reply(msgspec.to_builtins(value), show)


@replies
def trust_rotate(
    channel: str,
    /,
    *,
    release: _Keys = (),
    evidence: _Keys = (),
    root: _Keys = (),
    threshold: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    expires: str,
    key: _Private = (),
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Give a channel other keys: the next version of its root, signed by the keys before it and by its own.

    What the channel lists is signed again by the private keys that are given, as far as the keys before let
    it count. Keys that are left out are trusted with nothing any more.

    Parameters
    ----------
    channel
        The name of a channel.
    release
        A public key for sets, what is listed, waivers, bypasses and promotions (default: those before); may
        be repeated.
    evidence
        A public key for what was built, checked and tested (default: those before); may be repeated.
    root
        A public key that says who comes next (default: those before); may be repeated.
    threshold
        ROLE=NUMBER: how many keys of a role have to sign; may be repeated.
    expires
        The last day on which this version holds, such as 2030-01-31.
    key
        A private key in PEM, of those before and of the new ones (default: the content of
        ROCWRIGHT_SIGNING_KEY); may be repeated.
    json
        Print the new version as JSON.
    """
    signers = read_private(key)
    channels, today = options.channels(), days.today()
    chosen = channels.named(channel)
    store = beneath(options.opened())
    before = _known(store, chosen)
    old = before.trusted
    trusted = Trusted(
        release=tuple(map(read_public, release)) or old.release,
        evidence=tuple(map(read_public, evidence)) or old.evidence,
        root=tuple(map(read_public, root)) or old.root,
        thresholds={**old.thresholds, **dict(map(_threshold, threshold))},
    )
    done = renew(store, chosen, before, trusted, last_day(expires, today), signers, today)

    def show() -> None:
        console.out(f"version {done.root.version} of the root of {chosen.name}, to {done.root.expires}")
        console.say(f"signed again: {done.events} events, {done.sets} sets and what is stated about them")
        console.say(
            f"next: in rocwright.toml, ask for it, so that nobody can take it away again: "
            f"[channels.trusted.{chosen.name}] version = {done.root.version}"
        )

    return Reply(msgspec.to_builtins(done.root), show)


@replies
def trust_sign(
    channel: OfChannel,
    /,
    *,
    key: _Private = (),
    adopt: Annotated[bool, Parameter(negative=())] = False,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Sign events of a channel that another of its keys signed, where it asks for several signatures.

    With --adopt, every event that is there, signed or not: for a channel that came to trust keys later. Read
    them first, with `set log`, before the channel trusts keys. Then `set repair` writes the pages.

    Parameters
    ----------
    key
        A private key in PEM (default: the content of ROCWRIGHT_SIGNING_KEY); may be repeated.
    adopt
        Also what nobody signed.
    json
        Print the names of the events as JSON.
    """
    signers = read_private(key)
    opened, channels = options.opened(), options.channels()
    chosen, family = named_place(opened, channels, channel)
    guard = Guarded(beneath(opened), [chosen], days.today(), signers)
    names = guard.sign_log(channel_prefix(chosen.prefix, family), adopt=adopt)

    def show() -> None:
        for name in names:
            console.out(name)
        console.say(f"next: {options.command('set', 'repair', f'{chosen.name}:{family}')}")

    return Reply({"signed": names}, show)


def _known(store: ObjectStore, channel: Channel) -> Trust:
    found = trust_of_any_age(store, channel)
    if found is None:
        raise InvalidInput(
            f"{channel.name} trusts no keys",
            next_step="name its first keys in rocwright.toml: [channels.trusted]",
        )
    return found


def _threshold(text: str) -> tuple[Literal["release", "evidence", "root"], int]:
    role, _, number = text.partition("=")
    for known in _ROLES:
        if role == known and number.isdecimal():
            return known, int(number)
    raise InvalidInput(f"--threshold {text} is not ROLE=NUMBER", next_step="write it like release=2")
