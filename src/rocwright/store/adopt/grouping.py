"""Which files of an index are a set: one version of each project, so that all exact pins fit; pure.

A set grows from one version of its root, mostly torch. What its files require by exact version belongs to it,
so does every other project that has a version with the same label (`rocwright.store.adopt.offered`), if that
version's pins fit. Where they do not, or a required version is not there, the set is mixed, and what does not
fit is named: the file, its requirement, the file that would have been needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.model.variants import split_label
from rocwright.store.adopt.offered import (
    Catalogue,
    Node,
    Offered,
    applies,
    device_of,
    exact_pin,
    label_of,
    label_order,
    plain,
)

# Of a project whose versions carry no label so many are looked at, the newest first.
_LOOKED_AT = 8


class Needs(msgspec.Struct, frozen=True):
    """What a version of a project requires, by its METADATA; `unreadable` says why that is not known."""

    requires: tuple[Requirement, ...] = ()
    extras: tuple[str, ...] = ()
    unreadable: str | None = None


def together(needs: Iterable[Needs]) -> Needs:
    """What several files of a version require, each requirement and extra once."""
    found = list(needs)
    return Needs(
        tuple({str(line): line for one in found for line in one.requires}.values()),
        tuple(dict.fromkeys(extra for one in found for extra in one.extras)),
        next((one.unreadable for one in found if one.unreadable is not None), None),
    )


class Misfit(msgspec.Struct, frozen=True):
    """Why a set is mixed: `file` requires something (or cannot be read), `needed` would have been right."""

    file: str
    what: str
    needed: str = ""

    def __str__(self) -> str:
        return f"{self.file} {self.what}" + (f"; needed: {self.needed}" if self.needed else "")


class OfferedSet(msgspec.Struct, frozen=True):
    """A set on an index; `versions` by project, `misfits` say why it is mixed, none for a whole set."""

    root: Node
    label: str | None
    versions: Mapping[str, str]
    misfits: tuple[Misfit, ...] = ()


class Asking(msgspec.Struct):
    """What must be known before the sets can be: METADATA of versions, and pages of projects."""

    nodes: set[Node] = msgspec.field(default_factory=set)
    pages: set[str] = msgspec.field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.pages)


def roots(catalogue: Catalogue, project: str) -> tuple[Node, ...]:
    """The versions of a project that sets can grow from, the newest build first, then the highest version."""
    versions = catalogue.versions(project)
    order = sorted(versions, key=lambda one: (label_order(label_of(project, one)), Version(one)))
    return tuple((project, version) for version in reversed(order))


def grow(
    root: Node,
    catalogue: Catalogue,
    needs: Mapping[Node, Needs],
    *,
    environments: Collection[Mapping[str, str]],
    companions: Collection[str] = (),
) -> tuple[OfferedSet, Asking]:
    """The set that grows from a root as far as it is known, and what must be known to go on.

    `environments` are values of markers, of which one must hold; `companions` are projects that may pin the
    root although their versions carry no label. Ask again with what was asked for until nothing is.
    """
    growth = _Growth(root, catalogue, needs, tuple(environments), frozenset(companions), Asking())
    growth.take(*root)
    growth.close()
    if growth.asking:
        # What is asked of further projects depends on the members so far.
        return OfferedSet(root, growth.label, dict(growth.chosen)), growth.asking
    if growth.label is not None:
        for project in sorted(catalogue.files):
            growth.by_label(project)
    for project in sorted(companions):
        growth.by_pin(project)
    misfits = (*growth.misfits, *growth.without_device())
    found = OfferedSet(root, growth.label, dict(sorted(growth.chosen.items())), tuple(dict.fromkeys(misfits)))
    return found, growth.asking


class _Growth(msgspec.Struct):
    """A set while it grows."""

    root: Node
    catalogue: Catalogue
    needs: Mapping[Node, Needs]
    environments: tuple[Mapping[str, str], ...]
    companions: frozenset[str]
    asking: Asking
    chosen: dict[str, str] = msgspec.field(default_factory=dict)
    misfits: list[Misfit] = msgspec.field(default_factory=list)
    queue: list[Node] = msgspec.field(default_factory=list)

    @property
    def label(self) -> str | None:
        return label_of(*self.root)

    def take(self, project: str, version: str) -> None:
        """Make a version a member; what it requires is looked at later."""
        self.chosen[project] = version
        self.queue.append((project, version))

    def close(self) -> None:
        """Follow what the members require."""
        while self.queue:
            node = self.queue.pop(0)
            known = self.known(node)
            if known is None:
                continue
            if known.unreadable is not None:
                self.misfits.append(Misfit(self.file(node), f"cannot be read: {known.unreadable}"))
            for requirement in self.applying(known):
                self.follow(node, requirement)

    def follow(self, node: Node, requirement: Requirement) -> None:
        """Make what a member requires a member, or say why it cannot be."""
        name = str(canonicalize_name(requirement.name))
        exact = exact_pin(requirement)
        offered = self.catalogue.versions(name)
        # Of packages built together, a compatible release is a pin as well; of others (numpy) it is none.
        together = name in self.companions or any(label_of(name, one) is not None for one in offered)
        close = together and any(one.operator == "~=" for one in requirement.specifier)
        if self.catalogue.may_have(name):
            # Pages that are read one by one are read only where something is pinned.
            if exact is not None or close:
                self.asking.pages.add(name)
            return
        fitting = [one for one in offered if requirement.specifier.contains(one, prereleases=True)]
        if name in self.chosen:
            if self.chosen[name] not in fitting:
                self.misfits.append(self.pinned_elsewhere(node, requirement))
            return
        same = [one for one in fitting if self.label and label_of(name, one) == self.label]
        if exact is None and (same or not close):
            if same:
                self.take(name, max(same, key=Version))
        elif fitting:
            best = max(fitting, key=self.preference(name))
            if label_of(name, best) not in (None, self.label) and self.label is not None:
                what = f"requires {plain(requirement)}, which is from another build than {self.label}"
                self.misfits.append(Misfit(self.file(node), what, self.needed(name, None)))
            self.take(name, best)
        elif offered or exact is None or "+" in exact or label_of(name, exact) is not None:
            has = f"the index has {', '.join(_newest(offered))}" if offered else "the index has none at all"
            what = f"requires {plain(requirement)}, {has}"
            self.misfits.append(Misfit(self.file(node), what, self.needed(name, exact)))

    def by_label(self, project: str) -> None:
        """Make the version with the set's label a member, if its pins fit."""
        if project in self.chosen:
            return
        offered = self.catalogue.versions(project)
        same = [one for one in offered if label_of(project, one) == self.label]
        broken: list[Misfit] = []
        for version in sorted(same, key=Version, reverse=True):
            known = self.known((project, version))
            # What nobody requires and nobody can read is left out.
            if known is None or known.unreadable is not None:
                continue
            wrong = [item for item in self.applying(known) if not self.fits(item)]
            if not wrong:
                self.take(project, version)
                self.close()
                return
            # Several versions of torch are built on one day, each with extensions of its own.
            if not all(map(self.of_sibling, wrong)):
                broken += [self.pinned_elsewhere((project, version), item) for item in wrong]
        self.misfits += broken

    def by_pin(self, project: str) -> None:
        """Make a version a member that pins the root, where no label says which."""
        if project in self.chosen or self.catalogue.may_have(project):
            if project not in self.chosen:
                self.asking.pages.add(project)
            return
        offered = self.catalogue.versions(project)
        plain_ones = [one for one in offered if label_of(project, one) is None]
        near = sorted(plain_ones, key=self.preference(project), reverse=True)
        for version in near[:_LOOKED_AT]:
            known = self.known((project, version))
            if known is None:
                return
            if known.unreadable is not None:
                continue
            pins = [item for item in self.applying(known) if canonicalize_name(item.name) == self.root[0]]
            if any(exact_pin(item) for item in pins) and all(map(self.fits, self.applying(known))):
                self.take(project, version)
                self.close()
                return

    def known(self, node: Node) -> Needs | None:
        """What a version requires; asked for where that is not known yet."""
        if node not in self.needs:
            self.asking.nodes.add(node)
        return self.needs.get(node)

    def applying(self, needs: Needs) -> Iterator[Requirement]:
        """Requirements that hold in one of the environments, with some extra or without."""
        for requirement in needs.requires:
            if applies(requirement, self.environments, needs.extras):
                yield requirement

    def fits(self, requirement: Requirement) -> bool:
        """Whether an exact pin is met by the set as it is; what is no pin, or of no member, does."""
        held = self.chosen.get(str(canonicalize_name(requirement.name)))
        if held is None or exact_pin(requirement) is None:
            return True
        return requirement.specifier.contains(held, prereleases=True)

    def of_sibling(self, requirement: Requirement) -> bool:
        """Whether another version of the same build answers a pin."""
        name = str(canonicalize_name(requirement.name))
        return any(
            label_of(name, one) == self.label and requirement.specifier.contains(one, prereleases=True)
            for one in self.catalogue.versions(name)
        )

    def pinned_elsewhere(self, node: Node, requirement: Requirement) -> Misfit:
        name = str(canonicalize_name(requirement.name))
        what = f"requires {plain(requirement)}, the set has {name} {self.chosen[name]}"
        return Misfit(self.file(node), what, f"a {node[0]} that requires {name}=={self.chosen[name]}")

    def without_device(self) -> Iterator[Misfit]:
        """GPU targets that torch has device code for, and ROCm's libraries have not."""
        targets: dict[bool, set[str]] = {True: set(), False: set()}
        stems: dict[str, Node] = {}
        for project, version in self.chosen.items():
            stem, target = device_of(project)
            if target:
                targets[stem.startswith("rocm-")].add(target)
                stems.setdefault(stem, (project, version))
        for target in sorted(targets[False] - targets[True]) if targets[True] else ():
            stem = next(one for one in sorted(stems) if one.startswith("rocm-"))
            holder = next(node for one, node in sorted(stems.items()) if not one.startswith("rocm-"))
            what = f"has a device package for {target} in its set, ROCm's libraries have none"
            yield Misfit(self.file(holder), what, self.needed(f"{stem}{target}", stems[stem][1]))

    def preference(self, project: str) -> _Preference:
        return _Preference(project, self.root, self.label)

    def file(self, node: Node) -> str:
        """The name of one file of a version."""
        files = self.catalogue.versions(node[0]).get(node[1], ())
        return min(one.name for one in files) if files else f"{node[0]} {node[1]}"

    def needed(self, project: str, version: str | None) -> str:
        """The file name that a version of a project would have; with the set's label where none is given."""
        stem = project.replace("-", "_")
        others = [one for files in self.catalogue.versions(project).values() for one in files]
        if version is None:
            return f"a {project} of the build {self.label}"
        ends = sorted({_ending(one) for one in others}) or ["*.whl"]
        return f"{stem}-{version}{'-' if ends[0].endswith('.whl') else ''}{ends[0]}"


class _Preference(msgspec.Struct, frozen=True):
    """Sorts versions that all fit a pin: those of the same build, of the same variant, newer ones."""

    project: str
    root: Node
    label: str | None

    def __call__(self, version: str) -> tuple[bool, bool, Version]:
        parsed = Version(version)
        same = self.label is not None and label_of(self.project, version) == self.label
        return same, parsed.local == Version(self.root[1]).local, parsed


def _newest(versions: Collection[str]) -> list[str]:
    return sorted(versions, key=Version, reverse=True)[:3]


def _ending(one: Offered) -> str:
    return "-".join(split_label(one.name)[0].rsplit("-", 3)[1:]) if one.is_wheel else ".tar.gz"
