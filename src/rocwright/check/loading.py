"""What a user adds to the check: rows of `rocwright.toml` for the contract, and waivers.

Text becomes a value, or a mistake with its remedy: rows that choose no rule and waivers of what nobody may
waive are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches

from rocwright.check.contract import ContractTable, PackageRow, terms_of
from rocwright.check.overrides import overlaid, row_of
from rocwright.check.rules import OWN_RULES, RULES, SET_RULES
from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidData, UsageError
from rocwright.model.findings import Finding, Waiver, last_day
from rocwright.system import days

# Values that nothing reads unless a rule is on.
_READ_BY = {"required": "required-files", "forbidden": "forbidden-files"}
_EXAMPLE = "rocwright check … --allow RULE --reason 'why' --expires 2030-01-31"


def load_contract(
    overlay: Overlay | None = None, today: date | None = None, *, overrides: bool = True
) -> ContractTable:
    """The built-in contract, and behind it the rows of an overlay, as they hold today.

    Without `overrides`, what the overlay takes away of the built-in contract is left out, whatever its day.
    Raises `InvalidData` naming file and row: fields that do not fit, a rule that does not exist or is no rule
    about single files, a rule switched off or softened that is not open to judgement, files asked for where
    the rule that looks for them is off, and less asked of packages without a reason and a last day.
    """
    table = load_table("contract", ContractTable, overlay)
    if overlay is None or "contract" not in overlay.tables:
        return table
    built_in = load_table("contract", ContractTable)
    for number, row in enumerate(table.package[len(built_in.package) :], start=1):
        where = row_of(overlay, number, row)
        _require_known(row, where, overlay.where)
        _require_open(row, where, overlay.where)
        _require_read(row, table, where, overlay.where)
    _require_adoptable(table, overlay.where)
    return overlaid(built_in, table, overlay, days.today() if today is None else today, allowed=overrides)


def _require_adoptable(table: ContractTable, file: str) -> None:
    """What no waiver lets pass is not let pass for others, either."""
    open_ones = {rule.id for rule in RULES if rule.waivable} | {
        rule.id for rule in SET_RULES if rule.waivable
    }
    wrong = [rule for rule in table.adopted if rule not in open_ones]
    if wrong:
        raise InvalidData(
            f"{file}: [contract] adopted names {', '.join(wrong)}: unknown, or rules that cannot be softened",
            where=file,
            next_step="remove that: a file that breaks it cannot be relied on",
        )


def _require_known(row: PackageRow, where: str, file: str) -> None:
    known = {rule.id for rule in RULES}
    for name in (*row.rules, *row.off, *row.severity):
        if name in known:
            continue
        if name in {rule.id for rule in SET_RULES}:
            raise InvalidData(
                f"{where} names {name}, a rule about sets; rows choose rules about single files",
                where=file,
                next_step="a finding that must pass is waived: --allow RULE --reason TEXT --expires DATE",
            )
        near = get_close_matches(name, sorted(known), n=3)
        raise InvalidData(
            f"{where} names a rule {name!r}, which does not exist",
            where=file,
            next_step=f"perhaps {' or '.join(near)}" if near else "the findings name their rules",
        )


def _require_open(row: PackageRow, where: str, file: str) -> None:
    """A file that breaks such a rule is not what it claims to be: nobody's contract can want it."""
    fixed = {rule.id for rule in RULES if not rule.waivable}
    softened = {name for name, severity in row.severity.items() if severity != "error"}
    for name in sorted(fixed & (softened | set(row.off))):
        raise InvalidData(
            f"{where} switches {name} off or makes it a warning; a file that breaks it cannot be relied on",
            where=file,
            next_step="remove that, and build the file again",
        )


def _require_read(row: PackageRow, table: ContractTable, where: str, file: str) -> None:
    """Patterns without their rule would be believed to be checked."""
    for field, rule in _READ_BY.items():
        # A pattern fits itself, so it stands for the rows of all its packages.
        without = [name for name in row.names if rule not in terms_of(table, name).rules]
        if getattr(row, field) and without:
            raise InvalidData(
                f"{where} gives `{field}`, but the rule {rule} is off for {', '.join(without)}",
                where=file,
                next_step=f'add "{rule}" to the row\'s `rules`',
            )


def ask_waivers(
    allow: Sequence[str], reason: str | None, expires: str | None, today: date
) -> tuple[Waiver, ...]:
    """A waiver for each rule in `allow` (`RULE`, or `RULE:PATTERN` over file names), in force today.

    Raises `UsageError`: a rule that does not exist or that nobody may waive, no reason, no day, a day that is
    past, or reason and day without a rule.
    """
    if not allow:
        if reason is not None or expires is not None:
            raise UsageError("--reason and --expires belong to --allow RULE", next_step=_EXAMPLE)
        return ()
    if reason is None or not reason.strip():
        raise UsageError("--allow needs a reason", next_step=_EXAMPLE)
    if expires is None:
        raise UsageError("--allow needs an expiry date", next_step=_EXAMPLE)
    day = last_day(expires, today)
    waivers = []
    for text in allow:
        rule, _, pattern = text.partition(":")
        _require_waivable(rule)
        waivers.append(Waiver(rule, reason.strip(), day, pattern or "*"))
    return tuple(waivers)


def unused(waivers: Iterable[Waiver], findings: Iterable[Finding], today: date) -> tuple[Waiver, ...]:
    """Waivers that let no error pass."""
    errors = [finding for finding in findings if finding.severity == "error"]
    return tuple(waiver for waiver in waivers if not any(waiver.covers(finding, today) for finding in errors))


def _require_waivable(rule: str) -> None:
    waivable = {each.id: each.waivable for each in (*OWN_RULES, *RULES, *SET_RULES)}
    if not waivable.get(rule, True):
        raise UsageError(
            f"{rule} cannot be waived: such a file is not what it claims to be", next_step="build it again"
        )
    if rule not in waivable:
        near = get_close_matches(rule, waivable, n=3)
        raise UsageError(
            f"there is no rule {rule!r}",
            next_step=f"perhaps {' or '.join(near)}" if near else "the findings name their rules",
        )
