"""Whether the statements about a set say that it was checked and may be published, on a given day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.findings import Finding, Waiver, weigh
from rocwright.model.manifest import SetManifest, set_id
from rocwright.model.statement import ADOPTED, FINDINGS, SET_SUBJECT, Statement, waivers_about

_BY_METADATA = ": it was adopted by its metadata alone; adopted with --download, its files are checked"


class _Findings(msgspec.Struct, frozen=True):
    """What is read of a findings statement; whoever wrote it may say more."""

    passed: bool
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    # A check that does not say which of its rules can be waived gives nothing to waive.
    unwaivable: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether a set may be published; `problem` says why not, `waivers` are those that it rests on."""

    problem: str | None
    waivers: tuple[Waiver, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against publishing."""
        return self.problem is None


def verdict(
    set_digest: str, statements: Iterable[Statement], today: date, *, files: Collection[str] = ()
) -> Verdict:
    """Weigh every findings statement about the set against the waivers about it that are in force.

    A set passes when some check of all its files was stated, and every error of every check is waived. Its
    files are `files`, where they are known, and those that any statement about it lists.
    Raises `InvalidData` for a waiver that cannot be read.
    """
    mine = tuple(item for item in statements if item.about(set_digest))
    checks = [item for item in mine if item.predicate_type == FINDINGS]
    if not checks:
        adopted = any(item.predicate_type == ADOPTED for item in mine)
        return Verdict(f"no statement says that this set passed its checks{_BY_METADATA if adopted else ''}")
    # Statements come in any order; what is said about them must not depend on it.
    waivers = sorted(waivers_about(set_digest, mine), key=str)
    names = {subject.name for item in mine for subject in item.subject} - {SET_SUBJECT}
    weighed = [_weigh(check, names.union(files), waivers, today) for check in checks]
    problems = {problem for problem, _ in weighed if problem is not None}
    if problems:
        return Verdict("; ".join(sorted(problems)))
    return Verdict(None, tuple(sorted({waiver for _, used in weighed for waiver in used}, key=str)))


def verdict_on(manifest: SetManifest, statements: Iterable[Statement], today: date) -> Verdict:
    """`verdict` on a set whose manifest is at hand: a check must have looked at each of its files."""
    return verdict(set_id(manifest), statements, today, files=[entry.name for entry in manifest.files])


def _weigh(
    check: Statement, files: Collection[str], waivers: Sequence[Waiver], today: date
) -> tuple[str | None, tuple[Waiver, ...]]:
    try:
        said = msgspec.convert(check.predicate, _Findings)
    except (msgspec.ValidationError, InvalidData) as error:
        return f"a findings statement cannot be read: {error}", ()
    # A check of some of the files says nothing about the others.
    if not said.files:
        return "a check of this set looked at no file", ()
    unchecked = sorted(set(files) - set(said.files))
    if unchecked:
        return f"a check of this set left out {', '.join(unchecked)}", ()
    errors = [finding for finding in said.findings if finding.severity == "error"]
    if not errors:
        return None if said.passed else "a check of this set did not pass", ()
    unwaivable = {one.rule for one in errors} if said.unwaivable is None else said.unwaivable
    weighed = weigh(errors, waivers, today, unwaivable=unwaivable)
    if weighed.refused:
        rules = sorted({finding.rule for finding in weighed.refused})
        return (
            f"a check of this set reported errors: {', '.join(rules)}{_why_not(rules, waivers, unwaivable)}",
            (),
        )
    return None, weighed.used


def _why_not(rules: Sequence[str], waivers: Sequence[Waiver], unwaivable: Iterable[str]) -> str:
    """Why waivers that were given for these rules do not count."""
    refused = set(rules) & set(unwaivable)
    notes = []
    for waiver in waivers:
        if waiver.rule in refused:
            notes.append(f"{waiver.rule} cannot be waived")
        elif waiver.rule in rules:
            notes.append(f"no waiver in force covers all of {waiver.rule}: {waiver}")
    return f" ({'; '.join(dict.fromkeys(notes))})" if notes else ""
