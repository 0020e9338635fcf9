"""The gate between staging and release: a pure function of a set, its statements and a policy.

First rule that matches decides:

1. `unchecked`: no statement says that this set passed its checks, or one says that it did not and no waiver
   in force covers each of its errors.
2. `build`: the build of this very set is not stated as successful. Nothing overrides this.
3. `digest`: there are test results, none of them for these bytes. What was tested is what is served.
4. `tests`: a test failed anywhere, or was cancelled or skipped although a runner exists. Never bypassed.
5. `untested`: a required test has no result or no runner, and no bypass in force. Blocked by default.
6. `bypassed`: all the rest passed, and what had no runner is bypassed, with reason and expiry.
7. `passed`: every required test passed on these bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.findings import Waiver
from rocwright.model.statement import BUILD, TEST, Statement
from rocwright.store.verdict import verdict

Rule = Literal["unchecked", "build", "digest", "tests", "untested", "bypassed", "passed"]


class SuiteResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The predicate of a test statement: one suite on one GPU family.

    `runner` says whether a machine that can run the suite exists; without one `result` is `skipped`.
    A later `attempt` replaces an earlier one of the same suite and family.
    """

    suite: str
    family: str
    result: Literal["passed", "failed", "skipped", "cancelled"]
    runner: bool
    attempt: int = 1
    detail: str = ""


class Required(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A suite that has to pass on a family before a set is promoted."""

    suite: str
    family: str

    def __str__(self) -> str:
        return f"{self.suite} on {self.family}"


class Bypass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Permission to promote although a required test has no runner; valid to the end of `expires`."""

    required: Required
    reason: str
    expires: date

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InvalidData(f"the bypass of {self.required} gives no reason", next_step="say why")


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a promotion needs. `today` is given, so that the same inputs give the same decision."""

    required: tuple[Required, ...]
    today: date
    bypasses: tuple[Bypass, ...] = ()

    def __post_init__(self) -> None:
        if not self.required:
            raise InvalidData(
                "a policy that requires no test gates nothing", next_step="name a suite and family"
            )


class Decision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether this set may be promoted, by which rule, and why in one sentence.

    `waivers` are those that the passed check rests on, with reason and last day.
    """

    set_id: str
    promote: bool
    rule: Rule
    reason: str
    waivers: tuple[Waiver, ...] = ()


def decide(set_id: str, statements: Iterable[Statement], policy: Policy) -> Decision:
    """Apply the rules above. Raises `InvalidData` for a test statement or waiver that cannot be read."""
    said = tuple(statements)
    mine = tuple(item for item in said if item.about(set_id))
    check = verdict(set_id, mine, policy.today)
    if check.problem is not None:
        return Decision(set_id, False, "unchecked", check.problem)
    closed = _build(mine) or _other_digest(set_id, said) or _failed(mine)
    if closed is not None:
        rule, reason = closed
        return Decision(set_id, False, rule, reason, check.waivers)
    decision = _weigh(set_id, _latest(mine), policy)
    if not check.waivers:
        return decision
    waived = "; ".join(map(str, check.waivers))
    return msgspec.structs.replace(
        decision, reason=f"{decision.reason}; WAIVED: {waived}", waivers=check.waivers
    )


def _build(mine: tuple[Statement, ...]) -> tuple[Rule, str] | None:
    results = [item.predicate.get("result") for item in mine if item.predicate_type == BUILD]
    if not results:
        return "build", "no statement says that the build of this set succeeded"
    bad = sorted({str(result) for result in results if result != "success"})
    return ("build", f"the build of this set ended with: {', '.join(bad)}") if bad else None


def _other_digest(set_id: str, said: tuple[Statement, ...]) -> tuple[Rule, str] | None:
    tests = [item for item in said if item.predicate_type == TEST]
    if tests and not any(item.about(set_id) for item in tests):
        return "digest", "tests ran, but on other bytes than the staged ones"
    return None


def _failed(mine: tuple[Statement, ...]) -> tuple[Rule, str] | None:
    bad = []
    for result in _latest(mine).values():
        name = f"{result.suite} on {result.family}"
        if result.result == "failed" or (result.runner and result.result != "passed"):
            bad.append(f"{name} {result.result}")
        elif not result.runner and result.result != "skipped":
            # Nobody can have run it: such a statement proves nothing, whatever it says.
            bad.append(f"{name} {result.result} without a runner")
    return ("tests", f"{'; '.join(sorted(bad))}; a bypass does not apply where a test ran") if bad else None


# The worse of two results of one attempt counts.
_WORSE = {"passed": 0, "skipped": 1, "cancelled": 2, "failed": 3}


def _latest(mine: tuple[Statement, ...]) -> dict[Required, SuiteResult]:
    latest: dict[Required, SuiteResult] = {}
    for item in mine:
        if item.predicate_type != TEST:
            continue
        try:
            result = msgspec.convert(item.predicate, SuiteResult)
        except msgspec.ValidationError as error:
            raise InvalidData(f"a test statement does not fit its schema: {error}") from error
        key = Required(result.suite, result.family)
        known = latest.get(key)
        if known is None or _rank(result) > _rank(known):
            latest[key] = result
    return latest


def _rank(result: SuiteResult) -> tuple[int, int]:
    return result.attempt, _WORSE[result.result]


def _weigh(set_id: str, results: dict[Required, SuiteResult], policy: Policy) -> Decision:
    """Every result is now either passed or skipped for want of a runner."""
    in_force = {item.required: item for item in policy.bypasses if policy.today <= item.expires}
    passed, bypassed, blocked = [], [], []
    for required in sorted(policy.required):
        result = results.get(required)
        if result is not None and result.result == "passed":
            passed.append(str(required))
        elif required in in_force:
            bypass = in_force[required]
            bypassed.append(f"{required} (until {bypass.expires.isoformat()}: {bypass.reason})")
        else:
            blocked.append(f"{required}: {'no result' if result is None else 'no runner'}")
    if blocked:
        expired = sorted(str(item.required) for item in policy.bypasses if policy.today > item.expires)
        note = f"; expired bypass: {', '.join(expired)}" if expired else ""
        reason = f"not tested: {'; '.join(blocked)}{note}; blocked by default without a bypass"
        return Decision(set_id, False, "untested", reason)
    tested = f"passed: {', '.join(passed)}" if passed else "no required test ran"
    if bypassed:
        return Decision(set_id, True, "bypassed", f"{tested}; NOT TESTED, bypassed: {'; '.join(bypassed)}")
    return Decision(set_id, True, "passed", tested)
