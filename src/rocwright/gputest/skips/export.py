"""Entries for others: as words for pytest's `-k`, as files of the reference's format, as a list for people.

`-k` looks for words anywhere in names of tests, classes and files. The reference has a file for all versions,
and one for each version of torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import date

import msgspec

from rocwright.gputest.inside.rocwright_patterns import Matcher, is_exact, parts
from rocwright.gputest.skips.collected import Collected
from rocwright.gputest.skips.hold import (
    FamilyMembers,
    Place,
    State,
    release_line,
    state_of,
    targets_of,
    version_fits,
)
from rocwright.gputest.skips.lint import tests_of
from rocwright.gputest.skips.reference import GENERIC, VARIABLE
from rocwright.model.suites import SkipEntry, SkipWhere

# What pytest's grammar of `-k` takes for one word.
_WORD = re.compile(r"[\w:+\-.\[\]\\/]+")
_TAKEN = frozenset(("and", "or", "not", "true", "false", "none"))
_HEAD = "# Made from skip entries, where reasons and days stand; a name means every test that holds it.\n"


class Expression(msgspec.Struct, frozen=True):
    """An expression for `-k`, empty for no entries; what it stands for, and whom else it hits.

    `also_hit` are tests that no entry matches. `left_out` are entries that cannot be told in words, each with
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

    With a list of tests `also_hit` says which tests the words would leave out besides.
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
            left_out[entry.id] = f"has a pattern that no word can express: {entry.tests[found.index(None)]}"
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
    """Without words that hold another word, which hits all of their tests already."""
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


class Listed(msgspec.Struct, frozen=True):
    """One entry, whether it holds, where in words, and the tests that it matches in a list."""

    entry: SkipEntry
    state: State
    where: str
    matched: tuple[str, ...] = ()


def list_entries(
    entries: Sequence[SkipEntry],
    families: FamilyMembers,
    today: date,
    place: Place,
    collected: Collected | None = None,
) -> tuple[Listed, ...]:
    """Every entry, in order."""
    hits = tests_of(entries, collected) if collected is not None else {}
    return tuple(
        Listed(
            entry,
            state_of(entry, place, families, today),
            in_words(entry.where),
            tuple(dict.fromkeys(test for tests in hits.get(entry.id, {}).values() for test in tests)),
        )
        for entry in entries
    )


def in_words(where: SkipWhere) -> str:
    """`gfx94* linux torch>=2.9`; empty for everywhere."""
    versions = (("torch", where.torch), ("rocm", where.rocm), ("python", where.python))
    return " ".join(
        [
            *where.targets,
            *where.platforms,
            *(f"{name} {text}" if text[0].isdigit() else f"{name}{text}" for name, text in versions if text),
        ]
    )


class Exported(msgspec.Struct, frozen=True):
    """The text of each file by name, and the entries that the format cannot say, with the reason."""

    files: dict[str, str]
    left_out: dict[str, str]


def exported(entries: Sequence[SkipEntry], families: FamilyMembers, torch: str | None = None) -> Exported:
    """Files of the reference's format; `torch` (`2.9`) also brings what holds for ranges of versions there.

    The format knows no versions of ROCm and Python, no targets on one platform, and leaves out what is flaky.
    """
    tables: dict[str, dict[str, dict[str, list[str]]]] = {}
    left_out: dict[str, str] = {}
    for entry in entries:
        file = _file(entry.where, torch)
        words = {test: word_of(test) for test in entry.tests}
        why = _unsayable(entry, words, file)
        if why:
            left_out[entry.id] = why
            continue
        for section in _sections(entry.where, families):
            for test, word in words.items():
                modules = tables.setdefault(file or GENERIC, {}).setdefault(section, {})
                names = modules.setdefault(_module(test), [])
                if word is not None and word not in names:
                    names.append(word)
    return Exported({name: _text(table) for name, table in sorted(tables.items())}, left_out)


def _file(where: SkipWhere, torch: str | None) -> str | None:
    """The file that an entry goes into, None where its versions have no file."""
    if not where.torch:
        return GENERIC
    line = release_line(where.torch)
    if torch is not None and version_fits(where.torch, torch):
        return f"pytorch_{'.'.join(torch.split('.')[:2])}.py"
    if torch is None and line is not None and line.count(".") == 1:
        return f"pytorch_{line}.py"
    return None


def _unsayable(entry: SkipEntry, words: dict[str, str | None], file: str | None) -> str:
    where = entry.where
    if entry.kind == "flaky":
        return "is flaky, and run"
    if where.rocm or where.python:
        return "applies only to some versions of ROCm or Python"
    if where.targets and where.platforms:
        return "applies only to some targets on one platform"
    if file is None:
        return f"applies to torch {where.torch}, which is not a single version: name one with --torch"
    unsaid = [test for test, word in words.items() if word is None or not is_exact(parts(test)[0])]
    return f"has a pattern that no name can express: {unsaid[0]}" if unsaid else ""


def _sections(where: SkipWhere, families: FamilyMembers) -> list[str]:
    if where.targets:
        # A family matches no target there: the section has to be a part of the target's name.
        short = [name[:-1] for name in where.targets if name.endswith("*")]
        others = [name for name in where.targets if not name.endswith("*")]
        return [*short, *sorted(targets_of(others, families))]
    return list(where.platforms) or ["common"]


def _module(test: str) -> str:
    folder, slash, name = parts(test)[0].removesuffix(".py").rpartition("/")
    return f"{folder}{slash}{name.removeprefix('test_')}"


def _text(table: dict[str, dict[str, list[str]]]) -> str:
    lines = [_HEAD + f"{VARIABLE} = {{"]
    for section, modules in sorted(table.items()):
        lines.append(f"    {json.dumps(section)}: {{")
        for module, names in sorted(modules.items()):
            lines.append(f"        {json.dumps(module)}: [")
            lines += [f"            {json.dumps(name)}," for name in sorted(names)]
            lines.append("        ],")
        lines.append("    },")
    return "\n".join([*lines, "}"]) + "\n"
