"""Auditing and carrying over, acted out: collect, run again, judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date

from rocwright.errors import UsageError
from rocwright.gputest.skips.audit import Audit, judge_entries, to_rerun
from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.hold import Place, entries_that_hold
from rocwright.gputest.skips.port import Ported, carried_over, entries_of_version
from rocwright.gputest.skips.rerun import Bench
from rocwright.gputest.skips.versions import version_fits
from rocwright.model.skips import SkipEntry
from rocwright.model.testing import CaseResult


def audit(bench: Bench, entries: Sequence[SkipEntry], today: date, *, tell: Callable[[str], None]) -> Audit:
    """Run the tests of the entries that hold at the bench, and judge the entries."""
    here = bench.setting.here(bench.target)
    chosen = entries_that_hold(entries, here, bench.families, today)
    collected, tests = _collected(bench, chosen)
    results = _results(bench, chosen, tests, tell)
    return Audit(
        target=here.target,
        torch=here.torch,
        python=here.python,
        platform=here.platform,
        entries=judge_entries(chosen, tests, results, collected, gpu=bool(bench.target)),
    )


def port_plan(
    bench: Bench, entries: Sequence[SkipEntry], old: str, new: str, today: date
) -> dict[str, tuple[str, ...]]:
    """By entry the tests that `port` would run. Raises `UsageError` for a torch that is not `new`."""
    return _collected(bench, _of_old(bench, entries, old, new, today))[1]


def port(
    bench: Bench,
    entries: Sequence[SkipEntry],
    old: str,
    new: str,
    today: date,
    *,
    tell: Callable[[str], None],
) -> tuple[Ported, ...]:
    """Run the tests of the entries for `old` with `new`, and say what becomes of each.

    Raises `UsageError` for a torch that is not `new`.
    """
    chosen = _of_old(bench, entries, old, new, today)
    collected, tests = _collected(bench, chosen)
    results = _results(bench, chosen, tests, tell)
    judged = judge_entries(chosen, tests, results, collected, gpu=bool(bench.target))
    return carried_over(chosen, judged, new, bench.families, today)


def _of_old(
    bench: Bench, entries: Sequence[SkipEntry], old: str, new: str, today: date
) -> tuple[SkipEntry, ...]:
    here = bench.setting.here(bench.target)
    for text in (old, new):
        if not text.replace(".", "").isdigit():
            raise UsageError(f"{text} is no release of torch", next_step="write it like 2.10")
    if not version_fits(new, here.torch):
        raise UsageError(
            f"torch is {here.torch} here, so nothing can be said for {new}",
            next_step="give the environment of that version: --python",
        )
    place = Place((here.target,) if here.target else (), here.platform)
    return entries_of_version(entries, old, place, bench.families, today)


def _collected(bench: Bench, entries: Sequence[SkipEntry]) -> tuple[Collected, dict[str, tuple[str, ...]]]:
    collected = bench.collected([entry for entry in entries if entry.kind != "flaky"])
    return collected, to_rerun(entries, collected)


def _results(
    bench: Bench,
    entries: Sequence[SkipEntry],
    tests: Mapping[str, tuple[str, ...]],
    tell: Callable[[str], None],
) -> dict[str, CaseResult]:
    slow = {entry.id for entry in entries if entry.kind == "hang"}
    hanging = dict.fromkeys(test for name in tests if name in slow for test in tests[name])
    others = dict.fromkeys(test for name in tests for test in tests[name] if test not in hanging)
    tell(f"tests to run: {len(hanging) + len(others)}, of entries: {len(tests)}")
    return bench.rerun(
        tuple(others), tuple(hanging), tell=lambda result: tell(f"{result.verdict:8}{result.id}")
    )
