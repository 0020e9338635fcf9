"""What sources say of the subjects of a question: features, libraries, data types, projects, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
        return unknown(name, f"{name} for {asked}", purpose)
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
    """A part about a data type, as far as the GPUs of the question have it."""
    if not question.targets or part.verdict == "unknown":
        return part
    by: dict[Verdict, list[str]] = {}
    limits = []
    for target in question.targets:
        verdict, limit = _has(target, name, facts)
        by.setdefault(verdict, []).append(target)
        limits += [f"on {target} {limit}"] if limit else []
    words = {
        "yes": "has it",
        "partly": "has it",
        "no": "does not have it",
        "unknown": "no source says anything about",
    }
    told = [
        f"{words[verdict]}: {' '.join(targets)}"
        for verdict, targets in by.items()
        if verdict in ("no", "unknown")
    ]
    page = Reason(
        "what the hardware has, by architecture", sources(facts, facts.page.data_types.hardware_source)
    )
    verdict = min((part.verdict, mixed(by)), key=WEAK.index)
    text = "; ".join(filter(None, (part.text, *limits, *told)))
    return AnswerPart(part.what, verdict, text, (*part.because, page))


def _has(target: str, name: str, facts: Facts) -> tuple[Verdict, str]:
    """Whether a GPU has a data type, and how far where it is less."""
    rows = facts.page.hardware
    hardware = next((row for row in rows if target in row.targets), None)
    if hardware is None or not any(
        name in (*row.types, *row.limited, *facts.page.data_types.everywhere) for row in rows
    ):
        return "unknown", ""
    if name in hardware.limited:
        return "partly", f"({hardware.name}) {hardware.limited[name]}"
    return ("yes" if name in (*hardware.types, *facts.page.data_types.everywhere) else "no"), ""


def _other_type(name: str, question: Question, facts: Facts) -> AnswerPart:
    """A type that PyTorch's list does not have."""
    row = next(one for one in facts.page.other_type if one.name == name)
    page = Reason(f"the list of data types has no {name}", sources(facts, facts.page.page.source))
    if row.near:
        near = next(one for one in facts.page.data_type if one.name == row.near)
        text = f"the list of data types has no {name}; the nearest is {near.name} ({near.text})"
        return _page_part(name, question, facts, "partly", text, page)
    return AnswerPart(
        name,
        "unknown",
        f"no source says anything about {name} in PyTorch: its list of data types does not have it",
        (page,),
    )


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
    pairs = {row.name.split()[0]: row.versions.get(part.what, "") for row in facts.page.torch if row.versions}
    pairs = {
        torch: own
        for torch, own in pairs.items()
        if own and (not question.torch or same_line(question.torch, (torch,)))
    }
    if not pairs:
        return (
            unknown(part.what, f"{part.what} {question.version}", *part.because) if question.version else part
        )
    text = "; ".join(f"{part.what} {own} goes with PyTorch {torch}" for torch, own in pairs.items())
    because = (*part.because, Reason(text, sources(facts, facts.page.page.versions_source)))
    fits = not question.version or any(same_line(question.version, (own,)) for own in pairs.values())
    shown = text if question.torch or question.version or question.wants else ""
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


def _issue(name: str, question: Question, facts: Facts) -> AnswerPart:
    row = next(one for one in facts.page.issue if one.id == name)
    text = f"{plain(row.text)} (Stated for PyTorch {'/'.join(row.torch)}, ROCm {' and '.join(row.rocm)}.)"
    because = Reason(text, sources(facts, facts.page.page.source))
    name = row.names[0]
    others = question.torch and not same_line(question.torch, row.torch)
    others = others or (question.rocm and not any(_meet(question.rocm, one) for one in row.rocm))
    if others or question.platform not in ("", *facts.libraries.platforms):
        return unknown(name, f"{place(name, question)}; it is a known issue elsewhere", because)
    return AnswerPart(
        name, "no", f"not supported, a known issue of PyTorch {'/'.join(row.torch)}", (because,)
    )


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
