"""`rocwright set sign`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.store_options import StoreOptions
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_set
from rocwright.store.sets.sign import read_private, sign_set
from rocwright.system import console

_DEFAULTS = StoreOptions()


def set_sign(
    which: str,
    /,
    *,
    key: Path | None = None,
    options: StoreOptions = _DEFAULTS,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
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
    if json:
        console.out_json({"set": digest, "signature": signed.key, "public": signed.public})
        return
    console.say(f"wrote {signed.key}")
    console.out(signed.public)
