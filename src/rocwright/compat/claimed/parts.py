"""What sources say of the subjects of a question: features, libraries, data types, projects, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from packaging.version import Version

from rocwright.compat.claimed.facts import Facts, same_line, within
from rocwright.compat.claimed.gpus import torch_on
from rocwright.compat.claimed.judge import (
    NAMES,
    WEAK,
    AnswerPart,
    Reason,
    Verdict,
    judge,
    mixed,
    place,
    sources,
    unknown,
)
from rocwright.compat.claimed.markup import plain
from rocwright.compat.claimed.question import Question
from rocwright.compat.claimed.vocabulary import Kind, Subject
from rocwright.model.compat import Issue
from rocwright.model.compat_releases import Feature, RocmRelease
from rocwright.model.platforms import PLATFORMS


def subject(subject: Subject, question: Question, facts: Facts) -> AnswerPart:
    """What sources say of one subject."""
    return _ABOUT[subject.kind](subject.name, question, facts)


def by_gpu(subject: Subject, facts: Facts) -> bool:
    """Whether what is said of a subject says for which GPUs; else AMD's lists of GPUs decide as well."""
    if subject.kind == "topic":
        return any(row.targets for row in facts.statements if row.topic == subject.name)
    return subject.kind == "feature" and bool(_feature_row(subject.name, facts).targets)


def _feature_row(name: str, facts: Facts) -> Feature:
    return next(row for row in facts.features.feature if row.id == name)


def _feature_name(row: Feature) -> str:
    """What a feature is called: its first word that is its own."""
    return next((word for word in row.words if " " in word or len(row.words) == 1), row.id)


def _topic(name: str, question: Question, facts: Facts) -> AnswerPart:
    topic = next(row for row in facts.features.topic if row.id == name)
    said = [row for row in facts.statements if row.topic == name]
    return judge(topic.name, said, question, facts, per_target=topic.per_target)


def _feature(name: str, question: Question, facts: Facts) -> AnswerPart:
    row = _feature_row(name, facts)
    return judge(_feature_name(row), [facts.said_by(row)], question, facts)


def _outside(question: Question, facts: Facts) -> str:
    """What of a question ROCm's page about PyTorch does not cover: it is about some versions, and Linux."""
    lists = facts.features.list
    if question.torch and not any(same_line(question.torch, row.torch) for row in lists):
        return f"PyTorch {question.torch}"
    releases = [release for row in lists for release in row.rocm]
    if question.rocm and not any(_meet(question.rocm, release) for release in releases):
        return f"ROCm {question.rocm}"
    if question.platform not in ("", *facts.libraries.platforms):
        return NAMES[question.platform]
    return ""


def _meet(one: str, other: str) -> bool:
    """Whether two releases are one, or one is the line of the other: 7.1 and 7.1.1."""
    pairs = list(zip(one.split("."), other.split("."), strict=False))
    return all(left == right for left, right in pairs)


def _page_part(
    what: str, question: Question, facts: Facts, verdict: Verdict, text: str, *because: Reason
) -> AnswerPart:
    """A part that ROCm's page decides, where the question is about what it covers."""
    if outside := _outside(question, facts):
        return unknown(what, f"{what} for {outside}", *because)
    return AnswerPart(what, verdict, text, because)


def _library(name: str, question: Question, facts: Facts) -> AnswerPart:
    library = next(row for row in facts.libraries.library if row.name == name)
    purpose = Reason(plain(f"{library.purpose} {library.users}"), sources(facts, facts.page.page.source))
    if question.platform not in ("", *facts.libraries.platforms):
        return unknown(name, f"{name} on {NAMES[question.platform]}", purpose)
    rows = list(facts.line_of(question.rocm) if question.rocm else facts.releases)
    if question.torch and not question.rocm:
        rows = [row for row in rows if same_line(question.torch, row.torch)]
    told = [row for row in rows if name in row.versions or name in row.absent]
    if not told:
        asked = f"ROCm {question.rocm}" if question.rocm else f"PyTorch {question.torch}"
        newest = [_version(row, name, facts) for row in facts.releases if name in row.versions][:1]
        return unknown(name, f"{name} for {asked}", *newest, purpose)
    because = [_version(row, name, facts) for row in told[:4]]
    if question.rocm:
        verdict = mixed("yes" if name in row.versions else "no" for row in told)
    else:
        verdict = "yes" if name in told[0].versions else "no"
    text = "; ".join(_numbers(told if question.rocm else told[:1], name))
    if question.version:
        has = [row for row in told if row.versions.get(name) == question.version]
        verdict = "yes" if has else "no"
        text = "; ".join(_numbers(has or told[:1], name))
    return AnswerPart(name, verdict, text, (*because, purpose))


