"""A question in words, or in options, as a value: about what, for which GPU, versions and platform.

The parser is small and says no to what it does not know: a word that it would have to guess at is an error.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

import msgspec

from rocwright.compat.claimed.facts import Facts
from rocwright.compat.claimed.vocabulary import Gpu, Subject, Vocabulary, letters, split_words, vocabulary
from rocwright.errors import InvalidInput
from rocwright.model.gpu import InvalidTarget, is_target, parse_target
from rocwright.model.version import InvalidVersion, parse_version

# `torch2.9`, `pytorch==2.9.1`, `rocm7.1`, `python3.12`, each also without its number.
_VERSIONED = re.compile(r"(?P<what>pytorch|torch|rocm|python|py|cp)(?:==?|[-_v])?(?P<version>v?[0-9]\S*)?")
_VERSION = re.compile(
    r"v?(?P<public>[0-9]{1,4}(?:\.[0-9]{1,8}){0,4}(?:(?:a|b|rc|\.dev)[0-9]{0,9})?)(?:\.x)?"
    r"(?:\+rocm(?P<rocm>[0-9][0-9.]{0,20})\S*|\+\S*)?"
)
# Between a project and its version.
_BETWEEN = ("version", "release", "v")
_TARGET_LIKE = re.compile(r"gfx\S+")
_ONE = ("torch", "rocm", "platform", "python", "version", "system", "wants")


class InvalidQuestion(InvalidInput):
    """A question with words that nobody understands, about nothing, or that contradicts itself."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is asked: subjects, GPUs, versions of PyTorch, ROCm and Python, platform; empty where not given.

    Of versions and platforms there may be several, with spaces between them: the question is then about each.
    `version` is that of a library, `system` a distribution of Linux or a version of Windows, and `wants` what
    a question for a list asks for (`rocm`, `torch`, `gpu`, …), of which `newest` wants one alone.
    """

    subjects: tuple[Subject, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    torch: str = ""
    rocm: str = ""
    platform: str = ""
    python: str = ""
    version: str = ""
    system: str = ""
    wants: str = ""
    newest: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of its GPUs, each once."""
        return tuple(dict.fromkeys(target for gpu in self.gpus for target in gpu.targets))


def parse_question(text: str, facts: Facts) -> Question:
    """What a sentence asks; raises `InvalidQuestion`, `InvalidTarget`."""
    return _read(text, vocabulary(facts), facts).question()


def _read(text: str, known: Vocabulary, facts: Facts) -> _PhraseReader:
    reader = _PhraseReader(split_words(text), known, facts).read_all()
    if not reader.strange:
        return reader
    # Mended where a word is near, and without it where none is.
    near = {word: known.near(word) for word in reader.strange}
    words = tuple(filter(None, (near.get(word, word) for word in reader.words)))
    tried = _PhraseReader(words, known, facts).read_all()
    about_something = tried.subjects or tried.gpus or any(tried.found.values())
    raise InvalidQuestion(
        f"not understood: {' '.join(dict.fromkeys(reader.strange))}",
        next_step=f'try: rocwright compat query "{" ".join(words)}"'
        if about_something and not tried.strange
        else "leave it out; `rocwright compat query` without a question lists what can be asked",
    )


