"""What an index offers, as values: files by project, what their names say, and which are asked for.

Which build a version is of is its label: its ROCm part, as it stands in versions of ROCm and behind a plus
sign.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

import msgspec
from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
)
from packaging.version import InvalidVersion, Version

from rocwright.data import load_table
from rocwright.errors import InvalidInput
from rocwright.model.gpu import is_target
from rocwright.model.patterns import any_pattern
from rocwright.model.variants import INDEX_END, Properties, VariantTable
from rocwright.wheel.tags import parse_wheel_name, platform_of, serves

# As a manifest takes them: a name becomes part of a path and of a URL.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")
ENDINGS = (".whl", ".tar.gz")

# A project and a version of it.
Node = tuple[str, str]


# No file system takes more.
_LONGEST_NAME = 255


class Link(msgspec.Struct, frozen=True):
    """A file as a page links to it; nothing of it is verified yet.

    `metadata` says whether its METADATA can be had beside it, and with which sha256 if that is told,
    `provenance` where attestations of it are (PEP 740).
    """

    name: str
    url: str
    sha256: str | None = None
    size: int | None = None
    requires_python: str | None = None
    metadata: bool | str = False
    yanked: str | None = None
    provenance: str | None = None


class Offered(msgspec.Struct, frozen=True):
    """A wheel or sdist that an index offers; `tags` are those of the name, none for an sdist.

    `label` is that of a variant, and `stated` the properties that the index states of it, None where it does
    not.
    """

    link: Link
    project: str
    version: str
    tags: frozenset[str] = frozenset()
    label: str = ""
    stated: Properties | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.link.name

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel, and no sdist."""
        return self.name.endswith(".whl")


class Catalogue(msgspec.Struct, frozen=True):
    """What is known of an index: files by project, as far as their pages have been read.

    `listing` are the names of its projects, None where it does not tell them (or far too many).
    """

    files: Mapping[str, tuple[Offered, ...]]
    listing: frozenset[str] | None = None

    def versions(self, project: str) -> Mapping[str, tuple[Offered, ...]]:
        """The files of a project by version."""
        found: dict[str, tuple[Offered, ...]] = {}
        for one in self.files.get(project, ()):
            found[one.version] = (*found.get(one.version, ()), one)
        return found

    def may_have(self, project: str) -> bool:
        """Whether a page of the project is still to be read."""
        return project not in self.files and (self.listing is None or project in self.listing)


class OfferedFiles(msgspec.Struct):
    """Files gathered from pages; `notes` say what was left out, and why.

    `stating` are links to what is stated of variants, by name.
    """

    files: dict[str, Offered] = msgspec.field(default_factory=dict)
    stating: dict[str, Link] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)

    def add(self, links: Iterable[Link]) -> None:
        """Take in what can be a distribution; the first of two equal names counts."""
        for link in links:
            if link.name.endswith(INDEX_END):
                self.stating.setdefault(link.name, link)
                continue
            found = _offered(link)
            if isinstance(found, str):
                self.notes.append(found)
            elif link.name in self.files:
                known = self.files[link.name].link.sha256
                if None not in (known, link.sha256) and known != link.sha256:
                    self.notes.append(f"{link.name} is offered twice with different sha256: {link.url}")
            else:
                self.files[link.name] = found

    def by_project(self) -> dict[str, tuple[Offered, ...]]:
        """The files by project, in the order of their names."""
        found: dict[str, tuple[Offered, ...]] = {}
        for name in sorted(self.files):
            one = self.files[name]
            found[one.project] = (*found.get(one.project, ()), one)
        return found


def project_of(name: str) -> str:
    """The project that a file is of, by its name; raises `InvalidInput` for a name of another form."""
    found = _offered(Link(name, ""))
    if isinstance(found, str):
        raise InvalidInput(found, next_step="give the name of a wheel or sdist")
    return found.project


def _offered(link: Link) -> Offered | str:
    """The file behind a link; or why it is none, as text."""
    if _FILE_NAME.fullmatch(link.name) is None:
        return f"{link.name!r} is not the file name of a wheel or sdist"
    if len(link.name) > _LONGEST_NAME:
        # Its tags could stand for millions.
        return f"{link.name[:40]!r}… has {len(link.name):,} letters, more than a file name can have"
    try:
        if link.name.endswith(".whl"):
            project, version, _, tags, label = parse_wheel_name(link.name)
            return Offered(link, project, str(version), frozenset(map(str, tags)), label)
        project, version = parse_sdist_filename(link.name)
        return Offered(link, canonicalize_name(project), str(version))
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion) as error:
        return str(error)


# -- what versions, requirements and names say: of which build, exactly what, for which GPU target


_LOCAL = re.compile(r"(?:^|\.)(?:dev)?rocm(?P<version>[0-9].*)")
_DATE = re.compile(r"(?<![0-9])(20[0-9]{6})(?![0-9])")
_RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+)*")
# Packages of ROCm itself: their own version is the label.
_ROCM = ("rocm", "rocm-*")


@lru_cache(maxsize=1 << 14)
def label_of(project: str, version: str) -> str | None:
    """The label of a build: `7.12.0a20260430` for `2.10.0+rocm7.12.0a20260430`; None where there is none.

    A plus sign in ROCm's own version is a dot in a label, as it is behind another plus sign.
    """
    parsed = Version(version)
    found = _LOCAL.search(parsed.local or "")
    if found is not None:
        return found["version"]
    if is_rocm(project):
        return str(parsed).replace("+", ".")
    return None


