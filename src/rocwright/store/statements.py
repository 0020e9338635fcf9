"""What statements say to the gate: of checks and waivers, of tests and bypasses; and which commands state it.

A command is words after `rocwright`. Where the store is, whoever prints them knows and adds. WHY and DIR are
for people to fill in; what is not known to be true is under `when`: nobody is to state it before it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Literal, cast, get_args

import msgspec

from rocwright.errors import InvalidData
from rocwright.model.channels import Asked, BypassBounds
from rocwright.model.findings import Finding, Override, Waiver, weigh
from rocwright.model.sets import (
    ADOPTED,
    BYPASS,
    FINDINGS,
    SET_SUBJECT,
    TEST,
    SetManifest,
    Statement,
    about_set,
    set_id,
    waivers_about,
)
from rocwright.model.testing import on_device

Result = Literal["passed", "failed", "skipped", "cancelled"]
RESULTS: tuple[Result, ...] = ("passed", "failed", "skipped", "cancelled")


class SuiteResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The predicate of a test statement: one suite on one GPU family, or on one target of it.

    `runner` says whether a machine that can run the suite exists; without it `result` is `skipped`.
    A later `attempt` replaces an earlier one of the same suite, family, target and device. `device` is what
    the target was of: a GPU, also where nothing is said, as in older statements; `emulated` where an emulator
    played it. Of any other kind nobody knows what it proves: it counts for nothing.
    """

    suite: str
    family: str
    result: Result
    runner: bool
    attempt: int = 1
    detail: str = ""
    target: str = ""
    device: str = "gpu"

    @property
    def key(self) -> Required | None:
        """What it is a result of; None for a kind of device that is not known."""
        if self.device not in get_args(Asked):
            return None
        return Required(self.suite, self.family, self.target, cast(Asked, self.device))


class Required(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True, omit_defaults=True):
    """A suite that has to pass before a set is promoted: on a family as a whole, or on one target.

    What passed on an emulated GPU is another requirement than the same on a GPU, and never stands for it.
    """

    suite: str
    family: str
    target: str = ""
    device: Asked = "gpu"

    @property
    def emulated(self) -> bool:
        """Whether it is asked for on an emulated GPU."""
        return self.device == "emulated"

    def __str__(self) -> str:
        return f"{self.suite} on {on_device(self.target or self.family, emulated=self.emulated)}"