class _PhraseReader:
    """Reads words from left to right; the longest phrase that fits counts."""

    def __init__(self, words: tuple[str, ...], known: Vocabulary, facts: Facts) -> None:
        self.words, self.known, self.facts = words, known, facts
        self.position = 0
        self.which = self.torch_meant = self.after_library = self.newest = False
        self.strange: list[str] = []
        self.subjects: list[Subject] = []
        self.gpus: list[Gpu] = []
        self.found: dict[str, list[str]] = {name: [] for name in _ONE}

    def read_all(self) -> _PhraseReader:
        """All phrases."""
        while self.position < len(self.words):
            self.read()
        return self

    def read(self) -> None:
        """The next phrase."""
        word = self.words[self.position]
        if self._versions() or self._phrase():
            return
        self.position += 1
        self.after_library = False
        if word in self.known.which:
            self.which = True
            self.newest = self.newest or word in self.known.newest
        elif _TARGET_LIKE.fullmatch(word):
            target = known_target(word, self.facts)
            self.gpus.append(Gpu(target, (target,)))
        elif word in ("torch", "pytorch"):
            self.torch_meant = True
        elif word not in self.known.fillers and letters(word) not in self.known.wants:
            self.strange.append(word)
            number = self.words[self.position : self.position + 1]
            # The version of something unknown is nobody else's: `driver 25.11.1`.
            if number and _VERSION.fullmatch(number[0]) and not self.known.near(word):
                self.strange += number
                self.position += 1

    def _phrase(self) -> bool:
        rest = self.words[self.position :]
        for length in range(min(self.known.longest, len(rest)), 0, -1):
            key = letters("".join(rest[:length]))
            # A word that says nothing begins no phrase by chance: `a pex`.
            if length > 1 and rest[0] in self.known.fillers and rest[0] not in self.known.starts:
                continue
            if self._means(key, length):
                self.position += length
                return True
        return False

    def _means(self, key: str, length: int) -> bool:
        known = self.known
        wanted = known.wants.get(key, "version")
        # A question for known issues needs no word before it.
        if (self.which and wanted != "version") or wanted == "issue":
            self.found["wants"].append(known.wants[key])
            self.which = False
        elif key in known.subjects:
            self.subjects += known.subjects[key]
            self.after_library = known.subjects[key][0].kind in ("library", "project")
            if self.which and known.subjects[key][0].kind in ("library", "project"):
                self.found["wants"].append("version")
            elif self.which and known.subjects[key][0].kind == "function":
                self.found["wants"].append("library")
            self.which = False
            return True
        elif key in known.gpus:
            self.gpus.append(known.gpus[key])
        elif key in known.platforms:
            name = known.platforms[key]
            self.found["platform"].append(name)
            if number := self._number_after(length):
                self.found["system"].append(f"{name.capitalize()} {number}")
        elif key in known.distributions:
            self.found["platform"].append("linux")
            number = self._number_after(length)
            self.found["system"].append(f"{known.distributions[key]} {number}".strip())
        else:
            return False
        self.after_library = False
        return True

    def _number_after(self, length: int) -> str:
        """The version of a platform: `windows 11`, `debian 12`."""
        number, pack = (*self.words[self.position + length :], "", "")[:2]
        # Below 8 with a point it is rather a version of PyTorch or ROCm.
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)*", number) or re.match(r"[0-7]\.", number):
            return ""
        self.position += 1
        if re.fullmatch("sp[0-9]", pack):
            self.position += 1
            return f"{number} {pack.upper()}"
        return number

    def _versions(self) -> bool:
        """A version with its project before it, or one that says by its size whose it is."""
        word = self.words[self.position]
        named = _VERSIONED.fullmatch(word)
        if named is None:
            match = _VERSION.fullmatch(word)
            if match is None or "." not in match["public"]:
                return False
            # PyTorch is at 2, Python at 3, ROCm beyond 4: none can be taken for another.
            major = int(match["public"].partition(".")[0])
            what = "python" if major == 3 else "torch" if major < 5 else "rocm"
            self._version("version" if self.after_library else what, word)
            self.after_library = False
            self.position += 1
            return True
        what = {"pytorch": "torch", "py": "python", "cp": "python"}.get(named["what"], named["what"])
        if named["version"]:
            text = named["version"]
            self._version(
                what, f"{text[0]}.{text[1:]}" if named["what"] in ("cp", "py") and "." not in text else text
            )
            self.position += 1
            return True
        following = self.position + 1
        while following < len(self.words) and self.words[following] in _BETWEEN:
            following += 1
        if following < len(self.words) and _VERSION.fullmatch(self.words[following]):
            self.position = following
            self._version(what, self.words[following])
            self.position += 1
            self.which = False
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

    def question(self) -> Question:
        """The question; refuses a product with a target that is not its own."""
        one = {name: self._one(name) for name in _ONE}
        named = self.subjects or self.gpus or one["torch"] or one["rocm"] or one["python"] or one["wants"]
        if not named and (self.torch_meant or one["platform"]):
            self.subjects.append(Subject("project", "torch"))
        newest = self.newest and one["wants"] in ("rocm", "torch", "python")
        subjects, gpus = tuple(dict.fromkeys(self.subjects)), tuple(dict.fromkeys(self.gpus))
        return checked(Question(subjects, gpus, **one, newest=newest))

    def _one(self, what: str) -> str:
        found = list(dict.fromkeys(self.found[what]))
        if len(found) > 1 and what in ("version", "system"):
            raise InvalidQuestion(
                f"asks about two at once: {' and '.join(found)}", next_step="ask about one of them at a time"
            )
        return " ".join(found[:1] if what == "wants" else found)


