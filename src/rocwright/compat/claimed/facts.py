"""The compatibility facts of all tables, and where their sources contradict each other about a feature."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from itertools import combinations
from typing import TypeVar

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.data.sources import SourceTable, load_sources
from rocwright.errors import UnknownRelease
from rocwright.model.channels import LandingTable
from rocwright.model.compat import CompatTable, StatusRow
from rocwright.model.compat_releases import (
    Distributions,
    Feature,
    FeatureList,
    FeatureTable,
    LibraryTable,
    Products,
    RocmRelease,
    Statement,
)
from rocwright.model.gpu import Chip, Families, GpuTable
from rocwright.model.platforms import PLATFORMS, Platform
from rocwright.model.project import Line, ProjectTable
from rocwright.model.version import InvalidVersion, parse_version

_Since = TypeVar("_Since", Products, Distributions)
# Of the versions that are looked after those that are no branch: 2.9, not nightly.
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)+")
_BUILT_FOR: tuple[Platform, ...] = ("linux", "windows")


class Facts(msgspec.Struct, frozen=True, dict=True, eq=False):
    """The tables; `lines` are versions of PyTorch that are looked after.

    `gpus` are names of GPUs by target as pages have them, `chips` those that the driver tells apart.
    """

    page: CompatTable
    libraries: LibraryTable
    features: FeatureTable
    families: Mapping[str, tuple[str, ...]]
    lines: tuple[Line, ...]
    gpus: Mapping[str, tuple[str, ...]]
    chips: tuple[Chip, ...]
    sources: SourceTable

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Every GPU target that a family, a statement or a chip names."""
        named = [target for members in self.families.values() for target in members]
        named += [target for row in self.statements for target in row.targets]
        named += [chip.target for chip in self.chips]
        return tuple(dict.fromkeys(named))

    @cached_property
    def newest(self) -> dict[str, tuple[str, str]]:
        """The newest ROCm, PyTorch and Python of the tables, each with its day or that of its table."""
        release = self.releases[0]
        pythons = (version for row in self.page.python for version in row.versions)
        built = self.date(self.page.page.status_source)
        return {
            "rocm": (release.rocm, release.date),
            "torch": (str(self.torch_versions[-1]), built),
            "python": (max(pythons, key=Version), built),
        }

    @cached_property
    def releases(self) -> tuple[RocmRelease, ...]:
        """Releases of ROCm, newest first; of two of the same number the later row."""
        last = {Version(row.rocm): row for row in self.libraries.release}
        return tuple(last[version] for version in sorted(last, reverse=True))

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """What is said of topics: by statements, by rows of lists, and by the table of what is built."""
        own = {row.id: row for row in self.features.statement}
        listed = {row.id: row for row in self.features.feature if row.topic}
        built = [
            self._built(row, platform) for row in self.page.status if row.topic for platform in _BUILT_FOR
        ]
        return (*own.values(), *map(self.said_by, listed.values()), *built)

    @cached_property
    def torch_versions(self) -> tuple[Version, ...]:
        """Versions of PyTorch that any table names, oldest first; without alphas, which belong to one."""
        named = [row.name for row in self.lines] + [row.name for row in self.page.torch]
        named = [name for name in named if _NUMBER.fullmatch(name)]
        named += [version for row in self.releases for version in row.torch]
        named += [version for row in self.features.list for version in row.torch]
        return tuple(sorted({Version(text) for text in named}))

    def list_of(self, feature: Feature) -> FeatureList:
        """The list that a row belongs to."""
        return next(row for row in self.features.list if row.id == feature.list)

    def said_by(self, feature: Feature) -> Statement:
        """A row of a list as a statement: it holds from the versions of its list on."""
        found = self.list_of(feature)
        return Statement(
            id=feature.id,
            topic=feature.topic,
            answer="yes",
            text=f"{feature.text} (Listed for {in_words(found)}.)",
            sources=(feature.source or found.source or self.page.page.source,),
            targets=feature.targets,
            torch=feature.torch or f">={min(found.torch, key=Version)}",
            rocm=feature.rocm or f">={min(found.rocm, key=Version)}",
        )

    def _built(self, row: StatusRow, platform: Platform) -> Statement:
        """What the table of built features says of a topic, for the versions of PyTorch on a platform."""
        word = row.on(platform)
        versions = sorted(
            version
            for one in self.page.torch
            if one.on(platform) in ("supported", "previously built") or word != "supported"
            if within(row.torch, version := Version(one.name.split()[0]))
        )
        first, newest = versions[0], versions[-1]
        return Statement(
            id=f"{row.topic}-{platform}" + (f"-{first}" if row.torch else ""),
            topic=row.topic,
            answer="yes" if word == "supported" else "no",
            text=f"{row.name} on {platform.capitalize()}: {word}, for PyTorch {first} to {newest}.",
            sources=(row.source or self.page.page.status_source, *filter(None, (row.issue,))),
            torch=f">={first},<{newest.major}.{newest.minor + 1}",
            platforms=(platform,),
        )

    def release(self, text: str) -> RocmRelease:
        """The release of ROCm with this number, or `latest`; raises `UnknownRelease` listing those known."""
        wanted = _version(self.libraries.latest if text == "latest" else text, "7.1")
        for row in self.releases:
            if Version(row.rocm) == wanted:
                return row
        raise UnknownRelease(
            f"ROCm {text} is not known; known are {' '.join(row.rocm for row in self.releases)}",
            next_step="name one of these, or add a [[compat_libraries.release]] to rocwright.toml",
        )

    def releases_on(self, platform: str) -> tuple[RocmRelease, ...]:
        """Releases with what AMD lists for a platform: all for Linux, else those that have such lists."""
        if platform in ("", *self.libraries.platforms):
            return self.releases
        return tuple(
            msgspec.structs.replace(row, torch=lists.torch, targets=lists.targets, torch_for={})
            for row in self.releases
            for name, lists in row.elsewhere.items()
            if name == platform
        )

    def line_of(self, text: str, platform: str = "") -> tuple[RocmRelease, ...]:
        """Releases that a number means: one for `7.1.1`, the line for `7.1`, none for one that no row has."""
        wanted = (self.libraries.latest if text == "latest" else text).split(".")
        return tuple(
            row for row in self.releases_on(platform) if row.rocm.split(".")[: len(wanted)] == wanted
        )

    def products(self, rocm: str) -> Products | None:
        """The list of products in force at a release of ROCm; None where none so old was read."""
        return _in_force(self.libraries.products, rocm)

    def distributions(self, rocm: str) -> Distributions | None:
        """The list of distributions in force at a release of ROCm; None where none so old was read."""
        return _in_force(self.libraries.distributions, rocm)

    def date(self, source: str) -> str:
        """Of when it is what stands at an address, in words; empty where no table says."""
        found = self.sources.dated(source)
        return found.as_of if found is not None else ""


