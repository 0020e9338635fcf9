"""What other Pythons at hand make of the modules of wheels: the lowest and the highest that each is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from rocwright.check.environments import PythonPlatform
from rocwright.check.facts import Facts, PythonFacts
from rocwright.check.gather.python import PythonReader, is_module
from rocwright.check.gather.wheel import begin
from rocwright.check.install import interpreter_of, this_platform
from rocwright.check.pythons import claimed, lowest_told

# The program that reads sources is for these and newer ones.
_OLDEST = 8


def compiled_elsewhere(files: Sequence[Facts], note: Callable[[str], None]) -> tuple[Facts, ...]:
    """The same facts with what other Pythons say of the sources, in `Facts.other_pythons`.

    Asked are the lowest and the highest Python on PATH that a wheel promises to run on, unless one of them
    judged it before; no source is run.
    """
    at_hand = cache(_at_hand)
    asked: dict[int, list[Path]] = {}
    for facts in files:
        for minor in _pythons(facts, at_hand):
            asked.setdefault(minor, []).append(facts.path)
    found: dict[Path, dict[int, tuple[PythonFacts, ...]]] = {}
    left: dict[Path, str] = {}
    for minor, paths in sorted(asked.items()):
        note(f"compiling with Python 3.{minor}")
        wheels = {path: begin(path).members for path in paths}
        with PythonReader(wheels, interpreter=at_hand(minor)) as reader:
            told = reader.done()
        left |= {path: f"Python 3.{minor}: {why}" for path, why in reader.left.items()}
        for path in paths:
            broken = tuple(one for one in told.get(path, ()) if one.problem is not None)
            found.setdefault(path, {})[minor] = broken
    return tuple(
        msgspec.structs.replace(
            one, other_pythons=found.get(one.path, {}), unjudged=one.unjudged or left.get(one.path)
        )
        for one in files
    )


def _pythons(facts: Facts, at_hand: Callable[[int], Path | None]) -> list[int]:
    if facts.kind != "wheel" or not any(is_module(member.name) for member in facts.members):
        return []
    minors = [minor for minor in sorted(claimed(facts)) if minor >= _OLDEST]
    there = [minor for minor in minors if minor == facts.judged_by or at_hand(minor) is not None]
    # Whoever names no oldest Python promises none.
    ends = there[-1:] if lowest_told(facts) is None else [*there[:1], *there[-1:]]
    return sorted({*ends} - {facts.judged_by})


def _at_hand(minor: int) -> Path | None:
    return interpreter_of(PythonPlatform(f"cp3{minor}", f"cp3{minor}", this_platform()))
