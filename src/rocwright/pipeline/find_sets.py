"""Find the sets on an index, step by step until each of them is known, and for which GPU targets they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from rocwright.check.contract import ContractTable
from rocwright.check.report import Report
from rocwright.data import load_table
from rocwright.errors import ContractBroken, InvalidInput, RocwrightError
from rocwright.model.gpu import base_targets, matching_family
from rocwright.model.project import TORCH, ProjectTable
from rocwright.pipeline.check_set import WHOLE, environments, judge_metadata, needs_of
from rocwright.store.adopt.fetch import Fetcher, Told
from rocwright.store.adopt.grouping import Asking, Needs, OfferedSet, grow, roots, together
from rocwright.store.adopt.offered import Catalogue, Node, Offered, SetChoice, device_of, label_of, select
from rocwright.store.adopt.pages import Reading
from rocwright.store.layout import MULTI_ARCH

# Without --project: what most sets are for, then what is there without it.
_ROOTS = (TORCH, "rocm")
_MOST_ROUNDS = 50
# So many projects are named where nobody says which is meant.
_NAMED = 12
_LIBRARIES = "rocm-sdk-libraries-"


class Judged(msgspec.Struct, frozen=True):
    """A set as it is on the index: `problems` say why it is mixed, none for a whole set."""

    found: OfferedSet
    files: tuple[Offered, ...]
    report: Report
    problems: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether its files fit each other, as far as their metadata says."""
        return not self.problems

    @property
    def name(self) -> str:
        """`torch 2.10.0+rocm7.12.0a20260430`."""
        return " ".join(self.found.root)