def _numbers(rows: list[RocmRelease], name: str) -> list[str]:
    """`hipBLASLt 0.12.1 in ROCm 6.4.3, 6.4.2, 6.4.1`."""
    by: dict[str, list[str]] = {}
    for row in rows:
        by.setdefault(row.versions.get(name, ""), []).append(row.rocm)
    return [
        f"{name} {version} is in ROCm {', '.join(where)}"
        if version
        else f"{name} is not in ROCm {', '.join(where)}"
        for version, where in by.items()
    ]


def _version(row: RocmRelease, name: str, facts: Facts) -> Reason:
    return Reason(
        f"ROCm {row.rocm}: {name} {row.versions.get(name, 'is not part of it')}", sources(facts, row.source)
    )


def _data_type(name: str, question: Question, facts: Facts) -> AnswerPart:
    """Whether tensors of a type exist, how far, and whether the GPU has it."""
    row = next(one for one in facts.page.data_type if one.name == name)
    names = " or ".join((row.name, *row.aliases))
    because = [Reason(f"{names}: {row.text}", sources(facts, facts.page.page.source))]
    verdict: Verdict = "yes"
    text = ""
    if not row.native:
        verdict = "partly"
        text = f"not natively supported in ROCm, and {row.eager} in eager mode"
        because.append(Reason(plain(facts.page.data_types.unsigned), sources(facts, facts.page.page.source)))
    part = _page_part(names, question, facts, verdict, text, *because)
    return _with_hardware(part, name, question, facts)


def _with_hardware(part: AnswerPart, name: str, question: Question, facts: Facts) -> AnswerPart:
    """A part about a data type, as far as the GPUs of the question have it.

    What the GPU has does not change with a PyTorch or ROCm that is newer than the page of types: there the
    GPU decides.
    """
    if not question.targets or (part.verdict == "unknown" and not _newer(question, facts)):
        return part
    by: dict[Verdict, list[str]] = {}
    limits, pages = [], []
    for target in question.targets:
        verdict, limit, page = _has(target, name, facts)
        by.setdefault(verdict, []).append(target)
        limits += [f"on {target} {limit}"] if limit else []
        pages.append(page)
    told = [f"{word}: {' '.join(by[verdict])}" for verdict, word in _LACKS.items() if verdict in by]
    because = Reason("what the hardware has, by architecture", sources(facts, *pages))
    hardware = mixed(by)
    verdict = hardware if part.verdict == "unknown" else min((part.verdict, hardware), key=WEAK.index)
    shown = "" if part.verdict == "unknown" else part.text
    text = "; ".join(filter(None, (shown, *limits, *told)))
    return AnswerPart(part.what, verdict, text, (*part.because, because))


_LACKS: Mapping[Verdict, str] = {"no": "does not have it", "unknown": "no source says anything about"}


def _newer(question: Question, facts: Facts) -> bool:
    """Whether a question is about Linux, and nothing older than the page of types."""
    lists = facts.features.list
    torch = max(Version(one) for row in lists for one in row.torch)
    rocm = max(Version(one) for row in lists for one in row.rocm)
    older = (question.torch and Version(question.torch) < torch) or (
        question.rocm and Version(question.rocm) < rocm
    )
    return not older and question.platform in ("", *facts.libraries.platforms)


