"""The wheel contract: what its rules ask, and how strictly."""

from __future__ import annotations

from collections.abc import Sequence

from blocks.text import code, table
from rocwright.check.context import Rule, SetRule
from rocwright.check.contract import ContractTable, PackageRow
from rocwright.check.rules import OWN_RULES, RULES, SET_RULES
from rocwright.check.run import BUILD_RULES
from rocwright.data import load_table
from rocwright.device_code.verify.report import NOTES
from rocwright.device_code.verify.report import RULES as KPACK_RULES


def rule_ids() -> list[str]:
    """Ids of the rules over one file and over a set, in the order in which they are applied."""
    return [*(rule.id for rule in RULES), *(rule.id for rule in SET_RULES)]


def render_rules() -> str:
    """The rules in the order in which they are applied: what they ask of which packages, and how strictly."""
    rows = load_table("contract", ContractTable).package
    cells = [(rule, f"{_packages(rule.id, rows)}: {_severity(rule, rows)}") for rule in RULES]
    cells += [(rule, f"the set: {_set_severity(rule)}") for rule in SET_RULES]
    return table(
        ("Rule", "What it asks", "Of what, and how strictly"),
        (
            (code(rule.id), rule.summary, f"{level}{'' if rule.waivable else '; cannot be waived'}")
            for rule, level in cells
        ),
    )


def render_own_rules() -> str:
    """What is found where no rule can be applied."""
    return table(("Id", "What happened"), ((code(rule.id), rule.summary) for rule in OWN_RULES))


def render_build_rules() -> str:
    """What a build job asks besides."""
    rows = ((code(rule.id), rule.severity, rule.summary) for rule in BUILD_RULES)
    return table(("Id", "Severity", "What it asks"), rows)


def render_kpack_rules() -> str:
    """What is asked of split device code, and what to do where it is not so."""
    rows = (
        (code(rule.id), "note" if rule.id in NOTES else rule.severity, rule.summary, rule.next_step)
        for rule in KPACK_RULES.values()
    )
    return table(("Id", "Severity", "What it asks", "What to do"), rows)


def _packages(rule: str, rows: Sequence[PackageRow]) -> str:
    """The patterns of packages that a rule is on for, and of those that a row switches it off for."""
    names = [name for row in rows if rule in row.rules for name in row.names]
    off = [name for row in rows if rule in row.off for name in row.names]
    on = "all" if "*" in names else " ".join(map(code, names))
    return f"{on} except {' '.join(map(code, off))}" if off else on


def _severity(rule: Rule, rows: Sequence[PackageRow]) -> str:
    """The severity for most packages, and for which it is another."""
    common: str = rule.severity
    # A rule that one row alone puts on is as strict as that row says.
    homes = [row.names for row in rows if rule.id in row.rules]
    others: list[str] = []
    for row in rows:
        said = row.severity.get(rule.id)
        if said is not None and ("*" in row.names or homes == [row.names]):
            common = said
        elif said is not None:
            others.append(f"{said} for {' '.join(map(code, row.names))}")
    return "; ".join((common, *others))


def _set_severity(rule: SetRule) -> str:
    """A set rule's severity, with and without a complete set."""
    if rule.proof:
        return f"{rule.severity}, with `--install`"
    without = "" if rule.open_severity is None else f"; {rule.open_severity} without `--set`"
    return f"{rule.severity}{without}"
