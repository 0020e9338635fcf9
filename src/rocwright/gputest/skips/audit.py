"""What entries are still good for: their tests are run again, and what was seen says what to do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from rocwright.gputest.inside.rocwright_patterns import parts
from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.lint import tests_of
from rocwright.model.skips import SkipEntry
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


def to_rerun(entries: Sequence[SkipEntry], collected: Collected) -> dict[str, tuple[str, ...]]:
    """The tests of each entry, in order; flaky ones are run in every run, and judged there."""
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
        return "soften", f"fails ({failed}) and harms nothing: xfail tells when it is mended"
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
