"""The words that questions about compatibility may be made of, and what each means."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import combinations
from typing import Literal

import msgspec

from rocwright.compat.claimed.facts import Facts

Kind = Literal[
    "topic", "feature", "library", "data type", "other type", "project", "module", "function", "issue"
]
_TOKEN = re.compile(r"[^\s,;?!()\"'/™®]+(?:/pytorch)?")
# What a name of a GPU may be written without.
_BRANDS = ("amd", "radeon", "instinct", "ryzen", "rx", "pro", "ai")
_LAST = ("graphics", "series")


class Subject(msgspec.Struct, frozen=True):
    """What a question is about, by its name in the tables."""

    kind: Kind
    name: str


class Gpu(msgspec.Struct, frozen=True):
    """A GPU as a question names it: a `product`, or a chip, family, architecture or target; its targets."""

    name: str
    targets: tuple[str, ...]
    product: bool = False


class Vocabulary(msgspec.Struct, frozen=True):
    """Phrases by what they mean. A phrase is known by its letters: `rx 7900-xtx` is `rx7900xtx`."""

    subjects: Mapping[str, tuple[Subject, ...]]
    gpus: Mapping[str, Gpu]
    platforms: Mapping[str, str]
    distributions: Mapping[str, str]
    wants: Mapping[str, str]
    fillers: frozenset[str]
    starts: frozenset[str]
    which: frozenset[str]
    newest: frozenset[str]
    single: tuple[str, ...]
    longest: int = 7

    def near(self, word: str) -> str:
        """The known word that a slip of the finger may have made this one of; empty where none is near."""
        return next(iter(get_close_matches(word, self.single, n=1, cutoff=0.8)), "") if len(word) > 3 else ""


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text, in lower case, without punctuation around them."""
    words = (match.group().lower().rstrip(".:") for match in _TOKEN.finditer(text))
    return tuple(word for word in words if word)


def letters(words: str) -> str:
    """A phrase as it is looked up: without spaces, hyphens and underscores."""
    return re.sub(r"[\s_-]", "", words.lower())


@lru_cache(maxsize=2)
def vocabulary(facts: Facts) -> Vocabulary:
    """All words, from the tables."""
    subjects: dict[str, tuple[Subject, ...]] = {}
    texts = []
    for text, subject in _subjects(facts):
        key = letters(text)
        held = subjects.get(key, ())
        # Of two kinds the later counts, so what is special stands below what is general.
        same = held if held and held[0].kind == subject.kind else ()
        subjects[key] = tuple(dict.fromkeys((*same, subject)))
        texts.append(text)
    asked = facts.features.question
    gpus = dict(_gpus(facts))
    platforms = {letters(word): name for name, words in asked.platforms.items() for word in words}
    single = {
        word for text in (*texts, *_all(asked.distributions)) for word in split_words(text) if len(word) > 3
    }
    single |= {*platforms, *gpus, "pytorch", "torch", "rocm", "python"}
    return Vocabulary(
        subjects,
        gpus,
        platforms,
        {letters(word): name for name, words in asked.distributions.items() for word in words},
        {letters(word): name for name, words in asked.wants.items() for word in words},
        frozenset(asked.fillers),
        frozenset(
            split_words(text)[0]
            for text in (*texts, *_all(asked.distributions), *_all(asked.platforms), *_all(asked.wants))
        ),
        frozenset(asked.which),
        frozenset(asked.newest),
        tuple(sorted(single)),
    )


