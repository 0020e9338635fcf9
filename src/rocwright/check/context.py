"""The shape of a rule, and what it may look at: the file, what was asked, the contract, the other files.

Rules are pure: facts in, problems out; nothing is read while they run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rocwright.check.contract import ContractTable, Terms, terms_of
from rocwright.check.environments import PythonPlatform, environments_of, read_requirement
from rocwright.check.facts import Facts, Installation, VariantFacts
from rocwright.check.libraries import Libraries
from rocwright.check.modules import ModuleTable
from rocwright.check.report import SizeTable
from rocwright.check.scopes import Scopes
from rocwright.data import load_table
from rocwright.model.environment import OwnedNames
from rocwright.model.findings import Clause, Severity
from rocwright.model.patterns import any_pattern
from rocwright.model.platforms import Platforms, RocmLibraries
from rocwright.model.symbols import StableAbi
from rocwright.model.variants import VariantTable
from rocwright.wheel.read import place_of


class Problem(msgspec.Struct, frozen=True):
    """Cause and next step; `member` is the file inside the wheel that it is about.

    The cause does not name the member: problems that differ in the member alone become one finding.
    """

    cause: str
    next_step: str
    member: str = ""


@dataclass(frozen=True)
class Rule(Clause):
    """A clause about one file.

    `kinds` are the kinds of file it applies to. The contract's table says for which packages. For a rule with
    `by_metadata` a file's name and METADATA are enough.
    """

    check: Callable[[Facts, Context], Iterator[Problem]]
    kinds: tuple[str, ...] = ("wheel",)
    by_metadata: bool = False


@dataclass(frozen=True)
class SetRule(Clause):
    """A clause about all files together; a problem comes with the name of the file it is reported for.

    `open_severity` holds where nobody says that the files are a complete set: what leads out of them may be
    elsewhere. For a rule with `by_metadata` the names of the files and their METADATA are enough. A rule with
    `proof` judges installations: without any it says nothing.
    """

    check: Callable[[Context], Iterator[tuple[str, Problem]]]
    open_severity: Severity | None = None
    by_metadata: bool = False
    proof: bool = False


class Request(msgspec.Struct, frozen=True):
    """What was asked of the wheels.

    `targets` are base targets or targets with features that torch was built for; None asks for none. `closed`
    says that the files are a complete set. `expect` are canonical names of projects that must be there.
    `previous` are the sizes of the set before. `adopted` are names of files that others built and published
    (True: all): what the contract names for these is a warning.
    """

    targets: frozenset[str] | None = None
    closed: bool = False
    expect: tuple[str, ...] = ()
    previous: SizeTable | None = None
    adopted: bool | frozenset[str] = False


class Context(msgspec.Struct, frozen=True, dict=True):
    """Everything that is checked together.

    `files` are those of a given set, too; of an unreadable file only what its name says is known.
    `installations` are what came of installing the set, if that was tried. `indexes` state which variants of
    a version there are.
    """

    contract: ContractTable
    request: Request = msgspec.field(default_factory=Request)
    files: tuple[Facts, ...] = ()
    installations: tuple[Installation, ...] = ()
    indexes: tuple[VariantFacts, ...] = ()
    variants: VariantTable = msgspec.field(default_factory=lambda: load_table("variants", VariantTable))
    platforms: Platforms = msgspec.field(default_factory=lambda: load_table("platforms", Platforms))
    rocm_libraries: RocmLibraries = msgspec.field(
        default_factory=lambda: load_table("packages", RocmLibraries)
    )
    owned_names: OwnedNames = msgspec.field(default_factory=lambda: load_table("environment", OwnedNames))

    def terms(self, project: str) -> Terms:
        """What the contract asks of a package."""
        if project not in self._terms:
            self._terms[project] = terms_of(self.contract, project)
        return self._terms[project]

    @cached_property
    def _terms(self) -> dict[str, Terms]:
        return {}

    def severity(self, rule: str, severity: Severity, file: str) -> Severity:
        """How bad it is that a file breaks a rule, which by the contract is this bad."""
        adopted = self.request.adopted
        by_others = adopted if isinstance(adopted, bool) else file in adopted
        return "warning" if by_others and rule in self.contract.adopted else severity

    def brings_rocm(self, facts: Facts) -> bool:
        """Whether ROCm is inside a wheel, so that it needs none of ROCm's packages."""
        return any(self.is_own_rocm(facts, place_of(member.name)) for member in facts.members)

    def is_own_rocm(self, facts: Facts, place: str) -> bool:
        """Whether a wheel keeps a ROCm of its own at a place."""
        own = self.terms(facts.project).own_rocm
        return bool(own) and any_pattern(own).fullmatch(place) is not None

    @cached_property
    def by_project(self) -> Mapping[str, tuple[Facts, ...]]:
        """The files by canonical project name."""
        found: dict[str, tuple[Facts, ...]] = {}
        for facts in self.files:
            found[facts.project] = (*found.get(facts.project, ()), facts)
        return found

    @cached_property
    def independent(self) -> frozenset[str]:
        """Projects all whose files have ROCm inside: they lead to none of its packages."""
        found = self.by_project.items()
        return frozenset(name for name, files in found if all(map(self.brings_rocm, files)))

    @cached_property
    def blind(self) -> bool:
        """Whether some file could not be read, so that what it brings is not known."""
        return any(facts.unreadable is not None or facts.bomb is not None for facts in self.files)

    @cached_property
    def libraries(self) -> Libraries:
        """Which file holds which library."""
        return Libraries(self.files, self.platforms.provider)

    @cached_property
    def scopes(self) -> Scopes:
        """Which libraries see each other's symbols."""
        # What the family opens so, none of its own libraries is in want of.
        opening = (
            facts.project
            for facts in self.files
            if facts.opens_globally
            and not self.contract.is_own(facts.project)
            and "family-pin" not in self.terms(facts.project).rules
        )
        return Scopes(self.libraries, self.platforms, frozenset(opening))

    @cached_property
    def stable_abi(self) -> StableAbi:
        """What extensions for the stable ABI may use."""
        return load_table("stable_abi", StableAbi)

    @cached_property
    def modules(self) -> Mapping[str, ModuleTable]:
        """The Python modules of each file, by the file's name."""
        return {facts.name: ModuleTable(facts) for facts in self.files}

    def tables(self, module: str) -> Sequence[ModuleTable]:
        """Those of all files that know a module, if any does: they have something of its top level."""
        return self._by_top.get(module.partition(".")[0], ())

    @cached_property
    def _by_top(self) -> Mapping[str, Sequence[ModuleTable]]:
        found: defaultdict[str, list[ModuleTable]] = defaultdict(list)
        for table in self.modules.values():
            for top in table.top_levels:
                found[top].append(table)
        return found

    @cached_property
    def requiring(self) -> Mapping[str, Sequence[Facts]]:
        """The files that require a project, by its canonical name; an extra counts."""
        found: defaultdict[str, list[Facts]] = defaultdict(list)
        for facts in self.files:
            for name in {required_name(one) for one in parsed_requirements(facts)}:
                found[name].append(facts)
        return found

    @cached_property
    def elsewhere(self) -> frozenset[str]:
        """Projects that some file requires, and what is in them is not known: not at hand, or an sdist."""
        return frozenset(
            name
            for name in self.requiring.keys() | self.by_project.keys()
            if not any(facts.kind == "wheel" for facts in self.by_project.get(name, ()))
        )

    @cached_property
    def environments(self) -> tuple[PythonPlatform, ...]:
        """Where files of the set can be installed."""
        return environments_of(self.files)

    def leads_into_set(self, requirement: Requirement) -> bool:
        """Whether nothing but the set's own index can answer a requirement, by its name or version."""
        local = any("+" in specifier.version for specifier in requirement.specifier)
        return local or self.contract.is_own(required_name(requirement))


def parsed_requirements(facts: Facts) -> list[Requirement]:
    """Requires-Dist lines that can be read; a rule of their own reports the others."""
    read = map(read_requirement, facts.headers.requires)
    return [requirement for requirement in read if isinstance(requirement, Requirement)]


def required_name(requirement: Requirement) -> str:
    """The canonical name of what is required."""
    return str(canonicalize_name(requirement.name))
