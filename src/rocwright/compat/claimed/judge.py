"""What statements come to for a question: those that fit decide; what it leaves open makes it depend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from packaging.version import Version

from rocwright.compat.claimed.conflicts import within
from rocwright.compat.claimed.markup import plain
from rocwright.compat.claimed.question import Asked
from rocwright.model.compat_features import Level, Statement
from rocwright.model.project import PLATFORMS

Verdict = Literal["yes", "no", "depends", "not known"]


class Reason(msgspec.Struct, frozen=True):
    """Something that was said, for what it holds (`where`, in words), and where it was read."""

    text: str
    sources: tuple[str, ...]
    answer: Literal["yes", "no", ""] = ""
    level: Level | None = None
    where: str = ""
    needs: str = ""


class Answer(msgspec.Struct, frozen=True):
    """An answer: to what, in a word, as a sentence, and because of what.

    `open` is what the question would have to say for the answer to be another; a contradiction of sources is
    told in `text`. `level` says how a yes is meant, `needs` what has to be set for it.
    """

    subject: str
    asked: Asked
    answer: Verdict
    text: str
    level: Level | None = None
    needs: str = ""
    open: tuple[str, ...] = ()
    because: tuple[Reason, ...] = ()


def judge(subject: str, said: Sequence[Statement], asked: Asked, *, per_target: bool = False) -> Answer:
    """The answer that statements give; with `per_target` a yes that names no GPU decides nothing."""
    fitting = [row for row in said if _fits(row, asked)]
    deciding = [row for row in fitting if row.targets or row.answer == "no" or not per_target]
    besides = [row for row in fitting if row not in deciding]
    reasons = tuple(map(reason, (*deciding, *besides) or said))
    if not deciding:
        text = f"not known: no table says anything of {place(subject, asked)}"
        return Answer(subject, asked, "not known", text, because=reasons)
    words = {target: _of_one(target, deciding) for target in asked.targets or ("",)}
    missing = [target for target, word in words.items() if word is None]
    verdicts = {word for word in words.values() if word is not None}
    left = _open(deciding, asked)
    if len(verdicts) == 1 and not missing and not left:
        verdict, level = next(iter(verdicts))
        if verdict != "depends":
            needs = next((row.needs for row in deciding if row.needs), "")
            head = f"{verdict}, {level}" if level else verdict
            return Answer(
                subject, asked, verdict, f"{head}: {place(subject, asked)}", level, needs, (), reasons
            )
    why = _why(words, left, _contradict(deciding, asked))
    return Answer(subject, asked, "depends", f"{place(subject, asked)}: {why}", None, "", left, reasons)


def _why(
    words: dict[str, tuple[Verdict, Level | None] | None], left: tuple[str, ...], contradiction: bool
) -> str:
    why = ["sources contradict each other"] if contradiction else []
    if left:
        why.append(f"the question leaves open the {' and the '.join(left)}")
    if not why:
        told = (f"{target} {_word(word)}" for target, word in words.items())
        why.append(f"not all GPUs alike: {', '.join(told)}")
    return ", and ".join(why)


def _contradict(said: Sequence[Statement], asked: Asked) -> bool:
    """Whether one says yes and another no of the same: GPU, platform, and the version that is asked about."""
    if not asked.torch and any(row.torch for row in said):
        return False
    return any(
        one.answer == "yes"
        and other.answer == "no"
        and _meet(one.targets, other.targets)
        and _meet(one.platforms, other.platforms)
        for one in said
        for other in said
    )


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    return not one or not other or bool(set(one) & set(other))


def _word(word: tuple[Verdict, Level | None] | None) -> str:
    if word is None:
        return "not known"
    return f"{word[0]} ({word[1]})" if word[1] else word[0]


def _of_one(target: str, said: Iterable[Statement]) -> tuple[Verdict, Level | None] | None:
    """What holds for one GPU (none: for all of them); None where nothing is said of it."""
    found = {(row.answer, row.level) for row in said if not (target and row.targets) or target in row.targets}
    if not found:
        return None
    return next(iter(found)) if len(found) == 1 else ("depends", None)


def _fits(row: Statement, asked: Asked) -> bool:
    """Whether a statement can hold for a question; what the question leaves open excludes nothing."""
    if asked.targets and row.targets and not set(asked.targets) & set(row.targets):
        return False
    if asked.torch and not within(row.torch, Version(asked.torch)):
        return False
    if asked.rocm and not within(row.rocm, Version(asked.rocm)):
        return False
    return not (asked.platform and row.platforms and asked.platform not in row.platforms)


def _open(said: Sequence[Statement], asked: Asked) -> tuple[str, ...]:
    """What statements turn on and the question does not say."""
    left = []
    if not asked.targets and any(row.targets for row in said):
        left.append("GPU")
    if not asked.torch and any(row.torch for row in said):
        left.append("version of PyTorch")
    if not asked.rocm and any(row.rocm for row in said):
        left.append("release of ROCm")
    if not asked.platform and not _same_everywhere(said):
        left.append("platform")
    return tuple(left)


def _same_everywhere(said: Sequence[Statement]) -> bool:
    """Whether what is said comes to the same on every platform."""
    each = [
        frozenset(
            (row.answer, row.level, row.targets) for row in said if not row.platforms or name in row.platforms
        )
        for name in PLATFORMS
    ]
    return len(set(each)) == 1


def reason(row: Statement) -> Reason:
    """A statement as a reason."""
    return Reason(plain(row.text), row.sources, row.answer, row.level, where(row), row.needs)


def where(row: Statement) -> str:
    """For what a statement holds: `gfx1151 torch>=2.7,<2.12 linux`."""
    versions = (f"{name}{text}" for name, text in (("torch", row.torch), ("rocm", row.rocm)) if text)
    return " ".join((*row.targets, *versions, *row.platforms))


def place(subject: str, asked: Asked) -> str:
    """`flash attention on gfx1151, PyTorch 2.9`."""
    parts = [subject + (f" on {' '.join(asked.targets)}" if asked.targets else "")]
    parts += [f"PyTorch {asked.torch}"] if asked.torch else []
    parts += [f"ROCm {asked.rocm}"] if asked.rocm else []
    parts += [asked.platform.capitalize()] if asked.platform else []
    return ", ".join(parts)
