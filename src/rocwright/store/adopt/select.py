"""What of an index comes into question: for a platform and some Pythons, and not withdrawn; pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet

from rocwright.store.adopt.grouping import Node
from rocwright.store.adopt.labels import date_of, label_of
from rocwright.store.adopt.offered import Catalogue, Offered
from rocwright.store.adopt.pins import device_of
from rocwright.wheel.tags import platform_of, serves


@dataclass(frozen=True)
class SetChoice:
    """Which set is asked for; by default the newest whole one of torch.

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
        """Whether a project is no device package, or one for a target that is asked for."""
        target = device_of(project)[1]
        return not (self.targets and target) or target in self.targets


def select(catalogue: Catalogue, wanted: SetChoice, gone: Collection[str] = ()) -> Catalogue:
    """The catalogue without what cannot be meant, and without `gone`, files that cannot be had.

    Withdrawn files (PEP 592) stay where their project is asked for by version, as installers take them then.
    A version of which nothing can be had stays: who requires it has to be told.
    """
    files = {}
    for project, found in catalogue.files.items():
        meant = [one for one in found if _comes_into_question(one, wanted)]
        had = {one.version for one in meant if one.name not in gone}
        files[project] = tuple(one for one in meant if one.name not in gone or one.version not in had)
    return replace(catalogue, files=files)


def _comes_into_question(one: Offered, wanted: SetChoice) -> bool:
    if (one.link.yanked is not None and wanted.version is None) or not wanted.is_for(one.project):
        return False
    if not one.is_wheel:
        return True
    if platform_of(one.tags) not in (None, wanted.platform) or not _any_of(one.tags, wanted.platform):
        return False
    return not wanted.pythons or any(serves(one.tags, python, wanted.platform) for python in wanted.pythons)


def _any_of(tags: Collection[str], platform: str) -> bool:
    """Whether tags are for any platform, or for this one: those of other systems are for neither."""
    return any(tag.endswith("-any") or platform_of([tag]) == platform for tag in tags)
