"""What a set of reports comes to: each expected run, each failure, each cause. Pure.

A cause is the signature of a failure: its words without what differs from run to run. Failures with one
signature are taken for one cause, whatever GPU, Python, machine or shard they came from.

A run has passed only where a report of it is whole, says that it came to its end, holds at least one test
that ran, and none that is bad. Everything else is failed or no report: silence is never a pass.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePosixPath

import msgspec

from rocwright.gputest.report.values import (
    FINDINGS,
    Expected,
    FailedCase,
    FailureGroup,
    FileTime,
    Finding,
    FixedTest,
    Judged,
    Report,
    ShardState,
    SkipReason,
    State,
    implied,
    matches,
    missing,
)
from rocwright.model.gpu import in_order
from rocwright.model.testing import CaseResult, Ran, SignatureTable, infra_kind, run_of_key

# Of a detail that long; it holds the end, where the cause stands.
_DETAIL = 6000
_RAN = ("passed", "flaky", "xfailed")
Place = tuple[str, str, str]


def judge(
    expected: Sequence[Expected] | None,
    found: Sequence[Report],
    previous: Sequence[Report] | None = None,
    *,
    table: SignatureTable,
    issues: Mapping[str, str] | None = None,
    compared: str = "",
) -> Judged:
    """What the reports come to.

    `expected` are the runs that have to report; None: every shard that the reports themselves count.
    `previous` are the reports of an earlier set; `issues` gives the issue of an entry by its id.
    """
    shards = [shard_state(one, expected=_is_expected(one, expected)) for one in found]
    awaited = implied(found) if expected is None else missing(expected, found)
    shards += [_silent(one) for one in awaited]
    before = _Before(previous or (), table)
    groups = _groups(found, before, table, issues or {})
    return Judged(
        shards=tuple(sorted(shards, key=lambda one: _natural(one.name))),
        groups=tuple(sorted(groups, key=_importance)),
        fixed=tuple(sorted(_fixed(found, before))),
        files=tuple(_files(found)),
        compared=compared if previous is not None else "",
        skips=tuple(_skips(found, issues or {})),
    )


def _is_expected(report: Report, expected: Sequence[Expected] | None) -> bool:
    return expected is None or any(matches(one, report) for one in expected)


def _silent(expected: Expected) -> ShardState:
    named = run_of_key(expected.id) or Ran("")
    target = expected.target.removeprefix("cpu") or named.target
    suite = expected.suite or named.suite
    return ShardState(
        expected.id, "no report", "no report of it was found", target, suite=suite, device=named.device
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts 2of10 before 10of10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def shard_state(report: Report, *, expected: bool = True) -> ShardState:
    """Whether a run passed, failed, or gave no report, and why."""
    counts: Counter[str] = Counter(one.verdict for one in report.results)
    bad = sum(one.bad for one in report.results)
    state: State = "no report"
    if report.problems:
        more = f" (and {len(report.problems) - 1} more)" if len(report.problems) > 1 else ""
        told = f"; what can be read of it has {bad} failed" if bad else ""
        why = f"{report.problems[0]}{more}{told}"
    elif report.empty:
        why = report.notes[0] if report.notes else "there is no file of results"
    elif bad:
        state, why = "failed", f"{bad} of {len(report.results)} tests failed"
        why += "" if report.complete else "; it was stopped before its end"
    elif not report.complete:
        state, why = "failed", "it was stopped before its end"
    elif not any(counts[verdict] for verdict in _RAN):
        state, why = "failed", f"no test ran; {len(report.results)} were skipped"
        why = why if report.results else "no test ran"
    else:
        state, why = "passed", f"{counts['flaky']} flaky" if counts["flaky"] else ""
    return ShardState(
        name=report.name,
        state=state,
        why=why,
        target=report.ran.target,
        suite=report.ran.suite,
        device=report.ran.kind,
        emulation=report.emulation,
        ran=report.ran,
        counts=dict(sorted(counts.items())),
        reruns=sum(one.attempts - 1 for one in report.results),
        seconds=report.seconds,
        expected=expected,
        notes=report.notes,
    )


def place_of(ran: Ran) -> Place:
    """Where failures are compared: shards, Pythons and attempts are the same place."""
    return ran.suite, ran.config, ran.where


class _Before:
    """What failed before, by place and test."""

    def __init__(self, reports: Iterable[Report], table: SignatureTable) -> None:
        self.failed: dict[Place, dict[str, dict[str, CaseResult]]] = {}
        for report in reports:
            tests = self.failed.setdefault(place_of(report.ran), {})
            for one in report.results:
                told = signature(one, table) if one.bad else None
                # The machine's fault says nothing of the test.
                if told is not None and not told.infra:
                    tests.setdefault(one.id, {})[told.text] = one

    def knows(self, ran: Ran, test: str, told: Signature) -> bool:
        """Whether the test failed like this there before."""
        return told.text in self.failed.get(place_of(ran), {}).get(test, {})


def _finding(case: CaseResult, told: Signature, ran: Ran, before: _Before) -> Finding:
    if case.verdict == "flaky":
        return "FLAKY"
    if told.infra:
        return "INFRA"
    # An entry that says that a test fails does not say that it passes.
    known = (case.entry and case.verdict != "xpassed") or before.knows(ran, case.id, told)
    return "KNOWN" if known else "NEW"


def _groups(
    found: Sequence[Report], before: _Before, table: SignatureTable, issues: Mapping[str, str]
) -> Iterator[FailureGroup]:
    cases: dict[Signature, list[tuple[FailedCase, CaseResult]]] = {}
    for report in found:
        for one in report.results:
            if one.bad or one.verdict == "flaky":
                told = signature(one, table)
                finding = _finding(one, told, report.ran, before)
                case = FailedCase(report.name, one.id, one.verdict, finding, one.message, one.entry)
                cases.setdefault(told, []).append((case, one))
    for told, pairs in cases.items():
        first = pairs[0][1]
        named = sorted({issues[case.entry] for case, _ in pairs if issues.get(case.entry)})
        yield FailureGroup(
            id=told.id,
            signature=told.text,
            finding=min((case.finding for case, _ in pairs), key=FINDINGS.index),
            infra=told.infra,
            cases=tuple(sorted(case for case, _ in pairs)),
            issues=tuple(named),
            detail=first.detail if len(first.detail) <= _DETAIL else "…" + first.detail[-_DETAIL:],
        )


def _importance(group: FailureGroup) -> tuple[int, int, str]:
    return FINDINGS.index(group.finding), -len(group.cases), group.signature


def _fixed(found: Sequence[Report], before: _Before) -> Iterator[FixedTest]:
    bad = {(place_of(report.ran), one.id) for report in found for one in report.results if one.bad}
    passed = {
        (place_of(report.ran), one.id): report
        for report in found
        for one in report.results
        if one.verdict == "passed"
    }
    for place, tests in before.failed.items():
        for test, told in tests.items():
            if (place, test) in passed and (place, test) not in bad:
                message = next(iter(told.values())).message
                yield FixedTest(test, "-".join(filter(None, place)), message)


def _files(found: Sequence[Report]) -> list[FileTime]:
    seconds: dict[str, float] = {}
    tests: Counter[str] = Counter()
    for report in found:
        for one in report.results:
            seconds[one.file] = seconds.get(one.file, 0.0) + one.seconds
            tests[one.file] += 1
    ordered = sorted(seconds, key=lambda file: (-seconds[file], file))
    return [FileTime(file, round(seconds[file], 3), tests[file]) for file in ordered]


def _skips(found: Sequence[Report], issues: Mapping[str, str]) -> list[SkipReason]:
    """The reasons of what was skipped, those of most results first."""
    alike: dict[tuple[str, str], list[tuple[str, CaseResult]]] = {}
    for report in found:
        for one in report.results:
            if one.verdict == "skipped":
                key = (one.entry, "" if one.entry else normalised(one.message))
                alike.setdefault(key, []).append((report.ran.where, one))
    reasons = [
        SkipReason(
            reason=min(one.message for _, one in held),
            count=len(held),
            tests=len({one.id for _, one in held}),
            targets=in_order({target for target, _ in held} - {""}),
            example=min(one.id for _, one in held),
            entry=entry,
            issue=issues.get(entry, ""),
        )
        for (entry, _), held in alike.items()
    ]
    return sorted(reasons, key=lambda one: (-one.count, one.entry, one.reason))


# -- signatures of failures


_LONGEST = 240
# What a machine printed last is searched for its own causes: so many characters of it.
_TAIL = 20_000
_ENDED = ("crashed", "hung", "memory", "error")

_LETTERS = str.maketrans("0123456789-", "abcdefghijk")
_BACK = str.maketrans("abcdefghijk", "0123456789-")
# A character of the private area; in no message.
_MARK = "\ue000"
_NUMBER = r"(?<![\w.<])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?%?(?![\w>])"
# In this order: what a pattern leaves behind the next does not take for something else.
_REPLACED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b|\bGPU-[0-9a-f]{16}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    # Below a directory of temporary files nothing tells anything.
    (
        re.compile(
            r"(?<![\w.])(?:/(?:var/|private/)*(?:tmp|folders)/[^\s'\":,;)\]]*"
            r"|[A-Za-z]:\\[^\s'\":,;)\]]*\\Te?mp\\[^\s'\":,;)\]]*)",
            re.IGNORECASE,
        ),
        "<temporary>",
    ),
    # Of other paths the last part.
    (re.compile(r"(?<![\w.<])(?:~|\.{1,3})?/(?:[^\s'\":,;()\[\]/]+/)*([^\s'\":,;()\[\]/]+)"), r"<path>/\1"),
    (re.compile(r"\b[A-Za-z]:\\(?:[^\s'\":,;()\[\]\\]+\\)*([^\s'\":,;()\[\]\\]+)"), r"<path>/\1"),
    (re.compile(r"(\.py|\.cpp|\.cu|\.h|\.hip|\.cc):\d+(?::\d+)?"), r"\1"),
    (re.compile(r",? (?:at|on|in)? ?\bline \d+"), ""),
    (re.compile(r"\b(cuda|hip|gpu|rank|device|node)([:\[ #-]|id=| = )\s*\d+\b\]?", re.IGNORECASE), r"\1 <n>"),
    (re.compile(r"\b(pid|process|thread|tid|worker|gw)([ =:#]*)\d+\b", re.IGNORECASE), r"\1 <n>"),
    (re.compile(r"\bgfx[0-9]+[0-9a-f]*(?::(?:xnack|sramecc)[+-])*"), "<target>"),
    (re.compile(r"\bsm_\d+\b"), "<target>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<hash>"),
    # Codes tell causes apart, all other numbers do not.
    (
        re.compile(r"\b(status|code|signal|errno|error|Signals\.SIG\w+)([: =(]+)(-?\d+)\b", re.IGNORECASE),
        lambda found: f"{found[1]} {_spelled(found[3])}",
    ),
    (re.compile(_NUMBER + r" ?(?:[KMGT]i?B|bytes)\b", re.IGNORECASE), "<size>"),
    (re.compile(_NUMBER), "<n>"),
    (re.compile(r"<n>(?:(?:, ?| ?x ?)<n>)+"), "<n>"),
    (re.compile(r"\s+"), " "),
)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line \d+ in (?P<function>\S+)')
_PACKAGE = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


class Signature(msgspec.Struct, frozen=True, order=True):
    """Words of a cause; `infra` is its kind where it is the machine's, else empty."""

    text: str
    infra: str = ""

    @property
    def id(self) -> str:
        """Twelve hex digits that stand for the words."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def signature(case: CaseResult, table: SignatureTable) -> Signature:
    """The signature of a result that is bad or flaky.

    A cause of the machine's is its kind alone. What ended its process is told apart by the function that it
    was in, where Python could say that; a message that says nothing by the name of the test.
    """
    searched = case.message
    if case.verdict in _ENDED:
        searched = f"{case.message}\n{case.detail[-_TAIL:]}"
    infra = infra_kind(searched, table)
    if infra:
        return Signature(infra, infra)
    text = normalised(case.message)
    if case.verdict in ("crashed", "hung", "memory"):
        place = "" if case.verdict == "memory" else _function(case.detail, case.file)
        return Signature(f"{case.verdict}: {text} in {place or variant_free(case.id, table)}")
    if case.verdict == "xpassed" or any(
        re.search(pattern, case.message, re.IGNORECASE) for pattern in table.vague
    ):
        return Signature(f"{text} in {variant_free(case.id, table)}")
    return Signature(text)


# A run without a GPU fails ten thousand times with the same words.
@lru_cache(maxsize=4096)
def normalised(message: str) -> str:
    """A message without addresses, paths, numbers and whatever else differs between two runs."""
    text = message.strip()
    for pattern, instead in _REPLACED:
        text = pattern.sub(instead, text)
    # The codes as they were.
    text = re.sub(f"{_MARK}([a-k]+)", lambda found: found[1].translate(_BACK), text)
    text = text.strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _spelled(digits: str) -> str:
    """A code in letters, which no later rule takes for a number."""
    return _MARK + digits.translate(_LETTERS)


def variant_free(test: str, table: SignatureTable) -> str:
    """A node id without parameters, and without the devices and data types at its end."""
    head, colons, name = test.partition("[")[0].rpartition("::")
    again = True
    while again:
        again = False
        for ending in table.variants:
            if name.lower().endswith(f"_{ending}") and len(name) > len(ending) + len("test_"):
                name, again = name[: -len(ending) - 1], True
    for device in ("CPU", "CUDA", "META", "XPU"):
        head = head.removesuffix(device) if colons else head
    return head + colons + name


def _function(detail: str, test_file: str) -> str:
    """The innermost function of the thread with the fatal error, as Python's fault handler tells."""
    _, found, stack = detail.rpartition("Current thread")
    if not found:
        return ""
    frame = _FRAME.search(stack.partition("\n\n")[0])
    if frame is None:
        return ""
    path = frame["file"].replace("\\", "/")
    if _PACKAGE.match(path):
        file = _PACKAGE.sub("", path)
    else:
        # Of a checkout in a temporary directory, too, the test file is the same in every run.
        file = (
            f"<path>/{PurePosixPath(test_file).name}" if path.endswith(f"/{test_file}") else normalised(path)
        )
    return f"{file} {frame['function']}"
