"""Waivers as they are asked for: text becomes a value, or a mistake with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches

from rocwright.check.rules import OWN_RULES, RULES, SET_RULES
from rocwright.errors import UsageError
from rocwright.model.findings import Finding, Waiver, last_day

_EXAMPLE = "rocwright check … --allow RULE --reason 'why' --expires 2030-01-31"


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
        raise UsageError("--allow needs a last day", next_step=_EXAMPLE)
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
