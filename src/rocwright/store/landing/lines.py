"""The exact lines that install an offer, for pip and for uv."""

from __future__ import annotations

import re

from rocwright.errors import InvalidInput
from rocwright.store.landing.offers import TARGET, Offer
from rocwright.store.layout import channel_prefix

# What goes into a command line unquoted, in any shell.
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9._~:/@%+-]*/")


def require_address(base: str) -> str:
    """The address of a store, ending with `/`; raises `InvalidInput` for one that no shell takes as it is."""
    if _ADDRESS.fullmatch(base) is None:
        raise InvalidInput(
            f"{base!r} cannot stand in a command line as the address of the store",
            next_step="give one like https://packages.example.org/rocm/, ending with / and without spaces",
        )
    return base


def index_of(offer: Offer, prefix: str, base: str) -> str:
    """The address of the index that has the offer; `prefix` is that of its channel."""
    return f"{base}{channel_prefix(prefix, offer.family)}"


def pip_line(offer: Offer, index: str, target: str = TARGET) -> str:
    """What installs the offer with pip, into the environment that is active."""
    options = ["--pre"] if offer.prereleases else []
    return " ".join(["pip install", f"--index-url {index}", *options, *_quoted(offer, target)])


def uv_line(offer: Offer, index: str, target: str = TARGET) -> str:
    """What installs the offer with uv, into the environment that is active."""
    options = ["--prerelease allow"] if offer.prereleases else []
    return " ".join(["uv pip install", f"--default-index {index}", *options, *_quoted(offer, target)])


def words_of(offer: Offer, target: str = TARGET) -> list[str]:
    """The requirements of an offer for a target."""
    return [word.replace(f"device-{TARGET}", f"device-{target}") for word in offer.requirements]


def _quoted(offer: Offer, target: str) -> list[str]:
    # Brackets mean something to shells; double quotes to all of them the same.
    return [f'"{word}"' if "[" in word else word for word in words_of(offer, target)]
