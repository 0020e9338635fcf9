"""Test cases of reports: their node ids, and several results of a test merged into one.

The dialects of reports cut names up differently. pytest writes `classname="distributed.test_c10d.TestGroup"
name="test_a[x]"`, unittest-xml-reporting the same without the directory or with `__main__` in front, and
PyTorch's runner moves the file into an attribute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import msgspec

from rocwright.model.testing import WORST_FIRST, CaseResult

_RANK = {verdict: rank for rank, verdict in enumerate(WORST_FIRST)}
# The directory of the tests of a checkout of PyTorch: node ids are relative to it.
_TESTS_OF_PYTORCH = re.compile(r"(?:(?:.*/)?pytorch[^/]*/)?test/(?=.)")
_MODULE = re.compile(r"test_\w+|[a-z0-9_]+_test")
_CLASS = re.compile(r"_*[A-Z]\w*")
# `test_a (i=1)` and `testScripts (rocm_sdk.tests.Core) [rocminfo]` are parts of one test.
_PART_OF = re.compile(r"(?P<test>[A-Za-z_]\w*)\s+[(\[].*", re.DOTALL)


def node_id(classname: str, name: str, *, file: str = "", report: str = "") -> str:
    """The node id of a test case.

    `file` is the attribute of that name, `report` the directory of the report as PyTorch's runner calls it:
    `python-pytest/distributed.test_c10d`. A case without a class name stands for a whole file.
    """
    if not classname:
        return _relative(file) or _file_of(name.split("."))
    parts = [part for part in classname.split(".") if part != "__main__"]
    path, classes = _cut(parts)
    if file:
        path = _relative(file)
    elif not path:
        path = _from_report(report)
    part = _PART_OF.fullmatch(name)
    return "::".join(filter(None, (path, *classes, part["test"] if part else name)))


def cut_id(test: str) -> tuple[str, tuple[str, ...], str]:
    """File, classes and name of a node id; a parameter may hold colons, and belongs to the name."""
    file, _, rest = test.partition("::")
    names, bracket, parameters = rest.partition("[")
    *classes, name = names.split("::")
    return file, tuple(classes), name + bracket + parameters


def _cut(parts: list[str]) -> tuple[str, list[str]]:
    """The file and the classes of a dotted name."""
    modules = [number for number, part in enumerate(parts) if _MODULE.fullmatch(part)]
    if modules:
        end = modules[-1] + 1
        return _file_of(parts[:end]), parts[end:]
    end = len(parts)
    while end and _CLASS.fullmatch(parts[end - 1]):
        end -= 1
    return _file_of(parts[:end]), parts[end:]


def _file_of(parts: list[str]) -> str:
    return _relative("/".join(parts) + ".py") if parts else ""


def _from_report(report: str) -> str:
    """`python-unittest/distributed.test_c10d` → `distributed/test_c10d.py`."""
    stem = PurePosixPath(report).name
    is_module = _MODULE.fullmatch(stem.rpartition(".")[2]) is not None
    return _file_of(stem.split(".")) if is_module else ""


def _relative(file: str) -> str:
    """A test file relative to the directory of PyTorch's tests, where it lies there."""
    path = file.replace("\\", "/").removeprefix("./")
    inside = _TESTS_OF_PYTORCH.match(path)
    return path[inside.end() :] if inside else path


def worst(results: Iterable[CaseResult]) -> CaseResult:
    """The first of the worst; passing a test once says nothing where it also failed."""
    return min(results, key=lambda one: _RANK[one.verdict])


def merged(results: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
    """One result for each test of a report, in the order of their first results.

    A test is flaky where the report says that it was run again and passed. Else the worst result counts: two
    of them may be parts of one test, or its end and its teardown.
    """
    by_test: dict[str, list[CaseResult]] = {}
    for one in results:
        by_test.setdefault(one.id, []).append(one)
    return tuple(found[0] if len(found) == 1 else _of_test(found) for found in by_test.values())


def _of_test(found: Sequence[CaseResult]) -> CaseResult:
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
    """The worse of two results under one name, with what only the other says."""
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