def is_rocm(project: str) -> bool:
    """Whether a project is one of ROCm's own packages."""
    return any_pattern(_ROCM).fullmatch(project) is not None


def date_of(label: str | None) -> str | None:
    """The date in a label, `20260430`."""
    found = _DATE.search(label or "")
    return found.group(1) if found else None


def label_order(label: str | None) -> tuple[str, Version]:
    """Sorts labels from old to new: by date where they name a date, then as versions."""
    release = _RELEASE.match(label or "")
    try:
        version = Version(label or "0")
    except InvalidVersion:
        version = Version(release.group() if release else "0")
    return (date_of(label) or "", version)


def exact_pin(requirement: Requirement) -> str | None:
    """The version that a requirement names with `==`, normalised; None for any other specifier."""
    for one in requirement.specifier:
        if one.operator in ("==", "===") and not one.version.endswith("*"):
            try:
                return str(Version(one.version))
            except InvalidVersion:
                return None
    return None


def applies(
    requirement: Requirement, environments: Collection[Mapping[str, str]], extras: Collection[str]
) -> bool:
    """Whether a requirement holds in some environment, for some extra or without any."""
    marker = requirement.marker
    if marker is None:
        return True
    try:
        return any(
            marker.evaluate({**environment, "extra": extra})
            for environment in environments
            for extra in ("", *extras)
        )
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return True


def device_of(project: str) -> tuple[str, str]:
    """A device package's name without its target, and the target; `""` for any other."""
    words = project.split("-")
    for at in range(1, len(words)):
        if is_target(tail := "-".join(words[at:])):
            return project.removesuffix(tail), tail
    return project, ""


def plain(requirement: Requirement) -> str:
    """A requirement without its marker."""
    return str(requirement).partition(";")[0].strip()


# -- what of it comes into question: for a platform and some Pythons, and not withdrawn


class SetChoice(msgspec.Struct, frozen=True):
    """Which set is asked for; by default the newest whole set of torch.

    `version` is of the `project`, `date` (`20260430`) and `rocm_version` of the build. `pythons` (`3.12`),
    `platform` (`linux`, `windows`) and `targets` (base targets, none for all) leave out files that none of
    them can use.
    """

    project: str | None = None
    version: str | None = None
    date: str | None = None
    rocm_version: str | None = None
    pythons: tuple[str, ...] = ()
    platform: str = "linux"
    targets: tuple[str, ...] = ()

    @property
    def one(self) -> bool:
        """Whether a set is asked for by what it is, not just the newest."""
        return any((self.version, self.date, self.rocm_version))

    def is_meant(self, root: Node) -> bool:
        """Whether a set that grows from this version is asked for."""
        label = label_of(*root)
        spelled = (self.rocm_version or "").replace("+", ".").replace("-", ".").lower()
        return (
            (self.version is None or SpecifierSet(f"=={self.version}").contains(root[1], prereleases=True))
            and (self.date is None or date_of(label) == self.date.replace("-", ""))
            and (self.rocm_version is None or label == spelled)
        )

    def is_for(self, project: str) -> bool:
        """Whether a project is no device package, or that of a target that is asked for."""
        target = device_of(project)[1]
        return not (self.targets and target) or target in self.targets

    def takes(self, one: Offered) -> bool:
        """Whether a file is for a target that is asked for, or for none."""
        values = _gpus(one.stated) if self.targets and one.stated else ()
        return (not values or any(value in self.targets for value in values)) and self.is_for(one.project)


def _gpus(properties: Properties) -> tuple[str, ...]:
    """The targets whose GPUs a variant is for; none where it does not depend on them."""
    amd = load_table("variants", VariantTable).provider
    return properties.get(amd.namespace, {}).get(amd.feature, ())


def select(catalogue: Catalogue, wanted: SetChoice, gone: Collection[str] = ()) -> Catalogue:
    """The catalogue without what cannot be meant, and without `gone`, files that cannot be had.

    Withdrawn files (PEP 592) stay where their project is asked for by version, as installers take them then.
    A version of which nothing can be had stays: who requires it has to be told.
    """
    files = {}
    for project, found in catalogue.files.items():
        meant = [one for one in found if comes_into_question(one, wanted)]
        had = {one.version for one in meant if one.name not in gone}
        files[project] = tuple(one for one in meant if one.name not in gone or one.version not in had)
    return msgspec.structs.replace(catalogue, files=files)


def comes_into_question(one: Offered, wanted: SetChoice) -> bool:
    """Whether a file can be meant, by its platform and Python, its target, and whether it is withdrawn."""
    if (one.link.yanked is not None and wanted.version is None) or not wanted.takes(one):
        return False
    if not one.is_wheel:
        return True
    if platform_of(one.tags) not in (None, wanted.platform) or not _any_of(one.tags, wanted.platform):
        return False
    return not wanted.pythons or any(serves(one.tags, python, wanted.platform) for python in wanted.pythons)


def _any_of(tags: Collection[str], platform: str) -> bool:
    """Whether tags are for any platform, or for this one: those of other systems are for neither."""
    return any(tag.endswith("-any") or platform_of([tag]) == platform for tag in tags)