class Finder(msgspec.Struct):
    """Looks for sets on an index; everything is read once."""

    reading: Reading
    fetcher: Fetcher
    wanted: SetChoice
    contract: ContractTable
    note: Callable[[str], None] = lambda _: None
    projects: ProjectTable = msgspec.field(default_factory=lambda: load_table("projects", ProjectTable))
    _needs: dict[Node, Needs] = msgspec.field(default_factory=dict)

    def sets(self, limit: int) -> tuple[Judged, ...]:
        """The newest sets that are asked for, whole or mixed."""
        return tuple(self._judged(one) for one in self._grown(self._roots()[:limit]))

    def newest(self, without: Iterable[Offered] = ()) -> Judged:
        """The newest whole set that is asked for; `without` are files that turned out not to be had.

        Raises `ContractBroken` with all that does not fit when there is none; mixed sets that are newer are
        noted.
        """
        self._without(without)
        mixed = []
        for root in self._roots():
            judged = self._judged(self._grown([root])[0])
            if judged.whole:
                return judged
            mixed.append(judged)
            if not self.wanted.one:
                self.note(f"{judged.name} is mixed: {judged.problems[0]}")
        lines = [
            f"{one.name} is not a complete set:\n" + "\n".join(f"  - {p}" for p in one.problems)
            for one in mixed
        ]
        raise ContractBroken(
            "\n".join(lines),
            where=self.reading.name,
            next_step="wait for the missing files, leave out what needs them (--python, --target), or take "
            "another set: --list-sets shows all",
        )

    @property
    def catalogue(self) -> Catalogue:
        """What the index offers, without what cannot be meant."""
        return select(self.reading.catalogue, self.wanted, self.fetcher.gone)

    def missing(self, found: OfferedSet) -> Mapping[str, str]:
        """Files of a set that the index offers and that cannot be had: why, by name."""
        gone = self.fetcher.gone
        offered = (one for files in self.reading.catalogue.files.values() for one in files)
        return {one.name: gone[one.name] for one in offered if one.name in gone and _belongs(one, found)}

    def _roots(self) -> Sequence[Node]:
        """Where sets can grow from, the newest first."""
        self._check()
        project = self._project()
        known = roots(self.catalogue, project)
        meant = [root for root in known if self.wanted.is_meant(root)]
        if not meant:
            newest = ", ".join(version for _, version in known[:3])
            raise InvalidInput(
                f"{self.reading.name} has no {project} that matches what was asked for",
                where=self.reading.name,
                next_step=f"the newest there: {newest}" if newest else "give another --project or --platform",
            )
        return meant

    def _check(self) -> None:
        try:
            SpecifierSet(f"=={self.wanted.version}" if self.wanted.version is not None else "")
        except InvalidSpecifier as error:
            raise InvalidInput(
                f"{self.wanted.version!r} is not a version", next_step="write it like 2.9.0"
            ) from error

    def _project(self) -> str:
        asked = (str(canonicalize_name(self.wanted.project)),) if self.wanted.project else _ROOTS
        for project in asked:
            self.reading.more([project])
            if self.reading.catalogue.files.get(project):
                return project
        there = sorted(name for name, files in self.reading.catalogue.files.items() if files)
        if len(there) == 1 and self.wanted.project is None:
            return there[0]
        more = " and others" if len(there) > _NAMED else ""
        raise InvalidInput(
            f"{self.reading.name} has no {' and no '.join(asked)}",
            where=self.reading.name,
            next_step=f"name the project to build a set around: --project {there[0]} (it has "
            f"{', '.join(there[:_NAMED])}{more})"
            if there
            else "check the address",
        )

    def _grown(self, wanted: Sequence[Node]) -> list[OfferedSet]:
        """The sets that grow from these versions, all read together."""
        # Those that are built against torch and may not say so in their versions.
        companions = {row.name for row in self.projects.projects} if wanted[0][0] == TORCH else set()
        for _ in range(_MOST_ROUNDS):
            catalogue = self.catalogue
            everywhere = environments(one for root in wanted for one in catalogue.versions(root[0])[root[1]])
            grown = [
                grow(root, catalogue, self._needs, environments=everywhere, companions=companions)
                for root in wanted
            ]
            asking = Asking(
                set().union(*(more.nodes for _, more in grown)),
                set().union(*(more.pages for _, more in grown)),
            )
            if not asking:
                return [found for found, _ in grown]
            self._learn(asking)
        raise InvalidInput(
            f"what belongs together on {self.reading.name} could not be determined in {_MOST_ROUNDS} rounds",
            where=self.reading.name,
        )

    def _learn(self, asking: Asking) -> None:
        """Read pages and METADATA; of the files of a version, one speaks for all but its variants."""
        self.reading.more(asking.pages)
        catalogue = self.catalogue
        speakers = {node: _speakers(catalogue.versions(node[0])[node[1]]) for node in sorted(asking.nodes)}
        if speakers:
            self.note(f"reading METADATA of {len(speakers)} versions")
        told = self.fetcher.told(one for several in speakers.values() for one in several)
        for node, several in speakers.items():
            # Where it cannot be had, another file of the version may speak for it: that is asked for next.
            there = self.catalogue.versions(node[0])[node[1]]
            if all(one in there for one in several):
                self._needs[node] = together(needs_of(told[one.name], self.wanted) for one in several)

    def _without(self, files: Iterable[Offered]) -> None:
        """These cannot be had: versions that have no other file are not known any more."""
        for one in files:
            left = self.catalogue.versions(one.project)[one.version]
            if all(other.name in self.fetcher.gone for other in left):
                self._needs[one.project, one.version] = Needs(unreadable=self.fetcher.gone[one.name])

    def _judged(self, found: OfferedSet) -> Judged:
        files = self.files(found)
        catalogue = self.catalogue

        def told(one: Offered) -> Told | RocwrightError:
            files = catalogue.versions(one.project)[one.version]
            speaker = _speaker([other for other in files if other.label == one.label])
            return self.fetcher.told([speaker])[speaker.name]

        report = judge_metadata(files, told, self.contract, wanted=self.wanted)
        return judged(found, files, report, self.missing(found))

    def files(self, found: OfferedSet) -> tuple[Offered, ...]:
        """Every file of a set, sorted by name."""
        catalogue = self.catalogue
        files = [one for node in found.versions.items() for one in catalogue.versions(node[0])[node[1]]]
        return tuple(sorted(files, key=lambda one: one.name))