def checked(question: Question) -> Question:
    """The same; raises `InvalidQuestion` where a product stands beside a target that is not its own."""
    plain = {gpu.name for gpu in question.gpus if gpu.targets == (gpu.name,)}
    for gpu in question.gpus:
        if gpu.product and plain - set(gpu.targets):
            raise InvalidQuestion(
                f"{gpu.name} is {' '.join(gpu.targets)}, not {' '.join(sorted(plain - set(gpu.targets)))}",
                next_step="ask about one of them at a time",
            )
    return question


def known_target(text: str, facts: Facts) -> str:
    """The base of a target that a table names; raises `InvalidTarget` with near ones."""
    base = parse_target(text).base if is_target(text) else text
    if base in facts.targets:
        return base
    near = get_close_matches(base, facts.targets, n=3) or list(facts.targets[:3])
    raise InvalidTarget(f"no table lists the GPU {text!r}", next_step=f"perhaps {' or '.join(near)}")


def with_options(
    question: Question,
    facts: Facts,
    *,
    gpu: str = "",
    torch: str = "",
    rocm: str = "",
    python: str = "",
    platform: str = "",
    about: str = "",
) -> Question:
    """A question with what options say in addition; raises `InvalidQuestion` for what contradicts it."""
    known = vocabulary(facts)
    versions = (("torch", torch), ("rocm", rocm), ("python", python))
    numbers = " ".join(f"{name} {_number(text)}" for name, text in versions if text)
    given = _read(f"{numbers} {platform}", known, facts).question()
    gpus = [
        found for text in filter(None, map(str.strip, gpu.split(","))) for found in _gpus(text, known, facts)
    ]
    if gpu and not gpus:
        raise InvalidTarget(f"{gpu!r} names no GPU", next_step="write it like gfx90a, or RX 7900 XTX")
    subjects = _read(about, known, facts).subjects
    if about and not subjects:
        raise InvalidQuestion(
            f"nothing is called {about!r}", next_step="`rocwright compat query` alone lists what is"
        )
    one = {}
    for field in _ONE:
        said, option = getattr(question, field), getattr(given, field)
        if said and option and said != option:
            raise InvalidQuestion(
                f"the question says {said}, --{field} says {option}", next_step=f"leave out --{field}"
            )
        one[field] = said or option
    subjects, gpus = [*question.subjects, *subjects], [*question.gpus, *gpus]
    return checked(
        Question(tuple(dict.fromkeys(subjects)), tuple(dict.fromkeys(gpus)), **one, newest=question.newest)
    )


def _gpus(text: str, known: Vocabulary, facts: Facts) -> list[Gpu]:
    found = _read(text, known, facts).gpus
    if not found:
        raise InvalidTarget(f"{text!r} names no GPU", next_step="write it like gfx90a, or RX 7900 XTX")
    return found


def _number(text: str) -> str:
    try:
        return str(parse_version(text))
    except InvalidVersion as error:
        error.next_step = "write it like 2.9"
        raise