def _has(target: str, name: str, facts: Facts) -> tuple[Verdict, str, str]:
    """Whether a GPU has a data type, how far where it is less, and where that was read."""
    notes, rows = facts.page.data_types, facts.page.hardware
    row = next((row for row in rows if target in row.targets), None)
    named = [(*row.types, *row.limited) for row in rows]
    if row is None or not any(name in (*types, *notes.everywhere) for types in named):
        return "unknown", "", notes.hardware_source
    page = row.source or notes.hardware_source
    if name in row.limited:
        return "partly", f"({row.name}) {plain(row.limited[name])}", page
    if name in row.types or (name in notes.everywhere and not row.source):
        return "yes", "", page
    # A page on some types says nothing of the others.
    return ("unknown", "", notes.hardware_source) if row.source else ("no", f"({row.name})", page)


def _other_type(name: str, question: Question, facts: Facts) -> AnswerPart:
    """A type that PyTorch's list does not have; the GPU may."""
    row = next(one for one in facts.page.other_type if one.name == name)
    page = Reason(f"the list of data types has no {name}", sources(facts, facts.page.page.source))
    if row.near:
        near = next(one for one in facts.page.data_type if one.name == row.near)
        text = f"the list of data types has no {name}; the nearest is {near.name} ({near.text})"
        return _page_part(name, question, facts, "partly", text, page)
    listed = AnswerPart(
        name,
        "unknown",
        f"no source says anything about {name} in PyTorch: its list of data types does not have it",
        (page,),
    )
    has = {target: _has(target, name, facts) for target in question.targets}
    if not has or "unknown" in {verdict for verdict, _, _ in has.values()}:
        return listed
    by = mixed(verdict for verdict, _, _ in has.values())
    names = {row.name: target for target in has for row in facts.page.hardware if target in row.targets}
    hardware = ", ".join(f"{name} ({target})" for name, target in names.items())
    because = Reason(
        "what the hardware has, by architecture", sources(facts, facts.page.data_types.hardware_source)
    )
    if by == "no":
        return AnswerPart(name, "no", f"{hardware} does not have {name}", (page, because))
    text = f"{hardware} has {name}; the list of PyTorch's types does not"
    return AnswerPart(name, "partly", text, (page, because))


def _project(name: str, question: Question, facts: Facts) -> AnswerPart:
    """Whether a project is built, and what is said of it as a domain library."""
    domain = next((row for row in facts.page.domain if row.name == name), None)
    status = next((row for row in facts.page.status if row.name == name), None)
    because = []
    if domain is not None:
        text = plain(f"{domain.text} {domain.note}".strip())
        because.append(Reason(text, sources(facts, facts.page.page.source, domain.address)))
    if status is not None:
        text = f"{name} is built: Linux {status.linux}, Windows {status.windows}"
        because.append(Reason(text, sources(facts, facts.page.page.status_source)))
    # Platforms and versions of PyTorch are those of the tables of what is built.
    if outside := _outside(Question(rocm=question.rocm), facts):
        return unknown(name, f"{name} for {outside}", *because)
    if question.platform not in ("", *facts.libraries.platforms, *(PLATFORMS if status is not None else ())):
        return unknown(name, f"{name} on {NAMES[question.platform]}", *because)
    if domain is not None and domain.last_torch:
        text = f"releases of {name} ended with PyTorch {domain.last_torch}"
        if not question.torch or not within(f"<={domain.last_torch}", Version(question.torch)):
            return AnswerPart(name, "no" if question.torch else "partly", text, tuple(because))
        return AnswerPart(name, "yes", text, tuple(because))
    if status is None:
        return _page_part(name, question, facts, "yes", "", *because)
    word = status.on(question.platform or "linux")
    if question.torch and torch_on(question.torch, question.platform or "linux", facts).verdict == "unknown":
        return unknown(name, f"{name} for PyTorch {question.torch}", *because)
    if word != "supported":
        return AnswerPart(
            name, "no", f"{name} is {word} on {NAMES[question.platform or 'linux']}", tuple(because)
        )
    return _project_version(AnswerPart(name, "yes", "", tuple(because)), question, facts)