def load_facts(overlay: Overlay | None = None) -> Facts:
    """The built-in facts with those of an overlay; raises `InvalidData` naming file, line and field."""
    return _built_in() if overlay is None else _facts(overlay)


@cache
def _built_in() -> Facts:
    return _facts(None)


def _facts(overlay: Overlay | None) -> Facts:
    return Facts(
        page=load_table("compat", CompatTable, overlay),
        libraries=load_table("compat_libraries", LibraryTable, overlay),
        features=load_table("compat_features", FeatureTable, overlay),
        families=load_table("families", Families, overlay).families,
        lines=_last(load_table("projects", ProjectTable, overlay).lines),
        gpus=load_table("landing", LandingTable).gpus,
        chips=load_table("gpus", GpuTable, overlay).chip,
        sources=load_sources(overlay),
    )


def _in_force(rows: Iterable[_Since], rocm: str) -> _Since | None:
    """The newest row that is not newer than a release."""
    old = [row for row in rows if Version(row.rocm) <= Version(rocm)]
    return max(old, key=lambda row: Version(row.rocm), default=None)


def _version(text: str, like: str) -> Version:
    try:
        return parse_version(text)
    except InvalidVersion as error:
        error.next_step = f"write it like {like}"
        raise


def _last(rows: Iterable[Line]) -> tuple[Line, ...]:
    return tuple({row.name: row for row in rows}.values())


def in_words(found: FeatureList) -> str:
    """`PyTorch 2.7/2.8 with ROCm 7.0`."""
    return f"PyTorch {'/'.join(found.torch)} with ROCm {'/'.join(found.rocm)}"


class Conflict(msgspec.Struct, frozen=True):
    """A topic of which sources say yes and no for one version of PyTorch on one platform."""

    topic: str
    torch: str
    platform: str
    statements: tuple[Statement, ...]


def find_conflicts(facts: Facts) -> tuple[Conflict, ...]:
    """Every contradiction, oldest version first; what is said of different GPUs is none."""
    found = []
    for topic in facts.features.topic:
        said = [row for row in facts.statements if row.topic == topic.id]
        for version in facts.torch_versions:
            for platform in PLATFORMS:
                here = [row for row in said if holds(row, version, platform)]
                pairs = [pair for pair in combinations(here, 2) if contradict(*pair)]
                if pairs:
                    clash = tuple(row for row in here if any(row in pair for pair in pairs))
                    found.append(Conflict(topic.name, str(version), platform, clash))
    return tuple(found)


def contradict(one: Statement, other: Statement) -> bool:
    """Whether two statements that hold at once say yes and no of the same GPUs.

    What names a platform is surer of it than what names none, which was said of Linux.
    """
    return (
        one.answer != other.answer
        and set(one.targets) == set(other.targets)
        and ("windows" in one.platforms) == ("windows" in other.platforms)
    )


def holds(row: Statement, torch: Version, platform: str) -> bool:
    """Whether a statement is about this version of PyTorch on this platform."""
    return (not row.platforms or platform in row.platforms) and within(row.torch, torch)


def within(specifier: str, version: Version) -> bool:
    """Whether a version is meant; an alpha or a patch belongs to its line, `2.9a0` and `2.9.1` to 2.9."""
    line = Version(f"{version.major}.{version.minor}.{version.micro}")
    return line in SpecifierSet(specifier)


def same_line(version: str, lines: tuple[str, ...]) -> bool:
    """Whether a version is of one of these lines: 2.9.1 of 2.9."""
    return Version(version).release[:2] in {Version(line).release[:2] for line in lines}
