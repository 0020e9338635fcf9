"""What releases of PyTorch and ROCm brought: features by GPU and version, and versions of ROCm's libraries.

The tables `compat_features` and `compat_libraries`; versions, specifiers and targets that are none raise
`ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rocwright.model.gpu import InvalidTarget, parse_target
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
    """Words of questions: those that say nothing, those that ask for a list, and what a list can be of.

    Those of `newest` ask for the newest of a list alone.
    """

    fillers: tuple[str, ...]
    which: tuple[str, ...]
    newest: tuple[str, ...]
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


class Library(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ROCm library: what it does, what of PyTorch uses it; questions may give `functions` and `words`."""

    name: str
    address: str
    purpose: str
    users: str
    functions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


class Elsewhere(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What AMD supports of a release on another platform than Linux; `text` says what limits it.

    `without` are products that have one of the targets and are not listed there.
    """

    torch: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    level: Level | None = None
    text: str = ""

    def __post_init__(self) -> None:
        need_versions(self.torch)
        need_targets(self.targets)


class RocmRelease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release of ROCm as one source has it: the version set, and what AMD supports with it.

    `date` is the day it came out (2026-10-05). A library that is neither in `versions` nor in `absent` is
    unknown. `torch_for` has versions of `torch` that are for some GPUs alone; `elsewhere` is by platform,
    `windows` or `wsl`.
    """

    rocm: str
    source: str
    versions: dict[str, str]
    date: str = ""
    absent: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    torch_for: dict[str, tuple[str, ...]] = {}
    elsewhere: dict[Literal["windows", "wsl"], Elsewhere] = {}

    def __post_init__(self) -> None:
        need_versions((self.rocm, *self.torch))
        need_targets((*self.targets, *(target for row in self.torch_for.values() for target in row)))
        if stray := sorted(set(self.torch_for) - set(self.torch)):
            raise ValueError(f"`torch_for` has {stray[0]!r}, which `torch` does not")
        if both := set(self.absent) & set(self.versions):
            raise ValueError(f"{min(both)!r} is both in versions and in absent")


class Products(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPUs that AMD lists by their names, from this release of ROCm on.

    `targets` has the names by target, where no other table tells.
    """

    rocm: str
    sources: tuple[str, ...]
    names: tuple[str, ...]
    targets: dict[str, tuple[str, ...]] = {}

    def __post_init__(self) -> None:
        need_versions((self.rocm,))
        need_targets(self.targets)


class Distributions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Distributions of Linux with their versions, from this release of ROCm on, and known `through` another.

    Those of `whole` are for all GPUs, those of `limited` for some of them.
    """

    rocm: str
    source: str
    whole: dict[str, tuple[str, ...]]
    limited: dict[str, tuple[str, ...]]
    through: str = ""

    def __post_init__(self) -> None:
        need_versions(filter(None, (self.rocm, self.through)))


class LibraryTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `compat_libraries`; `latest` is the release that a version set called latest means.

    What is said of releases holds on `platforms`. A later release of the same number takes the place of an
    earlier one.
    """

    latest: str
    platforms: tuple[str, ...]
    library: tuple[Library, ...]
    release: tuple[RocmRelease, ...]
    products: tuple[Products, ...] = ()
    distributions: tuple[Distributions, ...] = ()

    def __post_init__(self) -> None:
        names = {row.name for row in self.library}
        for row in self.release:
            if stray := sorted({*row.versions, *row.absent} - names):
                raise ValueError(f"release {row.rocm} has a version of {stray[0]!r}, which is not a library")
        if self.latest not in {row.rocm for row in self.release}:
            raise ValueError(f"latest is {self.latest!r}, which is not a release")


def need_versions(texts: Iterable[str]) -> None:
    """Each is a version."""
    for text in texts:
        try:
            Version(text)
        except InvalidVersion as error:
            raise ValueError(f"{text!r} is not a version") from error


def need_specifiers(texts: Iterable[str]) -> None:
    """Each is a version specifier, or empty."""
    for text in texts:
        try:
            SpecifierSet(text)
        except InvalidSpecifier as error:
            raise ValueError(f"{text!r} is not a version specifier such as >=2.9") from error


def need_targets(texts: Iterable[str]) -> None:
    """Each is a GPU target."""
    for text in texts:
        try:
            parse_target(text)
        except InvalidTarget as error:
            raise ValueError(error.what) from error
