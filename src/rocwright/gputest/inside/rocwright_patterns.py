"""Node ids of pytest and patterns over them; the plugin and the tool judge with this one module.

A node id is `file::class::test[parameters]`; the file is relative to the directory of the tests, with
forward slashes. A star in a part of a pattern stands for any characters of that part; parts are matched
whole, case counts, and there are as many of them as in the node id. The parameters in brackets, whatever they
hold, belong to the last part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def parts(node_id: str) -> tuple[str, ...]:
    """`a.py::T::test[x::y]` as `("a.py", "T", "test[x::y]")`."""
    begin = node_id.find("::")
    bracket = node_id.find("[", begin + 2) if begin >= 0 else -1
    if bracket < 0:
        return tuple(node_id.split("::"))
    *before, last = node_id[:bracket].split("::")
    return (*before, last + node_id[bracket:])


def is_exact(pattern: str) -> bool:
    """Whether the text can be nothing but one node id."""
    return "*" not in pattern


def problem_of(pattern: str) -> str:
    """What is wrong with the text of a pattern, or an empty string."""
    if pattern != pattern.strip():
        return "has a space before or after it"
    found = parts(pattern)
    if len(found) < 2:
        return "names no test: write file::class::test, or file::test for a function"
    if not all(found):
        return "has an empty part: write file::class::test"
    if "\\" in found[0]:
        return "has a backslash in its file: write forward slashes"
    if found[0].startswith("/") or ".." in found[0].split("/") or found[0].startswith("./"):
        return "has an absolute path or one with ./ or ../: write it relative to the directory of the tests"
    if "\n" in pattern or "\r" in pattern:
        return "has a line break in it"
    return ""


def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression over the parts of a node id, joined by NUL, which no part holds."""
    pieces = (re.escape(part).replace(r"\*", "[^\0]*") for part in parts(pattern))
    return re.compile("\0".join(pieces), re.DOTALL)


def matches(pattern: str, node_id: str) -> bool:
    """Whether the whole node id fits the pattern."""
    return compiled(pattern).fullmatch("\0".join(parts(node_id))) is not None


class Matcher:
    """Many patterns at once; `found(node_id)` are the numbers of those that fit it, in order."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._exact: dict[str, list[int]] = {}
        # By file, where the pattern names one: most patterns then cost nothing for most tests.
        self._by_file: dict[str, list[tuple[re.Pattern[str], int]]] = {}
        self._any_file: list[tuple[re.Pattern[str], int]] = []
        for number, pattern in enumerate(patterns):
            if is_exact(pattern):
                self._exact.setdefault(pattern, []).append(number)
                continue
            file = parts(pattern)[0]
            kept = self._by_file.setdefault(file, []) if is_exact(file) else self._any_file
            kept.append((compiled(pattern), number))

    def found(self, node_id: str) -> list[int]:
        """Numbers of the patterns that fit, in the order in which they were given."""
        split = parts(node_id)
        text = "\0".join(split)
        starred = (*self._by_file.get(split[0], ()), *self._any_file)
        hits = [number for pattern, number in starred if pattern.fullmatch(text)]
        return sorted([*self._exact.get(node_id, ()), *hits])

    def over(self, node_ids: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Each pair of a pattern's number and a node id that it fits."""
        for node_id in node_ids:
            for number in self.found(node_id):
                yield number, node_id
