"""The shape of a rule. Rules are pure: facts in, problems out; nothing is read while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.model.findings import Clause, Severity


@dataclass(frozen=True)
class Problem:
    """Cause and next step; `member` is the file inside the wheel that it is about.

    The cause does not name the member: problems that differ in the member alone become one finding.
    """

    cause: str
    next_step: str
    member: str = ""


@dataclass(frozen=True)
class Rule(Clause):
    """A clause about one file.

    `kinds` are the kinds of file it applies to. The contract's table says for which packages.
    """

    check: Callable[[Facts, Context], Iterator[Problem]]
    kinds: tuple[str, ...] = ("wheel",)


@dataclass(frozen=True)
class SetRule(Clause):
    """A clause about all files together; a problem comes with the name of the file it is reported for.

    `open_severity` holds where the files are not said to be a complete set: what leads out of them may be
    elsewhere. A rule with `proof` judges installations: without any it says nothing.
    """

    check: Callable[[Context], Iterator[tuple[str, Problem]]]
    open_severity: Severity | None = None
    proof: bool = False
