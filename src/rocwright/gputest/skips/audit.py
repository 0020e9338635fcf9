"""What entries are still good for: their tests are run again, and what was seen says what to do with them.

They run as if there were no entries: each isolated, those that hang with a short time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import Interrupted
from rocwright.gputest.environment import ChildEnvironment
from rocwright.gputest.inside.rocwright_patterns import parts
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.run import run_isolated
from rocwright.gputest.report.cases import worst
from rocwright.gputest.setting import Setting
from rocwright.gputest.skips.collected import Collected, collect, files_named
from rocwright.gputest.skips.entries import families_table
from rocwright.gputest.skips.hold import FamilyMembers, entries_that_hold
from rocwright.gputest.skips.lint import tests_of
from rocwright.model.suites import SkipEntry, SuiteTable
from rocwright.model.testing import CaseResult

# `remove`: every test passes, or there is none. `narrow`: some pass. `soften`: they fail, and nothing else
# dies of it, so xfail would do. `harden`: an xfail that takes its process along. `unknown`: nothing was seen.
Advice = Literal["keep", "remove", "narrow", "soften", "harden", "unknown"]
_HARM = ("crashed", "hung", "memory")
_FAILS = ("failed", "error", "xpassed")


class Audited(msgspec.Struct, frozen=True):
    """One entry: the advice with its reason, and its tests by what they showed."""

    entry: str
    kind: str
    advice: Advice
    why: str
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    harmful: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()


class Audit(msgspec.Struct, frozen=True):
    """All of them, and where they were judged."""

    target: str
    torch: str
    python: str
    platform: str
    entries: tuple[Audited, ...]

    @property
    def removable(self) -> tuple[str, ...]:
        """Ids of the entries that may go."""
        return tuple(one.entry for one in self.entries if one.advice == "remove")


class Bench(msgspec.Struct, frozen=True):
    """Where tests are rerun: the setting, one of its targets (empty: the CPU), its processes' environment.

    `test_s` and `hang_s` are the seconds for a test, and for a test that by an entry hangs; `times` is how
    often each runs.
    """

    setting: Setting
    target: str
    table: SuiteTable
    environment: ChildEnvironment
    work_dir: Path
    test_s: float
    hang_s: float
    times: int = 1
    families: FamilyMembers = msgspec.field(default_factory=families_table)

    def collected(self, entries: Sequence[SkipEntry]) -> Collected:
        """The tests of the files that entries name, as this torch and GPU make them."""
        return collect(
            self.setting.python,
            self.setting.checkout.tests,
            files_named(entries, self.setting.checkout.tests),
            limit_s=self.table.limits.collect_s,
            env={**self.environment.set, **self.setting.workers(self.target, 1)[0]},
            drop_env=self.setting.removed(self.environment, os.environ),
        )

    def rerun(
        self,
        tests: Sequence[str],
        hanging: Sequence[str],
        tell: Callable[[CaseResult], None] | None = None,
    ) -> dict[str, CaseResult]:
        """What each test shows, the worst of all times. Raises `Interrupted`."""
        found: dict[str, CaseResult] = {}
        for number in range(self.times):
            for name, chosen, seconds in (("tests", tests, self.test_s), ("hanging", hanging, self.hang_s)):
                if not chosen:
                    continue
                plan = self._plan(chosen, seconds, self.work_dir / f"{name}-{number + 1}")
                done = run_isolated(plan, tell=tell)
                for result in done.results:
                    held = found.get(result.id)
                    found[result.id] = result if held is None else worst((held, result))
                if done.interrupted:
                    raise Interrupted("stopped while tests were run again", next_step="run again")
        return found

    def _plan(self, tests: Sequence[str], seconds: float, log_dir: Path) -> Isolation:
        return Isolation(
            python=self.setting.python,
            root=self.setting.checkout.tests,
            files=tuple(dict.fromkeys(parts(test)[0] for test in tests)),
            pytest_args=("-p", "no:cacheprovider"),
            env=self.environment.set,
            drop_env=self.setting.removed(self.environment, os.environ),
            workers=self.setting.workers(self.target, 1),
            only=tuple(tests),
            test_s=seconds,
            collect_s=self.table.limits.collect_s,
            end_s=self.table.limits.end_s,
            log_dir=log_dir,
        )


def audit(bench: Bench, entries: Sequence[SkipEntry], today: date, *, tell: Callable[[str], None]) -> Audit:
    """Run the tests of the entries that hold at the bench, and judge the entries."""
    here = bench.setting.here(bench.target)
    chosen = entries_that_hold(entries, here, bench.families, today)
    collected, tests = tests_there(bench, chosen)
    results = results_of(bench, chosen, tests, tell)
    return Audit(
        target=here.target,
        torch=here.torch,
        python=here.python,
        platform=here.platform,
        entries=judge_entries(chosen, tests, results, collected, gpu=bool(bench.target)),
    )


def tests_there(bench: Bench, entries: Sequence[SkipEntry]) -> tuple[Collected, dict[str, tuple[str, ...]]]:
    """The tests that there are at the bench, and by entry those to run again."""
    collected = bench.collected([entry for entry in entries if entry.kind != "flaky"])
    return collected, to_rerun(entries, collected)


def results_of(
    bench: Bench,
    entries: Sequence[SkipEntry],
    tests: Mapping[str, tuple[str, ...]],
    tell: Callable[[str], None],
) -> dict[str, CaseResult]:
    """What the tests of the entries show when they are run again; those that hang have their own time."""
    slow = {entry.id for entry in entries if entry.kind == "hang"}
    hanging = dict.fromkeys(test for name in tests if name in slow for test in tests[name])
    others = dict.fromkeys(test for name in tests for test in tests[name] if test not in hanging)
    tell(f"tests to run: {len(hanging) + len(others)}, of entries: {len(tests)}")
    return bench.rerun(
        tuple(others), tuple(hanging), tell=lambda result: tell(f"{result.verdict:8}{result.id}")
    )


def to_rerun(entries: Sequence[SkipEntry], collected: Collected) -> dict[str, tuple[str, ...]]:
    """The tests of each entry, in order; flaky tests are run in every run, and judged there."""
    hits = tests_of([entry for entry in entries if entry.kind != "flaky"], collected)
    return {
        name: tuple(dict.fromkeys(one for tests in by.values() for one in tests)) for name, by in hits.items()
    }


def judge_entries(
    entries: Sequence[SkipEntry],
    tests: Mapping[str, tuple[str, ...]],
    results: Mapping[str, CaseResult],
    collected: Collected,
    *,
    gpu: bool,
) -> tuple[Audited, ...]:
    """The advice for each entry that `tests` names; pure. Without a `gpu` no test is taken for gone."""
    return tuple(
        _judged(entry, tests[entry.id], results, collected, gpu) for entry in entries if entry.id in tests
    )


def _judged(
    entry: SkipEntry,
    tests: Sequence[str],
    results: Mapping[str, CaseResult],
    collected: Collected,
    gpu: bool,
) -> Audited:
    broken = sorted({file for test in entry.tests if (file := parts(test)[0]) in collected.broken})
    if broken:
        why = f"{broken[0]} could not be collected: {collected.broken[broken[0]]}"
        return Audited(entry.id, entry.kind, "unknown", why)
    if not tests and not gpu:
        # Most of PyTorch's tests are made for the devices that there are.
        return Audited(entry.id, entry.kind, "unknown", "there is no such test on the CPU")
    if not tests:
        return Audited(entry.id, entry.kind, "remove", "there is no such test any more")
    by: dict[str, list[str]] = {"passed": [], "failed": [], "harm": [], "none": []}
    for test in tests:
        result = results.get(test) or results.get(parts(test)[0])
        verdict = result.verdict if result is not None else "skipped"
        key = "harm" if verdict in _HARM else "failed" if verdict in _FAILS else "none"
        by["passed" if verdict == "passed" else key].append(test)
    advice, why = _advice(entry, by)
    return Audited(
        entry.id,
        entry.kind,
        advice,
        why,
        passed=tuple(by["passed"]),
        failed=tuple(by["failed"]),
        harmful=tuple(by["harm"]),
        not_run=tuple(by["none"]),
    )


def _advice(entry: SkipEntry, by: Mapping[str, Sequence[str]]) -> tuple[Advice, str]:
    passed, failed, harm, none = (len(by[name]) for name in ("passed", "failed", "harm", "none"))
    if not passed and not failed and not harm:
        return "unknown", f"all {none} of its tests skip themselves here"
    if not failed and not harm:
        if none:
            return "unknown", f"{passed} pass, but {none} skip themselves here"
        return "remove", f"passes ({passed})" if passed == 1 else f"all {passed} tests pass"
    if passed:
        return "narrow", f"{passed} of {passed + failed + harm} tests pass: name the others only"
    if harm and entry.kind == "xfail":
        return "harden", f"{harm} of its tests crash or hang: skip or hang keeps their process alive"
    if not harm and entry.kind in ("skip", "hang"):
        return "soften", f"fails ({failed}) and harms nothing: xfail reports when it is fixed"
    return "keep", f"{failed} fail, {harm} crash or hang"


def as_markdown(audit: Audit) -> str:
    """The report for people: what to do, then what was seen."""
    where = f"{audit.target or 'CPU'}, torch {audit.torch}, Python {audit.python}, {audit.platform}"
    lines = [f"# Audit of skip entries\n\nOn {where}.\n"]
    lines.append("| Entry | Kind | Advice | Why |\n| --- | --- | --- | --- |")
    lines += [f"| {one.entry} | {one.kind} | {one.advice} | {_cell(one.why)} |" for one in audit.entries]
    for one in audit.entries:
        if one.advice == "narrow":
            lines.append(f"\n{one.entry}: these tests pass:\n")
            lines += [f"* `{test}`" for test in one.passed]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
