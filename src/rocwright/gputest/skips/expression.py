"""Entries as words for pytest's `-k`, which looks for them anywhere in names of tests, classes and files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from rocwright.gputest.inside.rocwright_patterns import Matcher, parts
from rocwright.gputest.skips.collected import Collected
from rocwright.model.skips import SkipEntry

# What pytest's grammar of `-k` takes for one word.
_WORD = re.compile(r"[\w:+\-.\[\]\\/]+")
_TAKEN = frozenset(("and", "or", "not", "true", "false", "none"))


class Expression(msgspec.Struct, frozen=True):
    """An expression for `-k`, empty for no entries; what it stands for, and whom else it hits.

    `also_hit` are tests that no entry matches. `left_out` are entries that cannot be said in words, each with
    the reason.
    """

    expression: str
    words: tuple[str, ...]
    also_hit: tuple[str, ...] = ()
    left_out: dict[str, str] = {}


def expression(
    entries: Sequence[SkipEntry], *, include: bool = False, collected: Collected | None = None
) -> Expression:
    """`not a and not b`, or with `include` `a or b`. Flaky tests are run, so they are not part of it.

    With a list of tests `also_hit` says which ones the words would leave out besides.
    """
    words: dict[str, None] = {}
    left_out: dict[str, str] = {}
    said: list[SkipEntry] = []
    for entry in entries:
        if entry.kind == "flaky":
            left_out[entry.id] = "is flaky, and run"
            continue
        found = [word_of(test) for test in entry.tests]
        if None in found:
            left_out[entry.id] = f"has a pattern that no word stands for: {entry.tests[found.index(None)]}"
            continue
        words.update(dict.fromkeys(word for word in found if word is not None))
        said.append(entry)
    chosen = _shortest(sorted(words))
    joined = " or ".join(chosen) if include else " and ".join(f"not {word}" for word in chosen)
    return Expression(joined, chosen, _also_hit(chosen, said, collected), left_out)


def word_of(test: str) -> str | None:
    """The word for a node id or a pattern: the longest text of its last part, else of its class; or None."""
    _, *classes, name = parts(test)
    # Parameters may hold what no word may; without them the word means all of the test's parameters.
    for text in (name, name.partition("[")[0], *reversed(classes)):
        pieces = [piece for piece in text.split("*") if piece]
        word = max(pieces, key=len, default="")
        if _WORD.fullmatch(word) and word.lower() not in _TAKEN and re.search(r"\w", word):
            return word
    return None


def _shortest(words: Sequence[str]) -> tuple[str, ...]:
    """Without those that hold another one, which hits all of their tests already."""
    lowered = [word.lower() for word in words]
    return tuple(
        word
        for number, word in enumerate(words)
        if not any(
            other in lowered[number] and (other != lowered[number] or place < number)
            for place, other in enumerate(lowered)
            if place != number
        )
    )


def _also_hit(
    words: Iterable[str], entries: Sequence[SkipEntry], collected: Collected | None
) -> tuple[str, ...]:
    if collected is None:
        return ()
    matcher = Matcher([test for entry in entries for test in entry.tests])
    lowered = [word.lower() for word in words]
    return tuple(one for one in collected.ids if hits(lowered, one) and not matcher.found(one))


def hits(lowered: Iterable[str], node_id: str) -> bool:
    """Whether `-k` with one of these words means the test: files, folders, classes, names, whatever case."""
    file, *rest = parts(node_id)
    names = "\n".join([*file.split("/"), *rest]).lower()
    return any(word in names for word in lowered)
