"""Which tests the sets of a channel went without, as promotions recorded it: for its landing page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.channels import Channel
from rocwright.model.sets import BYPASS, PROMOTION, TEST, Statement
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.records import read_statements
from rocwright.store.statements import Bypass, bypasses_about, latest_results


class Untested(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A test that a set was promoted without: why, to which last day, who answers for it, since when.

    `device` is what it was asked for on; `emulated` says that it passed on an emulated GPU, which is no GPU.
    """

    set: str
    suite: str
    target: str
    reason: str
    expires: date
    by: str = ""
    at: date | None = None
    # Left out where there is nothing to say: what older editions wrote stays the same bytes.
    device: Literal["emulated"] | msgspec.UnsetType = msgspec.UNSET
    emulated: Literal[True] | msgspec.UnsetType = msgspec.UNSET


def untested_in(store: ObjectStore, channel: Channel, sets: Iterable[str]) -> tuple[Untested, ...]:
    """The tests that sets were promoted into a channel without and that have not passed since, in this order.

    What a channel's page says must not depend on the day on which it is written: a bypass stands there with
    its last day, past or not. Statements that cannot be read say nothing here; the gate closes on them.
    """
    if channel.gate == "checked":
        return ()
    return tuple(found for one in sets for found in _of_set(store, channel, one))


def _of_set(store: ObjectStore, channel: Channel, digest: str) -> Iterator[Untested]:
    try:
        rested = _rested_on(store, channel, digest, read_statements(store, digest, PROMOTION))
        passed = latest_results(read_statements(store, digest, TEST)) if rested else {}
    except InvalidData:
        return
    for one in rested:
        result = passed.get(one.required)
        if result is None or result.result != "passed":
            asked = one.required
            other = passed.get(msgspec.structs.replace(asked, device="emulated"))
            emulated = not asked.emulated and other is not None and other.result == "passed"
            unsaid = msgspec.UNSET
            yield Untested(
                digest,
                asked.suite,
                asked.target,
                one.reason,
                one.expires,
                one.by,
                one.at,
                "emulated" if asked.emulated else unsaid,
                True if emulated else unsaid,
            )


def _rested_on(
    store: ObjectStore, channel: Channel, digest: str, promotions: Iterable[Statement]
) -> tuple[Bypass, ...]:
    """The bypasses that promotions into the channel name, each once; older editions only said that."""
    found: dict[Bypass, None] = {}
    for said in (one.predicate for one in promotions if one.about(digest)):
        if said.get("to") != channel.name:
            continue
        if "bypasses" in said:
            try:
                named = msgspec.convert(said["bypasses"], tuple[Bypass, ...])
            except msgspec.ValidationError as error:
                raise InvalidData(f"a promotion does not name its bypasses: {error}") from error
        elif said.get("rule") == "bypassed":
            named = bypasses_about(read_statements(store, digest, BYPASS))
        else:
            continue
        found |= dict.fromkeys(named)
    return tuple(sorted(found, key=lambda one: (one.required, one.expires)))