class Bypass(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Permission to promote although a required test has no runner; valid to the end of `expires`.

    `at` is the day on which it was given, None where an older edition did not say.
    """

    required: Required
    reason: str
    expires: date
    by: str = ""
    at: date | None = None

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise InvalidData(f"the bypass of {self.required} gives no reason", next_step="say why")

    def __str__(self) -> str:
        return f"{self.required} (until {self.expires.isoformat()}: {self.reason})"


def why_void(bypass: Bypass, bounds: BypassBounds, today: date) -> str:
    """Why a bypass does not count: it lasts too long, or its giver may not give it; empty where it does.

    It lasts from the day on which it was given; from today where that is not said, or has not come yet.
    """
    longest, who = bounds.of(bypass.required.suite)
    begins = today if bypass.at is None else min(bypass.at, today)
    lasts = (bypass.expires - begins).days
    if lasts > longest:
        return f"it lasts {lasts} days from {begins}, and {longest} are the most"
    if who and bypass.by not in who:
        return f"{bypass.by or 'nobody'} gave it, and only {', '.join(who)} may"
    return ""


def result_statement(manifest: SetManifest, result: SuiteResult) -> Statement:
    """What a suite showed, about a set."""
    return about_set(manifest, TEST, msgspec.to_builtins(result))


def bypass_statement(manifest: SetManifest, bypass: Bypass) -> Statement:
    """The statement that lets a set be promoted without a test: which, why, to what day."""
    return about_set(manifest, BYPASS, msgspec.to_builtins(bypass))


def bypasses_about(statements: Iterable[Statement]) -> tuple[Bypass, ...]:
    """The bypasses among statements about one set; raises `InvalidData` for a bypass that cannot be read."""
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

    A result of an unknown kind of device is none. That nothing could run a suite takes nothing back that a
    runner found out, whatever its attempt.
    Raises `InvalidData` for a test statement that cannot be read.
    """
    latest: dict[Required, SuiteResult] = {}
    for item in statements:
        if item.predicate_type != TEST:
            continue
        result = _result_in(item)
        key = result.key
        if key is None:
            continue
        known = latest.get(key)
        if known is None or _rank(result) > _rank(known):
            latest[key] = result
    return latest


def of_unknown_devices(statements: Iterable[Statement]) -> tuple[SuiteResult, ...]:
    """The results that count for nothing, as nobody knows what their kind of device proves."""
    found = (_result_in(item) for item in statements if item.predicate_type == TEST)
    return tuple(one for one in found if one.key is None)


def _result_in(item: Statement) -> SuiteResult:
    try:
        return msgspec.convert(item.predicate, SuiteResult)
    except msgspec.ValidationError as error:
        raise InvalidData(f"a test statement does not fit its schema: {error}") from error


def _rank(result: SuiteResult) -> tuple[bool, int, int]:
    ran = result.runner or result.result != "skipped"
    return ran, result.attempt, _WORSE[result.result]


# -- whether a set was checked and may be published, on a given day


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
    overrides: tuple[Override, ...] = ()


class Verdict(msgspec.Struct, frozen=True):
    """Whether a set may be published; `problem` says why not, `waivers` are those that it rests on.

    `overrides` are what a rocwright.toml took away in the check that it rests on, `openings` what changes
    the verdict; None for another check.
    """

    problem: str | None
    waivers: tuple[Waiver, ...] = ()
    openings: tuple[Opening, ...] | None = None
    overrides: tuple[Override, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against publishing."""
        return self.problem is None


def verdict(
    set_digest: str,
    statements: Iterable[Statement],
    today: date,
    *,
    files: Collection[str] = (),
    overrides: bool = True,
) -> Verdict:
    """Weigh every findings statement about the set against the waivers about it that are in force.

    A set passes when some check of all its files was stated, and every error of every check is waived. Its
    files are `files`, where they are known, and those that any statement about it lists. A check from which
    rules were taken away counts as passed to the last day of that, and only with `overrides`; what it found
    counts always.
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
    # Statements come in any order; what follows from them must not depend on it.
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
    waived = tuple(sorted({waiver for one in weighed for waiver in one.waivers}, key=str))
    return _resting(waived, [one.overrides for one in weighed], today, allowed=overrides)


def _resting(
    waived: tuple[Waiver, ...], checks: Sequence[tuple[Override, ...]], today: date, *, allowed: bool
) -> Verdict:
    """A set without open errors passes by a check of all rules, or by one whose overrides are in force."""
    if any(not overrides for overrides in checks):
        return Verdict(None, waived)
    standing = [held for held in checks if allowed and all(one.in_force(today) for one in held)]
    if standing:
        fewest = min(standing, key=lambda held: (len(held), str(held)))
        return Verdict(None, waived, overrides=fewest)
    told = sorted({str(one) for held in checks for one in held if not (allowed and one.in_force(today))})
    why = "are past their last day" if allowed else "do not count here"
    return Verdict(f"every check of this set rests on overrides that {why}: {'; '.join(told)}")


def verdict_on(
    manifest: SetManifest, statements: Iterable[Statement], today: date, *, overrides: bool = True
) -> Verdict:
    """`verdict` on a set whose manifest is at hand: a check must have looked at each of its files."""
    files = [entry.name for entry in manifest.files]
    return verdict(set_id(manifest), statements, today, files=files, overrides=overrides)


class _Weighed(msgspec.Struct, frozen=True):
    """What one check comes to: the rules whose errors nothing lets pass, and whether no waiver could."""

    problem: str | None = None
    waivers: tuple[Waiver, ...] = ()
    refused: tuple[str, ...] = ()
    final: bool = False
    overrides: tuple[Override, ...] = ()


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
        if said.passed:
            return _Weighed(overrides=said.overrides)
        return _Weighed("a check of this set did not pass", final=True)
    unwaivable = {one.rule for one in errors} if said.unwaivable is None else said.unwaivable
    weighed = weigh(errors, waivers, today, unwaivable=unwaivable)
    if not weighed.refused:
        return _Weighed(waivers=weighed.used, overrides=said.overrides)
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


# -- which commands take away what closes a gate


# For so long a waiver or bypass is proposed.
_PROPOSED = timedelta(days=30)
WHY = "WHY"


class Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command that takes a rule away: its `words`, and `when` it may be given, where that is not now."""

    words: tuple[str, ...]
    when: str = ""


def check_files(files: Sequence[str], store: str) -> tuple[Opening, ...]:
    """Check the set's own files, and record what is found; `files` are their places, none where not known."""
    words = ("check", "--set", "DIR") if not files else ("check", *files)
    when = "" if files else "DIR holds the files of the set"
    return (Opening((*words, "--statements", store, "--no-overrides"), when),)


def adopt_files(said: Statement) -> tuple[Opening, ...]:
    """Fetch the files of a set that was adopted by its metadata, as the statement says where they are."""
    asked = said.predicate.get("asked")
    words = (
        tuple(map(str, asked))
        if isinstance(asked, list)
        else ("--from-index", str(said.predicate.get("from")))
    )
    return (Opening(("set", "create", *words, "--stage")),)


def waive(set_id: str, rules: Iterable[str], today: date) -> tuple[Opening, ...]:
    """Let errors of these rules pass."""
    named = [word for rule in rules for word in ("--waive", rule)]
    return (Opening(("set", "state", set_id, *named, *_until(today)), "somebody answers for these errors"),)


def build_succeeded(set_id: str) -> tuple[Opening, ...]:
    """State that the build succeeded."""
    return (Opening(("set", "state", set_id, "--build", "success"), "it did"),)


def tested(
    set_id: str, required: Iterable[Required], today: date, bounds: BypassBounds
) -> tuple[Opening, ...]:
    """State results that are missing, or bypass them: a command for each suite, whatever its targets."""
    suites = _by_suite(required)
    passed = [
        Opening((*_suite(set_id, key, targets), "--result", "passed"), f"{key[0]} passed{_on(key, targets)}")
        for key, targets in suites.items()
    ]
    bypassed = [
        Opening(
            (*_suite(set_id, key, targets), "--bypass", *_bypass_until(today, *bounds.of(key[0]))),
            f"no machine can run {key[0]}{_on(key, targets)}",
        )
        for key, targets in suites.items()
    ]
    return (*passed, *bypassed)


def tested_again(set_id: str, results: Mapping[Required, SuiteResult]) -> tuple[Opening, ...]:
    """State what another attempt of suites showed."""
    return tuple(
        Opening(
            (*_suite(set_id, key, targets), "--result", "passed", "--attempt", str(attempt)),
            f"{key[0]} passed{_on(key, targets)} in another attempt",
        )
        for attempt in sorted({one.attempt + 1 for one in results.values()})
        for key, targets in _by_suite(
            one for one, result in results.items() if result.attempt + 1 == attempt
        ).items()
    )


def _by_suite(required: Iterable[Required]) -> dict[tuple[str, Asked], list[str]]:
    """The targets of each suite on a kind of device, none where it runs once for a set."""
    found: dict[tuple[str, Asked], list[str]] = {}
    for one in sorted(required):
        found.setdefault((one.suite, one.device), []).extend([one.target] if one.target else [])
    return found


def _suite(set_id: str, key: tuple[str, Asked], targets: Sequence[str]) -> tuple[str, ...]:
    target = ("--target", ",".join(targets)) if targets else ()
    device = ("--device", key[1]) if key[1] != "gpu" else ()
    return ("set", "state", set_id, "--suite", key[0], *target, *device)


def _on(key: tuple[str, Asked], targets: Sequence[str]) -> str:
    emulated = key[1] == "emulated"
    if not targets:
        return " on an emulated GPU" if emulated else ""
    if len(targets) > 1:
        return f" on each of them{', emulated' if emulated else ''}"
    return f" on {on_device(targets[0], emulated=emulated)}"


def _bypass_until(today: date, longest: int, who: Sequence[str]) -> tuple[str, ...]:
    return (*_until(today, timedelta(days=longest)), *(("--by", who[0]) if who else ()))


def _until(today: date, longest: timedelta = _PROPOSED) -> tuple[str, ...]:
    return ("--reason", WHY, "--expires", (today + min(_PROPOSED, longest)).isoformat())
