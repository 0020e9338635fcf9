"""Skip entries: which tests are expected to fail, hang or vary, where, why, since when, until when."""

from __future__ import annotations

from datetime import date
from typing import Literal

import msgspec

from rocwright.model.platforms import Platform

# `skip` is never run; `xfail` is run and has to fail; `flaky` may fail as long as it passes when run again;
# `hang` is never run but in an audit, which gives it a short time.
SkipKind = Literal["skip", "xfail", "flaky", "hang"]


class SkipWhere(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where an entry holds; every field that is given must fit, an empty one fits everywhere.

    `targets` are targets, families, or the beginning of targets with a star (`gfx94*`); `torch`, `rocm` and
    `python` are version specifiers. A bare `2.10` is that line, and nightlies count as what they become.
    """

    targets: tuple[str, ...] = ()
    platforms: tuple[Platform, ...] = ()
    torch: str = ""
    rocm: str = ""
    python: str = ""


class SkipEntry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry. `tests` are exact node ids or patterns of the form `file::class::test`.

    A star in a part of a pattern stands for any characters of that part; parts are matched whole. `matches`
    is how many tests the patterns may match at most; without stars it is their number.
    """

    id: str
    tests: tuple[str, ...]
    kind: SkipKind
    reason: str
    added: date
    where: SkipWhere = msgspec.field(default_factory=SkipWhere)
    issue: str = ""
    expires: date | None = None
    matches: int | None = None


class SkipTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `skips`: its entries, in order."""

    entry: tuple[SkipEntry, ...] = ()


class Here(msgspec.Struct, frozen=True):
    """The place that entries are judged for; versions as their wheels give them, empty where unknown."""

    target: str
    platform: Platform
    torch: str
    python: str
    rocm: str = ""
