"""What releases brought, and what is known of features by GPU and version: the table `compat_features`."""

from __future__ import annotations

from typing import Literal

import msgspec

from rocwright.model.compat_text import need_specifiers, need_targets, need_versions
from rocwright.model.platforms import Platform

Level = Literal["official", "experimental", "preview"]


class FeatureList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of features: the versions of PyTorch and ROCm that it is about."""

    id: str
    torch: tuple[str, ...]
    rocm: tuple[str, ...]
    source: str = ""

    def __post_init__(self) -> None:
        need_versions((*self.torch, *self.rocm))
        if not self.torch or not self.rocm:
            raise ValueError(f"list {self.id!r} names no version")


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of a list; `words` are what questions may call it. With `topic` it is also a statement."""

    id: str
    list: str
    text: str
    words: tuple[str, ...] = ()
    topic: str = ""
    targets: tuple[str, ...] = ()
    torch: str = ""
    rocm: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        need_specifiers((self.torch, self.rocm))
        need_targets(self.targets)


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What statements are about. `per_target`: a yes that names no GPU does not settle the question."""

    id: str
    name: str
    words: tuple[str, ...]
    per_target: bool = False


class Statement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Yes or no on a topic, for these targets, versions (specifiers) and platforms; empty means any.

    `needs` is what has to be set for it, `sources` are where it was read.
    """

    id: str
    topic: str
    answer: Literal["yes", "no"]
    text: str
    sources: tuple[str, ...]
    level: Level | None = None
    targets: tuple[str, ...] = ()
    torch: str = ""
    rocm: str = ""
    platforms: tuple[Platform, ...] = ()
    needs: str = ""

    def __post_init__(self) -> None:
        need_specifiers((self.torch, self.rocm))
        need_targets(self.targets)


class QuestionWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Words of questions: those that say nothing, those that ask for a list, and what a list can be of."""

    fillers: tuple[str, ...]
    which: tuple[str, ...]
    wants: dict[str, tuple[str, ...]]
    platforms: dict[str, tuple[str, ...]]
    distributions: dict[str, tuple[str, ...]]


class FeatureTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `compat_features`. A later statement of the same id takes the place of an earlier one."""

    list: tuple[FeatureList, ...]
    feature: tuple[Feature, ...]
    topic: tuple[Topic, ...]
    statement: tuple[Statement, ...]
    question: QuestionWords

    def __post_init__(self) -> None:
        lists, topics = {row.id for row in self.list}, {row.id for row in self.topic}
        for feature in self.feature:
            if feature.list not in lists:
                raise ValueError(f"feature {feature.id!r} is of list {feature.list!r}, which does not exist")
        named = [(row.id, row.topic) for row in self.feature if row.topic]
        named += [(row.id, row.topic) for row in self.statement]
        for id_, topic in named:
            if topic not in topics:
                raise ValueError(f"{id_!r} has the topic {topic!r}, which does not exist")
