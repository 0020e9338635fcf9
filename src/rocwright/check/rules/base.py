"""The shape of a rule. Rules are pure: facts in, problems out; nothing is read while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.model.findings import Severity


@dataclass(frozen=True)
class Problem:
    """Cause and next step; `member` is the file inside the wheel that it is about.

    The cause does not name the member: problems that differ in the member alone become one finding.
    """

    cause: str
    next_step: str
    member: str = ""


@dataclass(frozen=True)
class Rule:
    """A clause about one file; `summary` is what it asks, for the documentation.

    `kinds` are the kinds of file it applies to. The contract's table says for which packages. What is not
    `waivable` no waiver lets pass: such a file is not what it claims to be.
    """

    id: str
    summary: str
    check: Callable[[Facts, Context], Iterator[Problem]]
    severity: Severity = "error"
    kinds: tuple[str, ...] = ("wheel",)
    waivable: bool = True


@dataclass(frozen=True)
class SetRule:
    """A clause about all files together; a problem comes with the name of the file it is reported for.

    `open_severity` holds where the files are not said to be a complete set: what leads out of them may be
    elsewhere. A rule with `proof` judges installations: without any it says nothing.
    """

    id: str
    summary: str
    check: Callable[[Context], Iterator[tuple[str, Problem]]]
    severity: Severity = "error"
    waivable: bool = True
    open_severity: Severity | None = None
    proof: bool = False
