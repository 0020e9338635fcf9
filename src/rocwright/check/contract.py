"""The contract as data: which rules apply to which package, and the values they compare with.

The built-in table is `data/contract.toml`; a `rocwright.toml` adds rows of its own behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from rocwright.model.findings import Severity


class PackageRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of the packages whose canonical name fits one of the patterns `names`.

    `rules` are switched on, `off` switched off again; `severity` overrides the catalogue's. `required` and
    `forbidden` are patterns over member names (`**` spans directories). `budget` is the largest size of the
    file, in bytes.
    """

    names: tuple[str, ...]
    rules: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    severity: dict[str, Severity] = {}
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    budget: int | None = None


class ContractTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/contract.toml`: rows in order, later ones add to and override earlier ones.

    `growth` is how much larger than in the previous set a file, or the code of a target, may be: 0.03 is 3 %.
    """

    package: tuple[PackageRow, ...]
    growth: float = 0.03


@dataclass(frozen=True)
class Terms:
    """What is asked of one package, all its rows together."""

    rules: frozenset[str]
    severity: dict[str, Severity]
    required: tuple[str, ...]
    forbidden: tuple[str, ...]
    budget: int | None


def terms_of(table: ContractTable, project: str) -> Terms:
    """The rows whose pattern fits a canonical project name, joined."""
    rules: set[str] = set()
    severity: dict[str, Severity] = {}
    required: list[str] = []
    forbidden: list[str] = []
    budget = None
    for row in table.package:
        if not any(fnmatchcase(project, pattern) for pattern in row.names):
            continue
        rules = (rules | set(row.rules)) - set(row.off)
        severity.update(row.severity)
        required += row.required
        forbidden += row.forbidden
        budget = row.budget if row.budget is not None else budget
    return Terms(frozenset(rules), severity, tuple(required), tuple(forbidden), budget)
