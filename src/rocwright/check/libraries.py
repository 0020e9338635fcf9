"""Which wheel holds which library and where it is installed; what a package's requirements lead to."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rocwright.check.environments import MOST_KEPT, read_requirement
from rocwright.check.facts import ElfFacts, Facts
from rocwright.model.patterns import fits
from rocwright.model.platforms import Provider
from rocwright.wheel.read import place_of

# From site-packages to where the schemes of a wheel that lie beside it are installed.
_BESIDE = {"<scripts>/": "../../../bin/", "<data>/": "../../../"}
_ORIGIN = ("$ORIGIN", "${ORIGIN}")


def path_on_disk(member: str) -> str:
    """A member's path relative to site-packages once it is installed; `../../../bin/x` for a script."""
    place = place_of(member)
    for scheme, prefix in _BESIDE.items():
        if place.startswith(scheme):
            return prefix + place.removeprefix(scheme)
    return place


def search_entries(elf: ElfFacts) -> list[str]:
    """What the loader looks through for what a file needs: RUNPATH, or RPATH where there is none."""
    text = elf.rpath if elf.runpath is None else elf.runpath
    return text.split(":") if text else []


def directory_of(elf: ElfFacts, entry: str) -> str | None:
    """Where an entry leads from the file's installed place, relative to site-packages.

    None for an entry that does not start with $ORIGIN.
    """
    head, _, rest = entry.partition("/")
    if head not in _ORIGIN:
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(path_on_disk(elf.member)), rest))


class Reach(msgspec.Struct, frozen=True):
    """Projects that requirements lead to: those among the files, the own included, and those not there.

    `unseen` starts with the names that are required without an extra. `blind` are files on the way that
    cannot be read, so that what they hold and require is not known.
    """

    projects: frozenset[str]
    unseen: tuple[str, ...]
    blind: tuple[str, ...] = ()


class Libraries(msgspec.Struct, frozen=True, dict=True):
    """An index over all files that are checked together."""

    files: tuple[Facts, ...]
    providers: tuple[Provider, ...] = ()

    @cached_property
    def places(self) -> Mapping[str, Facts]:
        """Libraries, programs and modules by where they are installed: the first file that has each."""
        found: dict[str, Facts] = {}
        for facts in self.files:
            for elf in facts.elf:
                if elf.kind != "rel":
                    found.setdefault(path_on_disk(elf.member), facts)
        return found

    @cached_property
    def _names(self) -> tuple[Mapping[str, dict[str, set[str]]], Mapping[str, dict[str, set[str]]]]:
        # Which files of which projects have a library of a name; the same of DLLs, in lower case.
        held: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
        dlls: defaultdict[str, dict[str, set[str]]] = defaultdict(dict)
        for facts in self.files:
            for elf in facts.elf:
                if elf.kind != "rel":
                    for name in {PurePosixPath(elf.member).name, elf.soname or ""}:
                        held[name].setdefault(facts.project, set()).add(facts.name)
            # What is damaged is there, and reported as such.
            for fault in facts.damaged:
                name = PurePosixPath(fault.member).name
                held[name].setdefault(facts.project, set()).add(facts.name)
                dlls[name.lower()].setdefault(facts.project, set()).add(facts.name)
            for pe in facts.pe:
                name = PurePosixPath(pe.member).name.lower()
                dlls[name].setdefault(facts.project, set()).add(facts.name)
        return held, dlls

    @cached_property
    def _reach(self) -> dict[str, Reach]:
        return {}

    @cached_property
    def _brings(self) -> dict[str, list[str]]:
        return {}

    def holders(self, library: str, *, windows: bool = False) -> Mapping[str, set[str]]:
        """The projects with a library of this file name or SONAME, and which of their files have it."""
        held, dlls = self._names
        return dlls.get(library.lower(), {}) if windows else held.get(library, {})

    def holds(self, facts: Facts, library: str, *, windows: bool = False) -> bool:
        """Whether this file itself has the library."""
        return facts.name in self.holders(library, windows=windows).get(facts.project, ())

    def provides(self, facts: Facts, library: str, *, windows: bool = False) -> bool:
        """Whether this file, or one of a project that its requirements lead to, has the library."""
        reach = self.reach(facts).projects - {facts.project}
        holders = self.holders(library, windows=windows)
        return self.holds(facts, library, windows=windows) or not reach.isdisjoint(holders)

    def reach(self, facts: Facts) -> Reach:
        """What a file's requirements lead to, through the files at hand; every extra counts."""
        if facts.name not in self._reach:
            self._reach[facts.name] = self._walk(facts)
        return self._reach[facts.name]

    @cached_property
    def by_project(self) -> Mapping[str, Sequence[Facts]]:
        """The files by canonical project name."""
        found: defaultdict[str, list[Facts]] = defaultdict(list)
        for facts in self.files:
            found[facts.project].append(facts)
        return dict(found)

    def _walk(self, facts: Facts) -> Reach:
        # A file that is not among them (of the same name as a file that is) still requires what it requires.
        seen, unseen = {facts.project}, {False: dict[str, None](), True: dict[str, None]()}
        waiting, blind = [facts], set[str]()
        while waiting:
            one = waiting.pop()
            if one.unreadable is not None or one.bomb is not None or one.headers.name is None:
                blind.add(one.name)
            for name, optional in filter(None, map(_required, one.headers.requires)):
                if name not in self.by_project and name != facts.project:
                    unseen[optional][name] = None
                for there in self._brought(name):
                    if there not in seen:
                        seen.add(there)
                        waiting += self.by_project[there]
        names = tuple(dict.fromkeys((*unseen[False], *unseen[True])))
        return Reach(frozenset(seen), names, tuple(sorted(blind)))

    def _brought(self, name: str) -> list[str]:
        """The projects at hand that a requirement brings, the `rocm` sdist unsaid when it is installed."""
        if name not in self._brings:
            through = [each for each in self.providers if fits(name, each.through)]
            unsaid = (
                project for each in through for project in self.by_project if fits(project, each.packages)
            )
            self._brings[name] = [there for there in (name, *unsaid) if there in self.by_project]
        return self._brings[name]


# Every file that leads to another asks again what that one requires.
@lru_cache(maxsize=MOST_KEPT)
def _required(text: str) -> tuple[str, bool] | None:
    """The canonical name in a Requires-Dist, and whether only an extra asks for it; None for a bad line."""
    requirement = read_requirement(text)
    if not isinstance(requirement, Requirement):  # a rule of its own says so
        return None
    return str(canonicalize_name(requirement.name)), "extra" in str(requirement.marker or "")
