"""What a channel asks of a set, from the table of channels."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.channels import Channel, Channels
from rocwright.model.manifest import SetManifest
from rocwright.store.gate.opens import Opening
from rocwright.store.gate.said import Required


class Objection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What speaks against a set besides statements: where it stands, who vouches for it."""

    rule: Literal["unreadable", "unsigned", "unstaged", "withdrawn"]
    reason: str
    openings: tuple[Opening, ...] = ()


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a promotion needs. `today` is given, so that the same inputs give the same decision.

    `gate` is `checked` for a channel that asks for the wheel contract only; `tested` asks for a successful
    build and each test in `required`, too. `against` is what the store itself says against the set, `recheck`
    the command that checks its files.
    """

    required: tuple[Required, ...]
    today: date
    gate: Literal["checked", "tested"] = "tested"
    against: tuple[Objection, ...] = ()
    recheck: tuple[Opening, ...] = ()

    def __post_init__(self) -> None:
        if not self.required and self.gate == "tested":
            raise InvalidData(
                "a policy that requires no test gates nothing", next_step="name a suite and family"
            )


def policy_for(
    manifest: SetManifest,
    channels: Channels,
    channel: Channel,
    today: date,
    against: Iterable[Objection] = (),
    recheck: tuple[Opening, ...] = (),
) -> Policy:
    """What `channel` asks of a set: every suite of the table, once or for each target of the set.

    A suite for each target is asked for once where the set names no target: it does not vanish with them.
    """
    required: list[Required] = []
    for suite in channels.suite if channel.gate == "tested" else ():
        each = manifest.targets if suite.per == "target" else ()
        required += [Required(suite.name, manifest.family, target) for target in each or ("",)]
    return Policy(tuple(sorted(required)), today, channel.gate, tuple(against), recheck)
