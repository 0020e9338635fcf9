"""Verdicts, the parts of an answer, and what statements come to for a question.

yes: sources say so of all that is asked. partly: a yes with a limit (experimental, some of the GPUs, the
target but not the product, sources that contradict each other). no: sources say that it is not so, or their
list of what is supported does not have it. unknown: no source says anything about it. list: a list
answers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal

import msgspec
from packaging.version import Version

from rocwright.compat.claimed.facts import Facts, contradict, holds, within
from rocwright.compat.claimed.markup import plain
from rocwright.compat.claimed.question import Question
from rocwright.model.compat_releases import Level, Statement

Verdict = Literal["yes", "partly", "unknown", "no", "list"]
# Weakest first.
WEAK: tuple[Verdict, ...] = ("no", "unknown", "partly", "yes", "list")
_LEVELS: tuple[Level, ...] = ("preview", "experimental", "official")
Cell = tuple[Verdict, "Level | None"]
NAMES = {"linux": "Linux", "windows": "Windows", "wsl": "WSL"}


class Reference(msgspec.Struct, frozen=True):
    """Where something was read, and of when it is, in words."""

    address: str
    date: str = ""


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was said, for what it holds (`where`, in words), and where it was read."""

    text: str
    sources: tuple[Reference, ...] = ()
    answer: Literal["yes", "no", ""] = ""
    level: Level | None = None
    where: str = ""


class AnswerPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a question: what it is about, its verdict, why in a sentence, and what sources say."""

    what: str
    verdict: Verdict
    text: str = ""
    because: tuple[Reason, ...] = ()
    level: Level | None = None
    needs: str = ""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a question: a verdict, in a sentence, and its parts, the weakest first.

    `weakest` names the part that decides where another is better. `level` says how a yes is meant, `needs`
    what has to be set for it, `found` what a list holds, `notes` what else is to be known.
    """

    question: Question
    verdict: Verdict
    text: str
    parts: tuple[AnswerPart, ...] = ()
    weakest: str = ""
    level: Level | None = None
    needs: str = ""
    found: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def mixed(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of several things side by side: what is not the same for all holds in part."""
    found = set(verdicts)
    return found.pop() if len(found) == 1 else "no" if found == {"no", "unknown"} else "partly"


def sources(facts: Facts, *addresses: str) -> tuple[Reference, ...]:
    """Addresses with their dates."""
    return tuple(Reference(address, facts.date(address)) for address in dict.fromkeys(addresses) if address)


def unknown(what: str, text: str, *because: Reason) -> AnswerPart:
    """A part of which no source says anything."""
    return AnswerPart(what, "unknown", f"no source says anything about {text}", because)


def judge(
    what: str, said: Sequence[Statement], question: Question, facts: Facts, *, per_target: bool = False
) -> AnswerPart:
    """What statements come to; with `per_target` a yes that names no GPU decides nothing."""
    platform = question.platform or "linux"
    fitting = [row for row in said if _fits(row, question, platform, facts)]
    because = tuple(reason(row, facts) for row in fitting or said)
    # What names no platform was said of Linux.
    if platform != "linux" and not any(platform in row.platforms for row in fitting):
        return unknown(what, place(what, question), *because)
    named = dict.fromkeys(target for row in fitting for target in row.targets)
    targets = question.targets or tuple(named) or ("",)
    cells: dict[tuple[str, str], Cell] = {}
    for version in _versions(fitting, question, facts):
        for target in targets:
            rows = [
                row
                for row in fitting
                if (not version or holds(row, Version(version), platform))
                and (not row.targets or target in row.targets)
            ]
            deciding = [row for row in rows if row.targets or row.answer == "no" or not per_target]
            if deciding or question.targets:
                cells[version, target] = _decide(deciding)
    known = {place: cell for place, cell in cells.items() if cell[0] != "unknown"}
    if not known:
        return unknown(what, place(what, question), *because)
    # A version that nobody asked for and nobody speaks of is no limit; a GPU of the question is one.
    dead = {target for target in question.targets if not any(place[1] == target for place in known)}
    cells = known | {("", target): ("unknown", None) for target in dead}
    verdict = mixed(cell[0] for cell in cells.values())
    levels = {cell[1] for cell in cells.values()}
    level = levels.pop() if len(levels) == 1 else None
    needs = next((row.needs for row in fitting if row.needs and verdict in ("yes", "partly")), "")
    text = (
        _told(cells, question) if len(set(cells.values())) > 1 or (verdict == "partly" and not level) else ""
    )
    return AnswerPart(what, verdict, text, because, level, needs)


def _fits(row: Statement, question: Question, platform: str, facts: Facts) -> bool:
    """Whether a statement can hold for a question; what the question leaves open excludes nothing."""
    if question.targets and row.targets and not set(question.targets) & set(row.targets):
        return False
    if question.torch and not within(row.torch, Version(question.torch)):
        return False
    if question.rocm and not any(within(row.rocm, Version(one)) for one in releases(question, facts)):
        return False
    return not row.platforms or platform in row.platforms


def releases(question: Question, facts: Facts) -> tuple[str, ...]:
    """The releases of ROCm that a question means: those of its line, or the one that no table has."""
    return tuple(row.rocm for row in facts.line_of(question.rocm)) or (question.rocm,)


def _versions(said: Sequence[Statement], question: Question, facts: Facts) -> tuple[str, ...]:
    """The versions of PyTorch to look at: the one asked for, those that go with the ROCm, or all."""
    if question.torch or not any(row.torch for row in said):
        return (question.torch,)
    listed = {version for row in facts.line_of(question.rocm) for version in row.torch}
    return tuple(str(one) for one in facts.torch_versions if not question.rocm or str(one) in listed)


def _decide(said: Sequence[Statement]) -> tuple[Verdict, Level | None]:
    """What statements that hold at once come to: a no counts more than a yes, unless they contradict."""
    answers = {row.answer for row in said}
    if not answers:
        return "unknown", None
    if any(contradict(*pair) for pair in combinations(said, 2)):
        return "partly", None
    if "no" in answers:
        return "no", None
    level = next((level for level in _LEVELS if any(row.level == level for row in said)), None)
    return ("partly" if level in ("preview", "experimental") else "yes"), level


def _told(cells: Mapping[tuple[str, str], Cell], question: Question) -> str:
    """What differs: `official: gfx942; unknown: gfx1103`, `no: gfx1152 with PyTorch 2.9 2.10`."""
    if len(set(cells.values())) == 1:
        return "sources contradict each other"
    if len({place[0] for place in cells}) > 1 and not question.targets:
        return "it depends on the GPU and on the version of PyTorch"
    by: dict[str, dict[str, list[str]]] = {}
    for (version, target), (verdict, level) in cells.items():
        word: str = level or ("contradicted" if verdict == "partly" else verdict)
        versions = by.setdefault(word, {}).setdefault(target, [])
        versions += [version] if version and not question.torch else []
    told = []
    for word, places in by.items():
        each = (
            f"{target} with PyTorch {' '.join(versions)}" if versions else target
            for target, versions in places.items()
        )
        told.append(f"{word}: {', '.join(each).strip()}")
    return "; ".join(told)


def reason(row: Statement, facts: Facts) -> Reason:
    """A statement as a reason."""
    return Reason(plain(row.text), sources(facts, *row.sources), row.answer, row.level, where(row))


def where(row: Statement) -> str:
    """For what a statement holds: `gfx1151 torch>=2.7,<2.12 linux`."""
    versions = (f"{name}{text}" for name, text in (("torch", row.torch), ("rocm", row.rocm)) if text)
    return " ".join((*row.targets, *versions, *row.platforms))


def place(what: str, question: Question) -> str:
    """`flash attention on gfx1151, PyTorch 2.9`; a GPU by its name, with its target."""
    gpus = (
        f"{gpu.name} ({' '.join(gpu.targets)})" if gpu.targets != (gpu.name,) else gpu.name
        for gpu in question.gpus
    )
    named = " and ".join(gpus)
    parts = [f"{what} on {named}" if what and named else what or named]
    parts += [f"PyTorch {question.torch}"] if question.torch else []
    parts += [f"ROCm {question.rocm}"] if question.rocm else []
    parts += [f"Python {question.python}"] if question.python else []
    parts += [question.system or NAMES[question.platform]] if question.platform else []
    return ", ".join(filter(None, parts))
