"""The contract as data: which rules apply to which package, and the values they compare with.

The built-in table is `data/contract.toml`; a `rocwright.toml` adds rows of its own behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any

import msgspec

from rocwright.model.findings import Override, Severity
from rocwright.model.patterns import compile_pattern, fits


class PackageRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked of the packages whose canonical name fits one of the patterns `names`.

    `rules` are switched on, `off` switched off again; `severity` overrides the catalogue's. Patterns over
    installed paths: `required` and `forbidden` files; `bundled` are the files of other projects in it, which
    bring their licences; `own_rocm` those that make it independent of ROCm's packages. `provided` are
    patterns over names of libraries that are there wherever the package is installed. `pinned` are patterns
    over project names that it requires by exact version only. `host` is the project that a package
    is laid over or beside, and is never installed without, `{1}` in it what the first star of the name
    stands for. `budget` is the largest size of the file, `target_budget` of the device code for one target in
    it (unpacked), in bytes. `extras` are those of a package that tells them only while it is being installed;
    `refuses` says that its installation fails by design, with an explanation. `never_imported` are Python
    files that are data; what is wrong with the modules `told_apart`, rules of their own tell. `reason` and
    `expires`, the last day, stand where a rocwright.toml asks less of packages than the rows above.
    """

    names: tuple[str, ...]
    rules: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    severity: dict[str, Severity] = {}
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()
    own_rocm: tuple[str, ...] = ()
    provided: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    host: str | None = None
    budget: int | None = None
    target_budget: int | None = None
    extras: tuple[str, ...] = ()
    refuses: bool = False
    never_imported: tuple[str, ...] = ()
    told_apart: tuple[str, ...] = ()
    reason: str = ""
    expires: date | None = None

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("a row without names fits no package")
        for name in self.names:
            if name != re.sub(r"[-_.]+", "-", name).lower():
                raise ValueError(f"{name!r} fits no package: names are lower-case, with single hyphens")
        paths = (*self.required, *self.forbidden, *self.bundled, *self.own_rocm)
        paths = (*paths, *self.never_imported, *self.told_apart)
        for pattern in (*self.names, *paths, *self.provided, *self.pinned):
            if re.search(r"[{}]", re.sub(r"\{[^{}]*\}", "", pattern)):
                raise ValueError(f"{pattern!r} has a brace without its partner")


class ContractTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/contract.toml`: rows in order, later rows add to and override earlier rows.

    `growth` is how much larger than in the previous set a file, or the code of a target, may be: 0.03 is 3 %;
    what grew by no more than `small_growth` bytes is never reported. `own` are patterns over names of
    packages that only our indexes have: what is required of them must be in the set; `public` are names among
    them that pypi.org has from the same owner. `adopted` are rules
    whose errors are warnings in wheels that others built and published. `strangers` are patterns over
    packages for GPUs of other vendors, `strange_builds` over local versions of builds that are not for ROCm,
    `rocm_code` over ROCm's packages with code for GPUs. `reason` and `expires`, the last day, stand where a
    rocwright.toml makes one of these values ask less.
    """

    package: tuple[PackageRow, ...]
    own: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    strange_builds: tuple[str, ...] = ()
    rocm_code: tuple[str, ...] = ()
    growth: float = 0.03
    small_growth: int = 1_000_000
    reason: str = ""
    expires: date | None = None

    def is_own(self, project: str) -> bool:
        """Whether a package, by its canonical name, is a package that only our indexes have."""
        return not fits(project, self.public) and fits(project, self.own)


class OverlaidContract(ContractTable, frozen=True, forbid_unknown_fields=True):
    """The contract with a rocwright.toml in it: what that takes away today, and what it took to some day.

    What is `lapsed` is not in the rows any more.
    """

    overrides: tuple[Override, ...] = ()
    lapsed: tuple[Override, ...] = ()


class Terms(msgspec.Struct, frozen=True):
    """What is asked of one package, all its rows together; the fields as in `PackageRow`."""

    rules: frozenset[str]
    severity: dict[str, Severity]
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    bundled: tuple[str, ...] = ()
    own_rocm: tuple[str, ...] = ()
    provided: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    host: str | None = None
    budget: int | None = None
    target_budget: int | None = None
    extras: tuple[str, ...] = ()
    refuses: bool = False
    never_imported: tuple[str, ...] = ()
    told_apart: tuple[str, ...] = ()


_JOINED = (
    "required", "forbidden", "bundled", "own_rocm", "provided", "pinned", "extras",
    "never_imported", "told_apart",
)  # fmt: skip
_LAST = ("host", "budget", "target_budget", "refuses")
assert {*_JOINED, *_LAST, "rules", "severity"} == {field.name for field in msgspec.structs.fields(Terms)}


def terms_of(table: ContractTable, project: str) -> Terms:
    """The rows whose pattern fits a canonical project name, joined."""
    rules: set[str] = set()
    severity: dict[str, Severity] = {}
    joined: dict[str, Any] = dict.fromkeys(_JOINED, ())
    last: dict[str, Any] = {}
    for row, match in _fitting(table, project):
        rules = (rules | set(row.rules)) - set(row.off)
        severity.update(row.severity)
        joined = {name: (*held, *getattr(row, name)) for name, held in joined.items()}
        last.update((name, getattr(row, name)) for name in _LAST if getattr(row, name) not in (None, False))
        if row.host is not None:
            last["host"] = row.host.replace("{1}", match.groupdict().get("g1") or "")
    return Terms(frozenset(rules), severity, **joined, **last)


def _fitting(table: ContractTable, project: str) -> Iterator[tuple[PackageRow, re.Match[str]]]:
    for row in table.package:
        for pattern in row.names:
            if (match := compile_pattern(pattern).fullmatch(project)) is not None:
                yield row, match
                break