def judged(found: OfferedSet, files: Iterable[Offered], report: Report, missing: Mapping[str, str]) -> Judged:
    """A set with everything that speaks against its being whole; `missing` are files that cannot be had."""
    broken = [one for one in report.findings if one.rule in WHOLE and one.severity == "error"]
    problems = [str(one) for one in found.misfits]
    # The same gap, found by the rules once more or in a file for another Python, is not told twice.
    told = {_version_of(one.file) for one in found.misfits}
    problems += [f"{one.file}: {one.cause}" for one in broken if _version_of(one.file) not in told]
    if problems:
        problems += [f"{name} cannot be downloaded: {why}" for name, why in missing.items()]
    return Judged(found, tuple(files), report, tuple(problems))


def _belongs(one: Offered, found: OfferedSet) -> bool:
    """Whether a file is of a version in the set, or of the same build."""
    if one.project in found.versions:
        return found.versions[one.project] == one.version
    return found.label is not None and label_of(one.project, one.version) == found.label


def _version_of(file: str) -> tuple[str, ...]:
    return tuple(file.removesuffix(".tar.gz").split("-")[:2])


def _speakers(files: Sequence[Offered]) -> list[Offered]:
    """A file for those without a label, and one for each variant: variants require what they like."""
    labels = sorted({one.label for one in files})
    return [_speaker([one for one in files if one.label == label]) for label in labels]


def _speaker(files: Sequence[Offered]) -> Offered:
    """The file of a version whose METADATA is had most easily."""
    return min(files, key=lambda one: (not one.is_wheel, not one.link.metadata, one.link.size or 0, one.name))


# -- for which GPU targets: what names of packages tell, and what is asked for


def named_targets(files: Sequence[Offered], families: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The targets that names of packages tell: of device packages, else of the family of the libraries."""
    devices = base_targets(target for one in files if (target := device_of(one.project)[1]))
    return devices or families.get(_library_family(files, families) or "", ())


def _library_family(files: Iterable[Offered], families: Mapping[str, tuple[str, ...]]) -> str | None:
    """The family in the name of the one package with libraries."""
    spelled = {name.lower(): name for name in families}
    named = {one.project.removeprefix(_LIBRARIES) for one in files if one.project.startswith(_LIBRARIES)}
    return spelled.get(one := named.pop(), one) if len(named) == 1 else None


def family_of(
    files: Iterable[Offered], targets: tuple[str, ...], families: Mapping[str, tuple[str, ...]]
) -> str:
    """By the name of the one package with libraries, or by the targets; else `none`."""
    named = _library_family(files, families)
    if named is not None and families.get(named, ()) in ((), targets):
        return named
    if not targets:
        return "none"
    return matching_family(targets, families) or (targets[0] if len(targets) == 1 else MULTI_ARCH)


def offered_targets(
    found: Judged, catalogue: Catalogue, families: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The targets that names tell for a set, those left out of it because nobody asked for them included.

    `catalogue` is all that the index offers.
    """
    built = found.found
    devices = {
        target
        for project, files in catalogue.files.items()
        if (target := device_of(project)[1])
        and any(
            one.version == built.root[1] or label_of(project, one.version) == built.label for one in files
        )
    }
    return base_targets(devices) or named_targets(found.files, families)


def require_targets(wanted: tuple[str, ...], there: tuple[str, ...], found: Judged) -> None:
    """Raise `InvalidInput` for a target that the set has no code for."""
    without = [one for one in wanted if one not in there]
    if without:
        has = f"it has code for {', '.join(there)}" if there else "none of its files is for a GPU target"
        raise InvalidInput(
            f"{found.name} has no code for {', '.join(without)}; {has}",
            next_step="ask for targets that it has, or for another set: --list-sets shows all",
        )
