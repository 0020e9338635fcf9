"""What a rocwright.toml takes away of the contract: said, with reason and last day, and given up after it.

Less is asked of packages where a rule is switched off or made a warning, and where a value of a package that
the built-in contract names, or of all packages, lets more pass. Facts about packages of one's own are no
overrides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any

import msgspec

from rocwright.check.context import Context
from rocwright.check.contract import ContractTable, OverlaidContract, PackageRow, terms_of
from rocwright.check.rules import RULES
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidData
from rocwright.model.findings import Override
from rocwright.model.patterns import compile_pattern, fits

# More bytes let more pass; so does each entry of these lists, and an installation that may fail.
_SIZES = ("budget", "target_budget")
_LOOSE = ("provided", "own_rocm", "never_imported", "told_apart", "extras", "host", "refuses")
_RULE_OF = {
    "budget": "size-budget",
    "target_budget": "size-budget",
    "growth": "size-growth",
    "small_growth": "size-growth",
}
# Of the whole table: larger is looser; a shorter list is looser.
_GROWTH = ("growth", "small_growth")
_DEMANDS = ("own", "strangers", "strange_builds", "rocm_code")
_FOREVER = date.max


def row_of(overlay: Overlay, number: int, row: PackageRow) -> str:
    """Which row of the file, for messages; numbers count from 1."""
    return f"{overlay.where}: [[contract.package]] number {number} ({', '.join(row.names)})"


def overlaid(
    built_in: ContractTable, table: ContractTable, overlay: Overlay, today: date, *, allowed: bool = True
) -> OverlaidContract:
    """The contract with an overlay in it, and what it takes away; after its last day it takes nothing away.

    Unless `allowed`, it never does. Raises `InvalidData` for what takes away without a reason or a last day.
    """
    held: list[Override] = []
    lapsed: list[Override] = []

    def weigh(found: Sequence[Override], reason: str, expires: date | None, where: str) -> bool:
        """Whether what takes so much away is left out."""
        if not found or not allowed:
            return bool(found)
        _require_answered(found, reason, expires, where, overlay.where)
        past = not found[0].in_force(today)
        (lapsed if past else held).extend(found)
        return past

    values: dict[str, Any] = {}
    taken = list(_of_table(built_in, table, overlay))
    if weigh(taken, table.reason, table.expires, f"{overlay.where}: [contract]"):
        values = {one.field: getattr(built_in, one.field) for one in taken}
    rows = list(built_in.package)
    for number, row in enumerate(table.package[len(rows) :], start=1):
        found = list(_of_row(built_in.package, rows, row, overlay))
        left_out = weigh(found, row.reason, row.expires, row_of(overlay, number, row))
        rows.append(_without(row, found) if left_out else row)
    given = {**msgspec.structs.asdict(table), **values, "package": tuple(rows)}
    return OverlaidContract(**given, overrides=tuple(held), lapsed=tuple(lapsed))


def _require_answered(
    found: Sequence[Override], reason: str, expires: date | None, where: str, file: str
) -> None:
    if reason.strip() and expires is not None:
        return
    missing = [name for name, there in (("reason", reason.strip()), ("expires", expires)) if not there]
    raise InvalidData(
        f"{where} takes away from the contract ({'; '.join(one.what for one in found)}) "
        f"without `{'` and `'.join(missing)}`",
        where=file,
        next_step='say why and to which last day, beside it: reason = "WHY" and expires = 2030-01-31',
    )


def _of_table(built_in: ContractTable, table: ContractTable, overlay: Overlay) -> Iterator[Override]:
    def override(field: str, before: str, after: str, rule: str = "") -> Override:
        return _override(overlay, table, field, before, after, rule or _RULE_OF.get(field, ""))

    for field in _GROWTH:
        before, after = getattr(built_in, field), getattr(table, field)
        if after > before:
            yield override(field, str(before), str(after))
    for field in _DEMANDS:
        gone = [one for one in getattr(built_in, field) if one not in getattr(table, field)]
        if gone:
            yield override(field, ", ".join(gone), "left out")
    for rule in table.adopted:
        if rule not in built_in.adopted:
            yield override("adopted", "error", "warning in wheels of others", rule)
    for project in table.public:
        # A name of another's own, which takes nothing away, may be told as well.
        if project not in built_in.public and built_in.is_own(project):
            yield override("public", f"{project} is in the set", "on pypi.org as well", "set-closed")


def _of_row(
    built_in: Sequence[PackageRow], above: Sequence[PackageRow], row: PackageRow, overlay: Overlay
) -> Iterator[Override]:
    def override(field: str, before: str, after: str, rule: str = "") -> Override:
        return _override(overlay, row, field, before, after, rule or _RULE_OF.get(field, ""), row.names)

    known = {rule.id: rule.severity for rule in RULES}
    upper = ContractTable(tuple(above))
    # Every pattern that some package fits together with this row stands for these packages.
    alike = [*row.names, *_together(row, above)]
    terms = [terms_of(upper, name) for name in alike]
    for rule in row.off:
        if any(rule in one.rules for one in terms) and rule not in row.rules:
            yield override("off", "on", "off", rule)
    for rule, severity in row.severity.items():
        was = {one.severity.get(rule, known[rule]) for one in terms if rule in one.rules}
        if severity == "warning" and "error" in was:
            yield override("severity", "error", "warning", rule)
    named = [terms_of(upper, name) for name in _together(row, built_in) if name != "*"]
    for field in _SIZES:
        held = [value for one in named if (value := getattr(one, field)) is not None]
        after = getattr(row, field)
        if after is not None and held and after > min(held):
            yield override(field, str(min(held)), str(after))
    for field in _LOOSE:
        if named and getattr(row, field):
            yield override(field, "not so", _text(getattr(row, field)))


def _override(
    overlay: Overlay,
    given: PackageRow | ContractTable,
    field: str,
    before: str,
    after: str,
    rule: str,
    names: tuple[str, ...] = (),
) -> Override:
    reason, last = given.reason.strip(), given.expires or _FOREVER
    return Override(field, before, after, reason, last, overlay.name, overlay.sha256, rule, names)


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _together(row: PackageRow, rows: Iterable[PackageRow]) -> list[str]:
    """The names of rows that may fit a package which this row fits, too."""
    names = dict.fromkeys(name for other in rows for name in other.names)
    return [name for name in names if any(_may_meet(name, mine) for mine in row.names)]


def _may_meet(one: str, other: str) -> bool:
    """Whether two patterns may fit the same name: never no where they do."""
    ends = [(re.split(r"[*{]", text)[0], re.split(r"[*}]", text)[-1]) for text in (one, other)]
    if not re.search(r"[*{]", one):
        return compile_pattern(other).fullmatch(one) is not None
    if not re.search(r"[*{]", other):
        return compile_pattern(one).fullmatch(other) is not None
    (head, tail), (start, end) = ends
    return (head.startswith(start) or start.startswith(head)) and (tail.endswith(end) or end.endswith(tail))


def _without(row: PackageRow, found: Iterable[Override]) -> PackageRow:
    """The row without what it takes away; what it asks for stays."""
    taken = {(one.field, one.rule) for one in found}
    fields = {field for field, _ in taken} - {"off", "severity"}
    defaults = PackageRow(row.names)
    return msgspec.structs.replace(
        row,
        off=tuple(rule for rule in row.off if ("off", rule) not in taken),
        severity={rule: how for rule, how in row.severity.items() if ("severity", rule) not in taken},
        **{field: getattr(defaults, field) for field in fields},
    )


def effective(context: Context) -> tuple[Override, ...]:
    """What was taken away for the files that were checked: not what is about other packages."""
    contract = context.contract
    if not isinstance(contract, OverlaidContract):
        return ()
    return tuple(one for one in contract.overrides if _asked(context, one))


def _asked(context: Context, one: Override) -> bool:
    """Whether this check would have looked."""
    if one.names:
        projects = {facts.project for facts in context.files if facts.project}
        return any(fits(name, one.names) and _holds(context, one, name) for name in projects)
    if one.field in _GROWTH:
        return context.request.previous is not None
    return one.field != "adopted" or bool(context.request.adopted)


def _holds(context: Context, one: Override, project: str) -> bool:
    """Whether no later row gives the rule back."""
    terms = context.terms(project)
    if one.field == "off":
        return one.rule not in terms.rules
    if one.field == "severity":
        return one.rule in terms.rules and terms.severity.get(one.rule) == "warning"
    return True


def lapsed_of(contract: ContractTable) -> tuple[Override, ...]:
    """What a rocwright.toml took away to a day that is past: it is asked for again."""
    return contract.lapsed if isinstance(contract, OverlaidContract) else ()
