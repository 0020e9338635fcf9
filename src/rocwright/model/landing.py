"""What the landing page of a channel calls things: the table `data/landing.toml`."""

from __future__ import annotations

import msgspec


class Product(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A project that people install: with these extras, and together with these projects of the same set.

    What is `beside` comes from the same index, and other indexes have other packages of these names.
    """

    name: str
    together: tuple[str, ...] = msgspec.field(name="with", default=())
    extras: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


class LandingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/landing.toml`; `gpus` maps a target to the GPUs that have it."""

    pythons: tuple[str, ...]
    product: tuple[Product, ...]
    platforms: dict[str, str]
    gpus: dict[str, tuple[str, ...]]
