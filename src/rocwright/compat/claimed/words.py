"""The words that questions about compatibility may be made of, and what each means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from rocwright.compat.claimed.facts import Facts
from rocwright.model.gpus import Chip
from rocwright.model.project import PLATFORMS

Kind = Literal["topic", "feature", "library", "data type", "project", "module", "function", "issue"]
_TOKEN = re.compile(r"[^\s,;?!()\"']+")


class Subject(msgspec.Struct, frozen=True):
    """What a question is about, by its name in the tables."""

    kind: Kind
    name: str


@dataclass(frozen=True)
class Vocabulary:
    """Phrases (tuples of words in lower case) by what they mean: subjects, GPUs, platforms, or nothing."""

    subjects: Mapping[tuple[str, ...], Subject]
    gpus: Mapping[tuple[str, ...], tuple[str, ...]]
    fillers: frozenset[str]
    longest: int

    @property
    def platforms(self) -> tuple[str, ...]:
        """Words for platforms."""
        return PLATFORMS


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text, in lower case, without punctuation around them."""
    words = (match.group().lower().rstrip(".:") for match in _TOKEN.finditer(text))
    return tuple(word for word in words if word)


def vocabulary(facts: Facts) -> Vocabulary:
    """All words, from the tables."""
    subjects = {split_words(text): subject for text, subject in _subjects(facts)}
    gpus = dict(_gpus(facts))
    longest = max(map(len, (*subjects, *gpus)))
    return Vocabulary(subjects, gpus, frozenset(facts.features.question.fillers), longest)


def _subjects(facts: Facts) -> Iterator[tuple[str, Subject]]:
    """Names of subjects; of one name the last counts, so what is special stands below what is general."""
    page = facts.page
    for library in facts.libraries.library:
        for name in library.functions:
            yield name, Subject("function", name)
    for name in page.modules.names:
        if name != "torch":
            yield name, Subject("module", name)
    for row in page.data_type:
        for name in (row.name, *row.aliases):
            yield name, Subject("data type", row.name)
            yield name.removeprefix("torch."), Subject("data type", row.name)
        for name in row.words:
            yield name, Subject("data type", row.name)
    for project in (*(one.name for one in page.domain), *(one.name for one in page.status if not one.topic)):
        if project != "torch":
            yield project, Subject("project", project)
    for library in facts.libraries.library:
        for name in (library.name, *library.words):
            yield name, Subject("library", library.name)
    for feature in facts.features.feature:
        for name in (*feature.words, feature.id):
            yield name, Subject("feature", feature.id)
    for topic in facts.features.topic:
        for name in topic.words:
            yield name, Subject("topic", topic.id)
    for issue in page.issue:
        for name in issue.names:
            for text in (name, name.rpartition(".")[2], f"{issue.module}.{name}"):
                yield text, Subject("issue", issue.id)


def _gpus(facts: Facts) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Targets, families (also without `-all`), names of GPUs, in full and shortened where that is clear."""
    named: dict[tuple[str, ...], set[str]] = {}
    for target, names in facts.gpus.items():
        for name in names:
            for phrase in _shortened(name.lower().split()):
                named.setdefault(phrase, set()).add(target)
    for chip in facts.chips:
        for phrase in _of_chip(chip):
            named.setdefault(phrase, set()).add(chip.target)
    for phrase, targets in named.items():
        if len(targets) == 1:
            yield phrase, tuple(targets)
    for family, members in facts.families.items():
        yield (family.lower(),), members
        if family.endswith("-all"):
            yield (family[: -len("-all")].lower(),), members
    for target in facts.targets:
        yield (target,), (target,)


def _of_chip(chip: Chip) -> Iterator[tuple[str, ...]]:
    """`strix halo`, `navi 31`, and what is sold with it: `radeon 780m graphics`, `radeon 780m`, `780m`."""
    yield tuple(chip.name.lower().split())
    for name in chip.names.values():
        words = name.lower().removeprefix("amd ").split()
        for end in {len(words), len(words) - (words[-1] in ("graphics", "series"))}:
            for phrase in (words[:end], words[1:end]):
                # A number alone is no name: it could be a version.
                if any(not word.isdigit() and re.search("[0-9]", word) for word in phrase):
                    yield tuple(phrase)


def _shortened(words: list[str]) -> Iterator[tuple[str, ...]]:
    """`radeon rx 7900 xtx`, `rx 7900 xtx`, `7900 xtx` and `7900xtx`: what still holds a number."""
    for begin in range(len(words)):
        rest = tuple(words[begin:])
        if begin == 0 or any(character.isdigit() for character in "".join(rest)):
            yield rest
            yield ("".join(rest),)


def known_words(facts: Facts) -> str:
    """What can be asked for, in a few lines."""
    features = [row.words[0] for row in facts.features.topic]
    features += [row.words[0] for row in facts.features.feature if row.words]
    lines = (
        ("GPUs", (*facts.targets[:4], "…", "families", "names such as Radeon RX 7900 XTX")),
        ("versions", ("torch 2.9", "rocm 7.1")),
        ("platforms", PLATFORMS),
        ("features", features),
        ("libraries", [row.name for row in facts.libraries.library]),
        ("projects", _projects(facts)),
        ("data types", [row.name.removeprefix("torch.") for row in facts.page.data_type]),
        ("known issues", [name.rpartition(".")[2] for row in facts.page.issue for name in row.names]),
    )
    return "ask with\n" + "\n".join(f"    {head}: {', '.join(names)}" for head, names in lines)


def _projects(facts: Facts) -> Iterable[str]:
    named = (
        *(row.name for row in facts.page.status if not row.topic),
        *(row.name for row in facts.page.domain),
    )
    return dict.fromkeys(named)