def _project_version(part: AnswerPart, question: Question, facts: Facts) -> AnswerPart:
    """With the versions of a project that go with versions of PyTorch."""
    pairs = {
        row.name.split()[0]: (own, row.versions_source or facts.page.page.versions_source)
        for row in reversed(facts.page.torch)
        if (own := row.versions.get(part.what))
        and (not question.torch or same_line(question.torch, (row.name.split()[0],)))
    }
    if not pairs:
        return (
            unknown(part.what, f"{part.what} {question.version}", *part.because) if question.version else part
        )
    text = "; ".join(
        f"{part.what} {own} goes with PyTorch {torch}" for torch, (own, _) in reversed(pairs.items())
    )
    because = (*part.because, Reason(text, sources(facts, *(source for _, source in pairs.values()))))
    fits = not question.version or any(same_line(question.version, (own,)) for own, _ in pairs.values())
    # Without a version the newest is shown.
    shown = text if question.torch or question.version else text.partition("; ")[0]
    return AnswerPart(part.what, "yes" if fits else "no", shown, because)


def _module(name: str, question: Question, facts: Facts) -> AnswerPart:
    because = Reason(plain(facts.page.modules.text), sources(facts, facts.page.page.source))
    return _page_part(name, question, facts, "yes", "part of PyTorch's core", because)


def _function(name: str, question: Question, facts: Facts) -> AnswerPart:
    users = [row for row in facts.libraries.library if name in row.functions]
    because = [
        Reason(plain(f"{row.name}: {row.purpose} {row.users}"), sources(facts, facts.page.page.source))
        for row in users
    ]
    return _page_part(
        name, question, facts, "yes", f"it uses {', '.join(row.name for row in users)}", *because
    )


def concerns(issue: Issue, question: Question, facts: Facts) -> bool:
    """Whether a known issue can be one of what a question is about; what the question leaves open may be."""
    if question.rocm and not any(_meet(question.rocm, one) for one in issue.rocm):
        return False
    beside = [version for one in issue.rocm for row in facts.line_of(one) for version in row.torch]
    if question.torch and not same_line(question.torch, issue.torch or tuple(beside)):
        return False
    if question.targets and issue.targets and not set(question.targets) & set(issue.targets):
        return False
    return not question.platform or question.platform in issue.platforms


def issue_reason(issue: Issue, facts: Facts) -> Reason:
    """What is known of an issue, for which versions, and what ended it."""
    stated = (
        f"PyTorch {'/'.join(issue.torch)}" if issue.torch else "",
        f"ROCm {' and '.join(issue.rocm)}",
        " ".join(issue.targets),
        ", ".join(NAMES[name] for name in issue.platforms if name not in facts.libraries.platforms),
    )
    fixed = f" Fixed in ROCm {issue.fixed}." if issue.fixed else ""
    text = f"{plain(issue.text)} (Stated for {', '.join(filter(None, stated))}.){fixed}"
    return Reason(text, sources(facts, *(issue.sources or (facts.page.page.source,))))


def _issue(name: str, question: Question, facts: Facts) -> AnswerPart:
    row = next(one for one in facts.page.issue if one.id == name)
    because = issue_reason(row, facts)
    name = row.names[0]
    if concerns(row, question, facts):
        stated = f"PyTorch {'/'.join(row.torch)}" if row.module else f"ROCm {' and '.join(row.rocm)}"
        ended = f", fixed in ROCm {row.fixed}" if row.fixed else ""
        verdict: Verdict = "partly" if ended and not question.rocm else "no"
        return AnswerPart(name, verdict, f"not supported, a known issue of {stated}{ended}", (because,))
    elsewhere = msgspec.structs.replace(question, rocm="")
    if row.fixed and question.rocm and concerns(row, elsewhere, facts) and _since(row.fixed, question.rocm):
        return AnswerPart(name, "yes", f"fixed in ROCm {row.fixed}", (because,))
    return unknown(name, f"{place(name, question)}; it is a known issue elsewhere", because)


def _since(first: str, rocm: str) -> bool:
    """Whether a release, or a whole line, is not older than another: 10.1 than 10.1.0."""
    return Version(rocm) >= Version(".".join(first.split(".")[: len(rocm.split("."))]))


_ABOUT: Mapping[Kind, Callable[[str, Question, Facts], AnswerPart]] = {
    "topic": _topic,
    "feature": _feature,
    "library": _library,
    "data type": _data_type,
    "other type": _other_type,
    "project": _project,
    "module": _module,
    "function": _function,
    "issue": _issue,
}
