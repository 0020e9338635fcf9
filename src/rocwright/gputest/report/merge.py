"""Several results of one test, merged into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from rocwright.model.testing import WORST_FIRST, CaseResult

_RANK = {verdict: rank for rank, verdict in enumerate(WORST_FIRST)}


def worst(results: Iterable[CaseResult]) -> CaseResult:
    """The first of the worst; passing a test once says nothing where it also failed."""
    return min(results, key=lambda one: _RANK[one.verdict])


def merged(results: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
    """One result for each test of a report, in the order of their first ones.

    A test is flaky where the report says that it was run again and passed. Else the worst result counts: two
    of them may be parts of one test, or its end and its teardown.
    """
    by_test: dict[str, list[CaseResult]] = {}
    for one in results:
        by_test.setdefault(one.id, []).append(one)
    return tuple(found[0] if len(found) == 1 else _one(found) for found in by_test.values())


def _one(found: Sequence[CaseResult]) -> CaseResult:
    result = worst(found)
    # A record of reruns writes each attempt; only all of them but the last have a `rerun`.
    reruns = sum(one.attempts - 1 if one.verdict == "flaky" else 0 for one in found)
    seconds = round(sum(one.seconds for one in found), 3)
    attempts = max(1 + reruns, *(one.attempts for one in found))
    entry = result.entry or next((one.entry for one in found if one.entry), "")
    return msgspec.structs.replace(result, seconds=seconds, attempts=attempts, entry=entry)


def of_attempts(attempts: Sequence[CaseResult]) -> CaseResult:
    """One result of all attempts at a test in one run: bad and later good is flaky, with what was wrong."""
    result = worst(attempts)
    flaky = result.bad and attempts[-1].verdict in ("passed", "xfailed", "flaky")
    return msgspec.structs.replace(
        result,
        verdict="flaky" if flaky else result.verdict,
        seconds=round(sum(one.seconds for one in attempts), 6),
        attempts=sum(one.attempts for one in attempts),
        entry=next((one.entry for one in attempts if one.entry), ""),
    )


def worse_of(one: CaseResult, other: CaseResult) -> CaseResult:
    """The worse of two results under one name, with what only the other one says."""
    result = worst((one, other))
    rest = other if result is one else one
    return msgspec.structs.replace(
        result,
        seconds=max(one.seconds, other.seconds),
        detail=result.detail or rest.detail,
        entry=result.entry or rest.entry,
    )


def later_counts(rounds: Sequence[Iterable[CaseResult]]) -> tuple[CaseResult, ...]:
    """The results of several rounds of the same tests, oldest first: what failed and then passed is flaky.

    What failed in the last round in which it ran stays as bad as it was there.
    """
    found: dict[str, CaseResult] = {}
    for round_ in rounds:
        results = tuple(round_)
        _collected_now(found, results)
        for one in results:
            before = found.get(one.id)
            if before is None:
                found[one.id] = one
                continue
            attempts = before.attempts + one.attempts
            seconds = round(before.seconds + one.seconds, 3)
            entry = one.entry or before.entry
            if one.verdict == "passed" and (before.bad or before.verdict == "flaky"):
                new = msgspec.structs.replace(before, verdict="flaky")
            elif one.verdict == "skipped" and before.verdict != "skipped":
                # A round that did not run it says nothing.
                continue
            else:
                new = one
            found[one.id] = msgspec.structs.replace(new, attempts=attempts, seconds=seconds, entry=entry)
    return tuple(found.values())


def _collected_now(found: dict[str, CaseResult], results: Sequence[CaseResult]) -> None:
    """Files that could not be collected before, and gave tests in this round, are flaky."""
    names = {one.id for one in results}
    ran = {one.file for one in results if one.file != one.id and one.verdict != "skipped"}
    for file in ran - names:
        before = found.get(file)
        if before is not None and before.bad:
            found[file] = msgspec.structs.replace(before, verdict="flaky", attempts=before.attempts + 1)
