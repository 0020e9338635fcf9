"""What statements say of tests: results of suites, and bypasses of those that nothing can run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Literal

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.manifest import SetManifest
from rocwright.model.statement import BYPASS, TEST, Statement, about_set

Result = Literal["passed", "failed", "skipped", "cancelled"]
RESULTS: tuple[Result, ...] = ("passed", "failed", "skipped", "cancelled")


class SuiteResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The predicate of a test statement: one suite on one GPU family, or on one target of it.

    `runner` says whether a machine that can run the suite exists; without one `result` is `skipped`.
    A later `attempt` replaces an earlier one of the same suite, family and target.
    """

    suite: str
    family: str
    result: Result
    runner: bool
    attempt: int = 1
    detail: str = ""
    target: str = ""


class Required(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A suite that has to pass before a set is promoted: on a family as a whole, or on one target."""

    suite: str
    family: str
    target: str = ""

    def __str__(self) -> str:
        return f"{self.suite} on {self.target or self.family}"


class Bypass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Permission to promote although a required test has no runner; valid to the end of `expires`."""

    required: Required
    reason: str
    expires: date
    by: str = ""

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InvalidData(f"the bypass of {self.required} gives no reason", next_step="say why")

    def __str__(self) -> str:
        return f"{self.required} (until {self.expires.isoformat()}: {self.reason})"


def result_statement(manifest: SetManifest, result: SuiteResult) -> Statement:
    """What a suite showed, about a set."""
    return about_set(manifest, TEST, msgspec.to_builtins(result))


def bypass_statement(manifest: SetManifest, bypass: Bypass) -> Statement:
    """The statement that lets a set be promoted without a test: which, why, to what day."""
    return about_set(manifest, BYPASS, msgspec.to_builtins(bypass))


def bypasses_about(statements: Iterable[Statement]) -> tuple[Bypass, ...]:
    """The bypasses among statements about one set; raises `InvalidData` for one that cannot be read."""
    found = []
    for item in statements:
        if item.predicate_type == BYPASS:
            try:
                found.append(msgspec.convert(item.predicate, Bypass))
            except msgspec.ValidationError as error:
                raise InvalidData(f"a bypass statement does not fit its schema: {error}") from error
    return tuple(found)


# The worse of two results of one attempt counts.
_WORSE = {"passed": 0, "skipped": 1, "cancelled": 2, "failed": 3}


def latest_results(statements: Iterable[Statement]) -> dict[Required, SuiteResult]:
    """The result that counts of every suite, among statements about one set.

    That nothing could run a suite takes nothing back that a runner found out, whatever its attempt.
    Raises `InvalidData` for a test statement that cannot be read.
    """
    latest: dict[Required, SuiteResult] = {}
    for item in statements:
        if item.predicate_type != TEST:
            continue
        try:
            result = msgspec.convert(item.predicate, SuiteResult)
        except msgspec.ValidationError as error:
            raise InvalidData(f"a test statement does not fit its schema: {error}") from error
        key = Required(result.suite, result.family, result.target)
        known = latest.get(key)
        if known is None or _rank(result) > _rank(known):
            latest[key] = result
    return latest


def _rank(result: SuiteResult) -> tuple[bool, int, int]:
    ran = result.runner or result.result != "skipped"
    return ran, result.attempt, _WORSE[result.result]
