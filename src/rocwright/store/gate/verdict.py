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
from rocwright.store.gate.opens import Opening, adopt_files, waive

_BY_METADATA = ": it was adopted by its metadata alone; adopted with --download, its files are checked"
# No command helps against an error that nobody may waive, or a statement that says nothing anybody can read.
_NEVER: tuple[Opening, ...] = ()


class _Findings(msgspec.Struct, frozen=True):
    """What is read of a findings statement; whoever wrote it may say more."""

    passed: bool
    files: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    # A check that does not say which of its rules can be waived gives nothing to waive.
    unwaivable: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether a set may be published; `problem` says why not, `waivers` are those that it rests on.

    `openings` are what would change that; None for another check.
    """

    problem: str | None
    waivers: tuple[Waiver, ...] = ()
    openings: tuple[Opening, ...] | None = None

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
        problem = "no statement says that this set passed its checks"
        adopted = next((item for item in mine if item.predicate_type == ADOPTED), None)
        if adopted is None:
            return Verdict(problem)
        return Verdict(problem + _BY_METADATA, openings=adopt_files(adopted))
    # Statements come in any order; what is said about them must not depend on it.
    waivers = sorted(waivers_about(set_digest, mine), key=str)
    names = {subject.name for item in mine for subject in item.subject} - {SET_SUBJECT}
    weighed = [_weigh(check, names.union(files), waivers, today) for check in checks]
    problems = {one.problem for one in weighed if one.problem is not None}
    if problems:
        closed = [one for one in weighed if one.problem is not None]
        rules = sorted({rule for one in closed for rule in one.refused})
        hopeless = any(one.final for one in closed)
        return Verdict(
            "; ".join(sorted(problems)), (), _NEVER if hopeless else waive(set_digest, rules, today)
        )
    return Verdict(None, tuple(sorted({waiver for one in weighed for waiver in one.waivers}, key=str)))


def verdict_on(manifest: SetManifest, statements: Iterable[Statement], today: date) -> Verdict:
    """`verdict` on a set whose manifest is at hand: a check must have looked at each of its files."""
    return verdict(set_id(manifest), statements, today, files=[entry.name for entry in manifest.files])


@dataclass(frozen=True)
class _Weighed:
    """What one check comes to: the rules whose errors nothing lets pass, and whether no waiver could."""

    problem: str | None = None
    waivers: tuple[Waiver, ...] = ()
    refused: tuple[str, ...] = ()
    final: bool = False


def _weigh(check: Statement, files: Collection[str], waivers: Sequence[Waiver], today: date) -> _Weighed:
    try:
        said = msgspec.convert(check.predicate, _Findings)
    except (msgspec.ValidationError, InvalidData) as error:
        return _Weighed(f"a findings statement cannot be read: {error}", final=True)
    # A check of some of the files says nothing about the others.
    if not said.files:
        return _Weighed("a check of this set looked at no file", final=True)
    unchecked = sorted(set(files) - set(said.files))
    if unchecked:
        return _Weighed(f"a check of this set left out {', '.join(unchecked)}", final=True)
    errors = [finding for finding in said.findings if finding.severity == "error"]
    if not errors:
        return _Weighed() if said.passed else _Weighed("a check of this set did not pass", final=True)
    unwaivable = {one.rule for one in errors} if said.unwaivable is None else said.unwaivable
    weighed = weigh(errors, waivers, today, unwaivable=unwaivable)
    if not weighed.refused:
        return _Weighed(waivers=weighed.used)
    rules = tuple(sorted({finding.rule for finding in weighed.refused}))
    why = _why_not(rules, waivers, unwaivable)
    return _Weighed(
        f"a check of this set reported errors: {', '.join(rules)}{why}",
        refused=rules,
        final=bool(set(rules) & set(unwaivable)),
    )


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