def _all(words: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    return (word for row in words.values() for word in row)


def _subjects(facts: Facts) -> Iterator[tuple[str, Subject]]:
    """Names of subjects, from what is general to what is special."""
    page = facts.page
    functions = {name for library in facts.libraries.library for name in library.functions}
    for name in functions:
        last = name.rpartition(".")[2]
        own = [last] if len(last) > 3 and last not in facts.features.question.fillers else []
        for text in (name, name.removeprefix("torch."), *own):
            yield text, Subject("function", name)
    for name in (*page.modules.names, *page.modules.core):
        if name != "torch":
            yield name, Subject("module", name)
    for project in (*(one.name for one in page.domain), *(one.name for one in page.status if not one.topic)):
        if project != "torch":
            yield project, Subject("project", project)
    for row in page.data_type:
        for name in (row.name, *row.aliases):
            yield name, Subject("data type", row.name)
            yield name.removeprefix("torch."), Subject("data type", row.name)
        for name in row.words:
            yield name, Subject("data type", row.name)
    for other in page.other_type:
        for name in other.words:
            yield name, Subject("other type", other.name)
            yield f"torch.{name}", Subject("other type", other.name)
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
            also = (name.rpartition(".")[2], f"{issue.module}.{name}") if issue.module else ()
            for text in (name, *also):
                yield text, Subject("issue", issue.id)


def _gpus(facts: Facts) -> Iterator[tuple[str, Gpu]]:
    """Targets, families, architectures, chips, products: what is surer stands last."""
    products: dict[str, dict[str, Gpu]] = {}
    for name, target in _products(facts):
        for key in _ways(name):
            products.setdefault(key, {}).setdefault(target, Gpu(_sold_as(name), (target,), product=True))
    series: dict[str, set[str]] = {}
    for key, found in products.items():
        base = re.sub(r"[a-z]+$", "", key)
        if base != key and re.search(r"[0-9]{3}$", base) and (len(base) > 3 or not base.isdigit()):
            series.setdefault(base, set()).update(found)
    for key, targets in series.items():
        if len(targets) == 1:
            yield key, Gpu(re.sub(f"^({'|'.join(_BRANDS)})+", "", key).upper(), tuple(targets))
    for key, found in products.items():
        if len(found) == 1:
            yield key, next(iter(found.values()))
    for chip in facts.chips:
        yield letters(chip.name), Gpu(chip.name, (chip.target,))
    for hardware in facts.page.hardware:
        yield letters(hardware.name), Gpu(hardware.name, hardware.targets)
    for family, members in facts.families.items():
        for name in {family, family.removesuffix("-all")}:
            yield letters(name), Gpu(name, members)
    for target in facts.targets:
        yield letters(target), Gpu(target, (target,))


def _products(facts: Facts) -> Iterator[tuple[str, str]]:
    """What GPUs are sold as, with their targets."""
    for target, names in facts.gpus.items():
        yield from ((name, target) for name in names)
    for listing in facts.libraries.products:
        yield from ((name, target) for target, names in listing.targets.items() for name in names)
    for chip in facts.chips:
        for name in (*chip.processors, *chip.names.values()):
            for one in name.removeprefix("AMD ").split(" / "):
                yield one, chip.target


def _sold_as(name: str) -> str:
    """The name without what says nothing: `Radeon RX 580 Series` is the Radeon RX 580."""
    return " ".join(word for word in name.split() if word.lower() not in _LAST)


def _ways(name: str) -> Iterator[str]:
    """How a product may be written: `radeonrx7900xtx`, `rx7900xtx`, `radeon7900xtx`, `7900xtx`."""
    words = [word for word in name.lower().split() if word not in _LAST]
    count = next((place for place, word in enumerate(words) if word not in _BRANDS), len(words))
    rest = "".join(words[count:])
    for size in range(count + 1):
        for kept in combinations(words[:count], size):
            # A number alone could be anything; one of four digits is one of AMD's.
            if rest and (kept or (re.search("[0-9]", rest) and not (rest.isdigit() and len(rest) < 4))):
                for text in {rest, rest.replace("+", "")}:
                    yield letters("".join(kept) + text)


def known_words(facts: Facts) -> Mapping[str, tuple[str, ...]]:
    """What questions can be about, by kind."""
    topics = [row.words[0] for row in facts.features.topic if row.words]
    features = [row.words[0] for row in facts.features.feature if row.words]
    projects = [row.name for row in facts.page.status if not row.topic]
    projects += [row.name for row in facts.page.domain]
    products = facts.libraries.products[-1].names[:2] if facts.libraries.products else ()
    chips = [chip.name for chip in facts.chips[-3:]]
    return {
        "GPUs": (*facts.releases[0].targets[:3], *list(facts.families)[:2], *products, *chips, "…"),
        "versions": tuple(f"{name} {facts.newest[name][0]}" for name in ("torch", "rocm", "python")),
        "platforms": tuple(facts.features.question.platforms),
        "features": tuple(dict.fromkeys((*topics, *features))),
        "libraries": tuple(row.name for row in facts.libraries.library),
        "projects": tuple(dict.fromkeys(projects)),
        "data types": tuple(row.name.removeprefix("torch.") for row in facts.page.data_type),
        "known issues": tuple(name.rpartition(".")[2] for row in facts.page.issue for name in row.names),
        "lists": (
            "which ROCm for …",
            "which PyTorch with …",
            "which GPUs …",
            "which version of LIBRARY in …",
        ),
    }
