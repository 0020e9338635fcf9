"""Answers to questions about compatibility: every part judged, the whole as weak as its weakest part.

Nothing that a question names is passed over: where no source says anything about it, that is a part, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from packaging.version import Version

from rocwright.compat.claimed.facts import Facts, same_line
from rocwright.compat.claimed.gpus import (
    distribution,
    on_the_list,
    python,
    torch_alone,
    torch_on,
    torch_with_rocm,
)
from rocwright.compat.claimed.judge import (
    NAMES,
    WEAK,
    Answer,
    AnswerPart,
    Reason,
    Verdict,
    mixed,
    place,
    sources,
    unknown,
)
from rocwright.compat.claimed.parts import by_gpu, concerns, issue_reason, subject
from rocwright.compat.claimed.question import InvalidQuestion, Question
from rocwright.compat.claimed.vocabulary import Gpu, Subject

# What one adds for a version that the tables do not have.
_ROW = {
    "rocm": "a [[compat_libraries.release]]",
    "torch": "a [[compat.torch]]",
    "python": "a [[compat.python]]",
}


def answer(question: Question, facts: Facts) -> Answer:
    """The answer; raises `InvalidQuestion` for a question about nothing."""
    found = _answer(question, facts)
    return msgspec.structs.replace(found, notes=(*found.notes, *_newer(question, facts)))


def _newer(question: Question, facts: Facts) -> Iterator[str]:
    """What a question about a version that came after the tables should know: which is the newest in them."""
    for field, name in (("rocm", "ROCm"), ("torch", "PyTorch"), ("python", "Python")):
        newest, date = facts.newest[field]
        for asked in getattr(question, field).split():
            line = Version(asked).release[: len(Version(newest).release)]
            told = field == "python" and any(asked in row.missing for row in facts.page.python)
            if line > Version(newest).release[: len(line)] and not told:
                when = f" ({date})" if date else ""
                yield (
                    f"{name} {asked} is newer than these tables: the newest in them is {newest}{when}; "
                    "ask about that one, look for newer facts (rocwright data refresh), or add "
                    f"{_ROW[field]} to rocwright.toml"
                )


def _answer(question: Question, facts: Facts) -> Answer:
    for field in ("torch", "rocm", "platform", "python"):
        if " " in (values := getattr(question, field)):
            return _each(question, field, values.split(), facts)
    if question.wants:
        return _list(question, facts)
    about = [subject(one, question, facts) for one in question.subjects]
    parts = sorted((*about, *_others(question, facts)), key=lambda part: WEAK.index(part.verdict))
    if not parts:
        if question.rocm:
            return _release(question, facts)
        raise InvalidQuestion(
            "the question names no feature, library, GPU or version",
            next_step="`rocwright compat query` without a question lists what can be asked",
        )
    first = parts[0]
    better = any(part.verdict != first.verdict for part in parts)
    asked = place(" and ".join(part.what for part in about), question)
    return Answer(
        question,
        first.verdict,
        ": ".join(filter(None, (asked, first.text or (first.what if better else "")))),
        tuple(parts),
        first.what if better else "",
        next((part.level for part in parts if part.level), None),
        next((part.needs for part in parts if part.needs), ""),
        notes=tuple(_notes(question, first.verdict, facts)),
    )


def _each(question: Question, field: str, values: list[str], facts: Facts) -> Answer:
    """The answer to a question about several versions or platforms: each for itself, side by side."""
    answers = [answer(msgspec.structs.replace(question, **{field: value}), facts) for value in values]
    parts = tuple(dict.fromkeys(part for one in answers for part in one.parts))
    text = "; ".join(f"{one.verdict}: {one.text}" for one in answers)
    return Answer(question, mixed(one.verdict for one in answers), text, parts)


def _others(question: Question, facts: Facts) -> Iterator[AnswerPart]:
    """The parts of a question beside its subjects: what it is about has to stand on them."""
    if question.gpus and not (question.subjects and all(by_gpu(one, facts) for one in question.subjects)):
        yield on_the_list(question, facts)
    if question.torch and question.rocm:
        yield torch_with_rocm(question, facts)
    if question.torch and question.platform:
        yield torch_on(question.torch, question.platform, facts)
    elif question.torch and not (question.subjects or question.gpus or question.rocm or question.python):
        yield torch_alone(question, facts)
    if question.python:
        yield python(question, facts)
    if question.torch and not any(same_line(question.torch, (str(one),)) for one in facts.torch_versions):
        yield unknown(f"PyTorch {question.torch}", f"PyTorch {question.torch}")
    elsewhere = question.rocm and not facts.line_of(question.rocm, question.platform)
    if elsewhere and question.platform and not (question.torch or question.gpus or question.subjects):
        yield unknown(f"ROCm {question.rocm}", f"ROCm {question.rocm} on {NAMES[question.platform]}")
    if question.rocm and not facts.line_of(question.rocm):
        known = Reason(f"ROCm releases in the tables: {' '.join(row.rocm for row in facts.releases)}")
        yield unknown(f"ROCm {question.rocm}", f"ROCm {question.rocm}", known)
    if question.system and question.platform == "linux":
        yield distribution(question, facts)


def _notes(question: Question, verdict: Verdict, facts: Facts) -> Iterator[str]:
    """What a question that leaves the platform open should know of the other one."""
    if question.system and question.platform != "linux":
        yield f"this is known for {NAMES[question.platform]}, not for {question.system} alone"
    if question.rocm and question.gpus:
        there = msgspec.structs.replace(question, platform=question.platform or "linux")
        for row in facts.page.issue:
            if row.targets and row.sources and concerns(row, there, facts):
                yield f"a known issue: {issue_reason(row, facts).text} See {row.sources[0]}"
    if not question.torch or question.platform or verdict not in ("yes", "partly"):
        return
    if (question.subjects or question.gpus) and torch_on(question.torch, "windows", facts).verdict == "no":
        yield f"this applies to Linux; PyTorch {question.torch} on Windows is unsupported"


# --- questions for a list: every candidate is judged like a question of its own


def _list(question: Question, facts: Facts) -> Answer:
    wanted = question.wants
    asked = msgspec.structs.replace(question, wants="", newest=False)
    if wanted == "issue":
        return _issues(question, facts)
    if wanted in ("library", "version", "data type", "feature"):
        return _named(wanted, question, asked, facts)
    answers = {value: answer(_asking(asked, wanted, value), facts) for value in _candidates(wanted, facts)}
    named = {"rocm": "ROCm", "torch": "PyTorch", "python": "Python", "gpu": "GPUs"}[wanted]
    about = place(" and ".join(one.name for one in asked.subjects), asked)
    what = f"{named} for {about}" if about else named
    kept = {value: one for value, one in answers.items() if one.verdict not in ("no", "unknown")}
    if not kept:
        # What is wrong without any candidate is the reason: versions that do not go together.
        alone = answer(asked, facts) if asked != Question(subjects=asked.subjects) else None
        shown = alone if alone and alone.verdict in ("no", "unknown") else next(iter(answers.values()))
        return Answer(
            question, shown.verdict, f"{what}: none of those in the tables", shown.parts, shown.weakest
        )
    limits = {
        value: "" if one.verdict != "partly" else f" ({one.parts[0].level or 'partly'})"
        for value, one in kept.items()
    }
    found = tuple(f"{value}{limit}" for value, limit in limits.items())
    if question.newest:
        newest = max(kept, key=Version)
        date = facts.release(newest).date if wanted == "rocm" else ""
        found = (f"{newest}{limits[newest]}{f' of {date}' if date else ''}",)
        kept = {newest: kept[newest]}
    return Answer(
        question, "list", f"{what}: {', '.join(found)}", next(iter(kept.values())).parts, found=found
    )


def _candidates(wanted: str, facts: Facts) -> Iterator[str]:
    """What a list could hold, newest first."""
    if wanted == "rocm":
        yield from (row.rocm for row in facts.releases)
    elif wanted == "torch":
        yield from (str(version) for version in reversed(facts.torch_versions))
    elif wanted == "gpu":
        yield from facts.targets
    else:
        yield from dict.fromkeys(version for row in facts.page.python for version in row.versions)


def _asking(question: Question, wanted: str, value: str) -> Question:
    if wanted == "gpu":
        return msgspec.structs.replace(question, gpus=(Gpu(value, (value,)),))
    return msgspec.structs.replace(question, **{wanted: value})


def _named(wanted: str, question: Question, asked: Question, facts: Facts) -> Answer:
    """Lists of names: versions of a library, libraries of a function or release, data types, features."""
    if wanted in ("version", "library") and asked.subjects:
        one = answer(asked, facts)
        if wanted == "version" and not any(part.text for part in one.parts):
            missing = unknown(one.text, f"the version of {one.text}")
            return Answer(question, "unknown", missing.text, (missing, *one.parts))
        return msgspec.structs.replace(
            one, question=question, verdict="list" if one.verdict == "yes" else one.verdict
        )
    kinds = {
        "library": [Subject("library", row.name) for row in facts.libraries.library],
        "data type": [Subject("data type", row.name) for row in facts.page.data_type],
        "feature": [Subject("feature", row.id) for row in facts.features.feature],
        "version": [],
    }
    parts = [subject(one, asked, facts) for one in kinds[wanted]]
    found = tuple(
        part.text or part.what if wanted == "library" else part.what
        for part in parts
        if part.verdict in ("yes", "partly")
    )
    if not found:
        raise InvalidQuestion(
            "the question does not say what it is about", next_step="name a library, a GPU or a version"
        )
    because = parts[0].because[:1]
    return Answer(
        question,
        "list",
        f"{place(wanted, asked)}: {', '.join(found)}",
        (AnswerPart(wanted, "list", "", because),),
        found=found,
    )


def _issues(question: Question, facts: Facts) -> Answer:
    """The known issues of what is asked about."""
    about = place("", msgspec.structs.replace(question, wants=""))
    what = f"known issues{f' of {about}' if about else ''}"
    rows = [row for row in facts.page.issue if concerns(row, question, facts)]
    if not rows:
        part = unknown("known issues", what)
        return Answer(question, "unknown", part.text, (part,))
    because = tuple(issue_reason(row, facts) for row in rows)
    return Answer(
        question,
        "list",
        f"{what}: {', '.join(row.names[0] for row in rows)}",
        (AnswerPart("known issues", "list", "", because),),
        found=tuple(reason.text for reason in because),
    )


def _release(question: Question, facts: Facts) -> Answer:
    """What a release of ROCm goes with, the newest of a line."""
    release = facts.line_of(question.rocm, question.platform)[0]
    because = Reason(f"ROCm {release.rocm}", sources(facts, release.source))
    found = [f"of {release.date}"] if release.date else []
    found += [f"PyTorch {', '.join(release.torch)}"] if release.torch else []
    found += [f"GPUs {' '.join(release.targets)}"] if release.targets else []
    found += [
        lists.text.rstrip(".")
        for name, lists in release.elsewhere.items()
        if name == question.platform and lists.text
    ]
    on = f" on {NAMES[question.platform]}" if question.platform else ""
    text = f"ROCm {release.rocm}{on}: {'; '.join(found)}"
    part = AnswerPart(f"ROCm {release.rocm}", "list", "", (because,))
    return Answer(question, "list", text, (part,), found=tuple(found))
