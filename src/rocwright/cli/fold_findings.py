"""Findings that say nearly the same, told as one: what they share once, and below it what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile

from rocwright.model.findings import Finding

# So many differences are listed; --json has all of them.
_LISTED = 20
# Short differences stand on one line up to this width.
_WIDTH = 90


@dataclass(frozen=True)
class Told:
    """Findings of one rule with one next step: a line for each cause, or one for all with `items` below."""

    causes: tuple[str, ...]
    items: tuple[str, ...] = ()


def runs(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Neighbours of one rule and severity that ask for the same next step."""
    for _, run in groupby(findings, lambda one: (one.severity, one.rule, one.next_step)):
        yield list(run)


def told(run: Sequence[Finding]) -> Told:
    """How to tell such neighbours: folded when most words of their causes are the same."""
    folded = _folded([finding.cause for finding in run])
    if folded is None:
        return Told(tuple(f"{finding.about}{finding.cause}" for finding in run))
    shared, different = folded
    items: list[str] = []
    pairs = zip((finding.about for finding in run), different, strict=True)
    for about, same in groupby(pairs, lambda pair: pair[0]):
        texts = [text for _, text in same]
        line = ", ".join(texts)
        items += [f"{about}{line}"] if len(line) <= _WIDTH else [f"{about}{text}" for text in texts]
    if len(items) > _LISTED:
        items = [*items[:_LISTED], f"and {len(items) - _LISTED} more; --json lists all"]
    return Told((f"{len(run)} times: {shared}",), tuple(items))


def _folded(causes: Sequence[str]) -> tuple[str, list[str]] | None:
    """The shared text, with … for what differs, and the differences; None when too little is shared."""
    split = [cause.split(" ") for cause in causes]
    shortest = min(map(len, split))
    before = _common(split, shortest)
    after = _common([words[::-1] for words in split], shortest - before)
    if len(causes) < 2 or before + after >= shortest or 2 * (before + after) < shortest:
        return None
    middles = [" ".join(words[before : len(words) - after]) for words in split]
    head, tail = split[0][:before], split[0][len(split[0]) - after :] if after else []
    mark = next((end for end in ",;:" if all(middle.endswith(end) for middle in middles)), "")
    return " ".join([*head, f"…{mark}", *tail]), [middle.removesuffix(mark) for middle in middles]


def _common(split: Sequence[Sequence[str]], most: int) -> int:
    """How many words all begin with, at most so many."""
    columns = list(zip(*split, strict=False))[:most]
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
