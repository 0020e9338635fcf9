"""`rocwright set sign`."""

from __future__ import annotations

from pathlib import Path

from rocwright.cli.answer import Answer, answers
from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.keys import read_private
from rocwright.store.sets.records import read_set
from rocwright.store.sets.sign import sign_set
from rocwright.system import console

_DEFAULTS = StoreOptions()


@answers
def set_sign(
    which: str,
    /,
    *,
    key: Path | None = None,
    options: StoreOptions = _DEFAULTS,
) -> Answer:
    """Sign a set with an Ed25519 key; prints the public key, for `set verify --key` and rocwright.toml.

    Parameters
    ----------
    which
        Eight or more digits of its id, CHANNEL:FAMILY for the set that installers take from there, or newest:
        that of the first channel (newest:FAMILY where it has several).
    key
        A file with the private key in PEM (default: the content of ROCWRIGHT_SIGNING_KEY). The password of an
        encrypted one is in ROCWRIGHT_SIGNING_PASSWORD.
    json
        Print the result as JSON.
    """
    private, password = read_private(key)
    store, channels = options.opened(), options.channels()
    digest = resolve_set(store, channels, which)
    signed = sign_set(store, read_set(store, digest), private, password)

    def show() -> None:
        console.say(f"wrote {signed.key}")
        console.out(signed.public)

    return Answer({"set": digest, "signature": signed.key, "public": signed.public}, show)
