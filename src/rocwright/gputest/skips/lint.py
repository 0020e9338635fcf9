"""Judging entries against the tests that there are: each matches what it says, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from difflib import get_close_matches

import msgspec

from rocwright.gputest.inside.rocwright_patterns import Matcher, is_exact, matches, parts
from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.hold import FamilyMembers, Place, is_expired, overlap, where_fits
from rocwright.model.findings import Clause, Finding, HasFindings
from rocwright.model.suites import SkipEntry

# A finding names the entry as its file, and the pattern that it is about as its member.
_CLAUSES = (
    Clause("expired", "The last day of an entry has not passed.", next_step="remove it, or renew it"),
    Clause("added-later", "An entry was not added on a future day.", next_step="correct the day"),
    Clause(
        "no-issue", "An entry that is not flaky names an issue.", severity="warning", next_step="name one"
    ),
    Clause(
        "undeclared",
        "A pattern with a star says how many tests it may match.",
        severity="warning",
        next_step="write matches = …",
    ),
    Clause(
        "several-files", "A pattern matches tests of one file.", next_step="write one for each file meant"
    ),
    Clause("more-than-declared", "An entry matches no more tests than it says.", next_step="narrow it"),
    Clause("not-collected", "The tests of a file can be collected.", next_step="see why they cannot"),
    Clause("no-file", "A file that is named has tests here.", next_step="correct the name, or remove it"),
    Clause("nothing", "A pattern matches a test.", next_step="correct the pattern, or remove it"),
    Clause("twice", "No two entries are for one test in one place.", next_step="remove one of them"),
)
RULES = {clause.id: clause for clause in _CLAUSES}


class Linted(msgspec.Struct, HasFindings, frozen=True):
    """Findings in the order of the entries; `matched` are the tests of each entry that was judged.

    `elsewhere` are entries that do not hold at the place that was asked for, `tests` is how many tests there
    were to match (none without a list).
    """

    findings: tuple[Finding, ...]
    matched: dict[str, tuple[str, ...]]
    elsewhere: tuple[str, ...]
    tests: int

    def as_json(self) -> dict[str, object]:
        """As it is printed: the file of a finding is an entry, its cause is what that does."""
        rows = [
            {
                "entry": one.file,
                "rule": one.rule,
                "severity": one.severity,
                "test": pattern_of(one),
                "what": one.cause,
            }
            for one in self.findings
        ]
        return {**msgspec.structs.asdict(self), "findings": rows}


def pattern_of(finding: Finding) -> str:
    """The pattern that a finding is about; empty where it is about the whole entry."""
    return "".join(finding.members)


def lint(
    entries: Sequence[SkipEntry],
    families: FamilyMembers,
    today: date,
    *,
    place: Place,
    collected: Collected | None = None,
) -> Linted:
    """Judge the entries that hold at a place; without a list of tests only as far as that goes."""
    judged = [entry for entry in entries if where_fits(entry.where, place, families)]
    hits = tests_of(judged, collected) if collected is not None else {}
    found: list[Finding] = []
    for entry in judged:
        found += _alone(entry, today)
        if collected is not None:
            found += _against(entry, hits[entry.id], collected)
    found += _twice(judged, hits, families, today)
    order = {entry.id: number for number, entry in enumerate(entries)}
    return Linted(
        findings=tuple(sorted(found, key=lambda one: order[one.file])),
        matched={
            name: tuple(dict.fromkeys(test for tests in by.values() for test in tests))
            for name, by in hits.items()
        },
        elsewhere=tuple(entry.id for entry in entries if entry not in judged),
        tests=len(collected.ids) if collected is not None else 0,
    )


def tests_of(entries: Sequence[SkipEntry], collected: Collected) -> dict[str, dict[str, list[str]]]:
    """By entry and pattern the tests that it matches, in the order of the list."""
    pairs = [(entry.id, test) for entry in entries for test in entry.tests]
    found: dict[str, dict[str, list[str]]] = {
        entry.id: {test: [] for test in entry.tests} for entry in entries
    }
    for number, node_id in Matcher([test for _, test in pairs]).over(collected.ids):
        name, test = pairs[number]
        found[name][test].append(node_id)
    return found


def _finding(entry: SkipEntry, rule: str, what: str, test: str = "") -> Finding:
    found = RULES[rule].broken(entry.id, what)
    return msgspec.structs.replace(found, members=(test,)) if test else found


def _alone(entry: SkipEntry, today: date) -> list[Finding]:
    """What an entry says of itself."""
    found = []
    if is_expired(entry, today):
        what = f"expired on {entry.expires}: its tests run again; remove it, or renew it"
        found.append(_finding(entry, "expired", what))
    if entry.added > today:
        found.append(_finding(entry, "added-later", f"added on {entry.added}, which is in the future"))
    if entry.kind != "flaky" and not entry.issue:
        found.append(_finding(entry, "no-issue", "names no issue, so nobody can see whether it is fixed"))
    if entry.matches is None and not all(map(is_exact, entry.tests)):
        what = "has a pattern with a star but does not say how many tests it may match: write matches = …"
        found.append(_finding(entry, "undeclared", what))
    return found


def _against(entry: SkipEntry, hits: dict[str, list[str]], collected: Collected) -> list[Finding]:
    """What the list of tests says of it."""
    found = []
    for test, tests in hits.items():
        if not tests:
            found.append(_unmatched(entry, test, collected))
            continue
        files = sorted({parts(one)[0] for one in tests})
        if len(files) > 1:
            what = (
                f"matches tests of {len(files)} files ({_some(files)}): write one pattern for each file meant"
            )
            found.append(_finding(entry, "several-files", what, test))
    every = {one for tests in hits.values() for one in tests}
    if entry.matches is not None and len(every) > entry.matches:
        what = f"matches {len(every)} tests, declared are {entry.matches}: {_some(sorted(every))}"
        found.append(_finding(entry, "more-than-declared", what))
    return found


def _unmatched(entry: SkipEntry, test: str, collected: Collected) -> Finding:
    file = parts(test)[0]
    if file in collected.broken:
        what = f"cannot be judged: {file} could not be collected: {collected.broken[file]}"
        return _finding(entry, "not-collected", what, test)
    if is_exact(file) and file not in collected.files:
        near = get_close_matches(file, collected.files, n=2, cutoff=0.75)
        hint = f"; perhaps {' or '.join(near)}" if near and file not in near else ""
        return _finding(entry, "no-file", f"names a file that has no test here: {file}{hint}", test)
    return _finding(entry, "nothing", f"matches no test{_near(test, collected)}", test)


def _near(test: str, collected: Collected) -> str:
    """What may have been meant: the parametrised tests of that name, another class, a name like it."""
    with_parameters = [one for one in collected.ids if matches(f"{test}[*]", one)]
    if with_parameters:
        return f"; {test}[*] matches {len(with_parameters)}"
    file, *_, name = parts(test)
    same_name = [one for one in collected.ids if parts(one)[0] == file and parts(one)[-1] == name]
    if same_name:
        return f"; the name is that of {_some(same_name)}"
    here = [one for one in collected.ids if parts(one)[0] == file]
    near = get_close_matches(test, here, n=2, cutoff=0.8) if len(here) < 20_000 else []
    return f"; perhaps {' or '.join(near)}" if near else ""


def _twice(
    entries: Sequence[SkipEntry],
    hits: dict[str, dict[str, list[str]]],
    families: FamilyMembers,
    today: date,
) -> list[Finding]:
    """Two entries for one test in one place: either is forgotten when the other is taken out."""
    first: dict[str, list[SkipEntry]] = {}
    found: dict[tuple[str, str], list[str]] = {}
    by_id = {entry.id: entry for entry in entries}
    for entry in entries:
        if is_expired(entry, today):
            continue
        # Without a list the texts are compared: the same exact id in two entries needs no list to be seen.
        by_test = hits.get(entry.id) or {test: [test] for test in entry.tests}
        for one in dict.fromkeys(test for tests in by_test.values() for test in tests):
            for other in first.setdefault(one, []):
                if overlap(other.where, entry.where, families):
                    found.setdefault((other.id, entry.id), []).append(one)
            first[one].append(entry)
    return [
        _finding(by_id[later], "twice", f"matches what {earlier} matches, in the same place: {_some(tests)}")
        for (earlier, later), tests in found.items()
    ]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
