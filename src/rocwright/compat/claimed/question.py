"""A question in words, or in options, as a value: about what, for which GPU, versions and platform.

The parser is small and says no to what it does not know: a word that it would have to guess at is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

import msgspec

from rocwright.compat.claimed.facts import Facts
from rocwright.compat.claimed.words import Subject, Vocabulary, known_words, split_words, vocabulary
from rocwright.errors import InvalidInput
from rocwright.model.gpu import InvalidTarget, is_target, parse_target

# `torch2.9`, `pytorch==2.9.1`, `torch-2.9`, `rocm7.1`, each also without its number.
_VERSIONED = re.compile(r"(?P<what>(?:py)?torch|rocm)(?:[=>~]*=|[-_v])?(?P<version>v?[0-9]\S*)?")
_VERSION = re.compile(
    r"v?(?P<public>[0-9]{1,4}(?:\.[0-9]{1,8}){0,4}(?:(?:a|b|rc|\.dev)[0-9]{0,9})?)"
    r"(?:\+rocm(?P<rocm>[0-9][0-9.]{0,20})\S*|\+\S*)?"
)
# Between a project and its version.
_BETWEEN = ("version", "release")
_TARGET_LIKE = re.compile(r"gfx\S+")


class InvalidQuestion(InvalidInput):
    """A question with words that nobody understands, or about nothing."""


class Asked(msgspec.Struct, frozen=True):
    """A question: subjects, GPU targets, versions of PyTorch and ROCm, platform; empty where not given."""

    subjects: tuple[Subject, ...] = ()
    targets: tuple[str, ...] = ()
    torch: str = ""
    rocm: str = ""
    platform: str = ""


def parse_question(text: str, facts: Facts) -> Asked:
    """What a sentence asks; raises `InvalidQuestion`, `InvalidTarget`, `UnknownRelease`."""
    reader = _Reader(split_words(text), vocabulary(facts), facts)
    while reader.position < len(reader.words):
        reader.read()
    if reader.strange:
        raise InvalidQuestion(f"not understood: {' '.join(reader.strange)}", next_step=known_words(facts))
    return reader.asked()


class _Reader:
    """Reads words from left to right; the longest phrase that fits counts."""

    def __init__(self, words: tuple[str, ...], known: Vocabulary, facts: Facts) -> None:
        self.words, self.known, self.facts = words, known, facts
        self.position = 0
        self.strange: list[str] = []
        self.subjects: list[Subject] = []
        self.targets: list[str] = []
        self.found: dict[str, list[str]] = {"torch": [], "rocm": [], "platform": []}

    def read(self) -> None:
        """The next phrase."""
        if self._versions() or self._phrase():
            return
        word = self.words[self.position]
        if _TARGET_LIKE.fullmatch(word):
            self.targets.append(known_target(word, self.facts))
        elif word not in self.known.fillers:
            self.strange.append(word)
        self.position += 1

    def _phrase(self) -> bool:
        rest = self.words[self.position :]
        for length in range(min(self.known.longest, len(rest)), 0, -1):
            phrase = rest[:length]
            if phrase in self.known.subjects:
                self.subjects.append(self.known.subjects[phrase])
            elif phrase in self.known.gpus:
                self.targets += self.known.gpus[phrase]
            elif length == 1 and phrase[0] in self.known.platforms:
                self.found["platform"].append(phrase[0])
            else:
                continue
            self.position += length
            return True
        return False

    def _versions(self) -> bool:
        """A version with its project before it, or one that says by its size whose it is."""
        word = self.words[self.position]
        named = _VERSIONED.fullmatch(word)
        if named is None:
            match = _VERSION.fullmatch(word)
            if match is None or "." not in match["public"]:
                return False
            # PyTorch is at 2, ROCm beyond 4: neither can be taken for the other.
            what = "torch" if int(match["public"].partition(".")[0]) < 5 else "rocm"
            self._version(what, word)
            self.position += 1
            return True
        what = "rocm" if named["what"] == "rocm" else "torch"
        if named["version"]:
            self._version(what, named["version"])
            self.position += 1
            return True
        following = self.position + 1
        while following < len(self.words) and self.words[following] in _BETWEEN:
            following += 1
        if following < len(self.words) and _VERSION.fullmatch(self.words[following]):
            self.position = following
            self._version(what, self.words[following])
            self.position += 1
            return True
        return False

    def _version(self, what: str, text: str) -> None:
        match = _VERSION.fullmatch(text)
        if match is None:
            self.strange.append(text)
            return
        public = match["public"]
        following = self.words[self.position + 1 : self.position + 2]
        if what == "torch" and following == ("alpha",):
            public += "a0"
            self.position += 1
        self.found[what].append(public)
        if match["rocm"]:
            self.found["rocm"].append(match["rocm"])

    def asked(self) -> Asked:
        """The question; refuses two versions or platforms, and versions that no table knows."""
        torch, rocm = self._one("torch", "versions of PyTorch"), self._one("rocm", "releases of ROCm")
        return asked_of(
            self.facts, self.subjects, self.targets, torch, rocm, self._one("platform", "platforms")
        )

    def _one(self, what: str, words: str) -> str:
        found = list(dict.fromkeys(self.found[what]))
        if len(found) > 1:
            raise InvalidQuestion(
                f"asks about two {words}: {' and '.join(found)}", next_step="ask about one of them at a time"
            )
        return found[0] if found else ""


def asked_of(
    facts: Facts, subjects: Iterable[Subject], targets: Iterable[str], torch: str, rocm: str, platform: str
) -> Asked:
    """A question whose versions are known; raises `UnknownRelease`."""
    if torch:
        torch = str(facts.torch_version(torch))
    if rocm:
        rocm = facts.release(rocm).rocm
    subjects, targets = tuple(dict.fromkeys(subjects)), tuple(dict.fromkeys(targets))
    return Asked(subjects, targets, torch, rocm, platform)


def known_target(text: str, facts: Facts) -> str:
    """The base of a target that a table names; raises `InvalidTarget` with near ones."""
    base = parse_target(text).base if is_target(text) else text
    if base in facts.targets:
        return base
    near = get_close_matches(base, facts.targets, n=3) or list(facts.targets[:3])
    raise InvalidTarget(f"no table knows the GPU {text!r}", next_step=f"perhaps {' or '.join(near)}")


def with_options(
    asked: Asked, facts: Facts, *, target: str, torch: str, rocm: str, platform: str, feature: str
) -> Asked:
    """A question with what options say in addition; raises `InvalidQuestion` for what contradicts it."""
    known = vocabulary(facts)
    targets, subjects = list(asked.targets), list(asked.subjects)
    for text in filter(None, target.replace(",", " ").split()):
        targets += known.gpus.get((text.lower(),)) or (known_target(text.lower(), facts),)
    if target and not targets:
        raise InvalidTarget(f"{target!r} names no GPU", next_step="write it like gfx90a")
    if feature:
        subject = known.subjects.get(split_words(feature))
        if subject is None:
            raise InvalidQuestion(f"no feature is called {feature!r}", next_step=known_words(facts))
        subjects.append(subject)
    found = asked_of(facts, subjects, targets, torch, rocm, platform)
    for field in ("torch", "rocm", "platform"):
        said, given = getattr(asked, field), getattr(found, field)
        if said and given and said != given:
            raise InvalidQuestion(
                f"the question says {said}, --{field} says {given}", next_step=f"leave out --{field}"
            )
    return Asked(
        found.subjects,
        found.targets,
        found.torch or asked.torch,
        found.rocm or asked.rocm,
        found.platform or asked.platform,
    )
