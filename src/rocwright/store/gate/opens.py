"""Which commands take away what closes a gate; pure.

A command is words after `rocwright`. Where the store is, whoever prints them knows and adds. WHY and DIR are
for people to fill in; what is not known to be true is under `when`: nobody is to state it before it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

import msgspec

from rocwright.model.statement import Statement
from rocwright.store.gate.said import Required, SuiteResult

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
    return (Opening((*words, "--statements", store), when),)


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


def tested(set_id: str, required: Iterable[Required], today: date) -> tuple[Opening, ...]:
    """State results that are missing, or bypass them: a command for each suite, whatever its targets."""
    suites = _by_suite(required)
    passed = [
        Opening((*_suite(set_id, name, targets), "--result", "passed"), f"{name} passed{_on(targets)}")
        for name, targets in suites.items()
    ]
    bypassed = [
        Opening(
            (*_suite(set_id, name, targets), "--bypass", *_until(today)),
            f"no machine can run {name}{_on(targets)}",
        )
        for name, targets in suites.items()
    ]
    return (*passed, *bypassed)


def tested_again(set_id: str, results: Mapping[Required, SuiteResult]) -> tuple[Opening, ...]:
    """State what another attempt of suites showed."""
    return tuple(
        Opening(
            (*_suite(set_id, name, targets), "--result", "passed", "--attempt", str(attempt)),
            f"{name} passed{_on(targets)} in another attempt",
        )
        for attempt in sorted({one.attempt + 1 for one in results.values()})
        for name, targets in _by_suite(
            one for one, result in results.items() if result.attempt + 1 == attempt
        ).items()
    )


def _by_suite(required: Iterable[Required]) -> dict[str, list[str]]:
    """The targets of each suite, none where it runs once for a set."""
    found: dict[str, list[str]] = {}
    for one in sorted(required):
        found.setdefault(one.suite, []).extend([one.target] if one.target else [])
    return found


def _suite(set_id: str, name: str, targets: Sequence[str]) -> tuple[str, ...]:
    target = ("--target", ",".join(targets)) if targets else ()
    return ("set", "state", set_id, "--suite", name, *target)


def _on(targets: Sequence[str]) -> str:
    return "" if not targets else f" on {targets[0]}" if len(targets) == 1 else " on each of them"


def _until(today: date) -> tuple[str, ...]:
    return ("--reason", WHY, "--expires", (today + _PROPOSED).isoformat())
