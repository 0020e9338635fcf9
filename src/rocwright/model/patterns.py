"""Patterns over paths, as every table writes them: `**` spans directories, `*` and `{a,b}` do not."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable


@functools.lru_cache(maxsize=1024)
def compile_pattern(pattern: str, *, named: bool = True) -> re.Pattern[str]:
    """The pattern as a regular expression for `fullmatch`; `**/` at the start also stands for no directory.

    With `named`, what `**` matched is the group `rest`, the others are the groups `g1`, `g2`, … in order.
    """
    parts: list[str] = []
    count = 0
    for piece in re.split(r"(^\*\*/|\*\*|\*|\{[^}]*\})", pattern):
        if piece == "**/":
            parts.append("(?:(?P<rest>.*)/)?" if named else "(?:.*/)?")
        elif piece == "**":
            parts.append("(?P<rest>.*)" if named else ".*")
        elif piece == "*" or piece.startswith("{"):
            words = ["*"] if piece == "*" else piece[1:-1].split(",")
            choice = "|".join(re.escape(word).replace(r"\*", "[^/]*") for word in words)
            count += 1
            parts.append(f"(?P<g{count}>{choice})" if named else f"(?:{choice})")
        else:
            parts.append(re.escape(piece))
    return re.compile("".join(parts), re.DOTALL)


@functools.lru_cache(maxsize=256)
def any_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for paths that any of the patterns fits; without patterns it fits none."""
    joined = "|".join(f"(?:{compile_pattern(text, named=False).pattern})" for text in patterns)
    return re.compile(joined or r"(?!)", re.DOTALL)


def fits(path: str, patterns: Iterable[str]) -> bool:
    """Whether any of the patterns fits the whole path."""
    return any_pattern(tuple(patterns)).fullmatch(path) is not None
