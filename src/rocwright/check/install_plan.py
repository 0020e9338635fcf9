"""Plan the installation of a set: what is asked for in one line, what stands in for others; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.check.context import Context, parsed_requirements, required_name
from rocwright.check.environments import PythonPlatform
from rocwright.check.facts import Facts


class StandIn(msgspec.Struct, frozen=True):
    """An empty wheel in place of a package from elsewhere: canonical name, version, the extras asked for."""

    project: str
    version: str
    extras: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.project} {self.version}"


class InstallPlan(msgspec.Struct, frozen=True):
    """All that can be installed together in one environment.

    `requirements` are given to the installer as they are: names and extras, as a user gives them; that each
    has one version is the set's business. `files` are what its index holds besides the stand-ins. `expected`
    maps projects to the versions of which one must be there afterwards. `size` is in bytes,
    unpacked. `obstacle` says why it needs no trying: other rules report it. `facts` are of what is installed.
    """

    environment: PythonPlatform
    requirements: tuple[str, ...]
    files: tuple[Path, ...]
    stand_ins: tuple[StandIn, ...]
    expected: Mapping[str, tuple[str, ...]]
    size: int
    obstacle: str | None = None
    facts: tuple[Facts, ...] = ()


def plan_install(context: Context, environment: PythonPlatform) -> InstallPlan:
    """Everything in the set that fits the environment, with every extra, in one go.

    Variants are left out: pip does not know them, and uv only where it is asked to.
    """
    files = [facts for facts in context.files if environment.takes(facts) and not facts.label]
    chosen = [facts for facts in files if not context.terms(facts.project).refuses]
    extras = {facts.project: _extras(context, environment, facts) for facts in chosen}
    needs = list(_needs(environment, chosen, extras))
    return InstallPlan(
        environment=environment,
        requirements=tuple(_line(project, extras[project]) for project in sorted(extras)),
        files=tuple(facts.path for facts in files),
        stand_ins=tuple(_stand_ins(needs, {facts.project for facts in files})),
        expected={
            project: tuple(sorted({facts.version for facts in chosen if facts.project == project}))
            for project in extras
        },
        size=sum(member.size for facts in chosen for member in facts.members),
        obstacle=_obstacle(context, files, needs),
        facts=tuple(chosen),
    )


def _line(project: str, extras: tuple[str, ...]) -> str:
    return f"{project}[{','.join(extras)}]" if extras else project


def _extras(context: Context, environment: PythonPlatform, facts: Facts) -> tuple[str, ...]:
    """Every extra but those that lead to a package which refuses to be installed."""
    refused = {
        extra
        for requirement in parsed_requirements(facts)
        if context.terms(required_name(requirement)).refuses
        for extra in facts.headers.extras
        if environment.applies(requirement, extra)
    }
    told = [extra for extra in facts.headers.extras if extra not in refused]
    if facts.kind == "sdist" and not facts.headers.extras:
        told = list(context.terms(facts.project).extras)
    return tuple(sorted({str(canonicalize_name(extra)) for extra in told}))


def _needs(
    environment: PythonPlatform, files: list[Facts], extras: Mapping[str, tuple[str, ...]]
) -> Iterator[Requirement]:
    for facts in files:
        for requirement in parsed_requirements(facts):
            if any(environment.applies(requirement, extra) for extra in ("", *extras[facts.project])):
                yield requirement


def _obstacle(context: Context, files: list[Facts], needs: list[Requirement]) -> str | None:
    """What makes the installation fail for certain; each of these is a finding of another rule."""
    unreadable = [facts.name for facts in context.files if facts.unreadable or facts.bomb]
    if unreadable:
        return f"{', '.join(unreadable)} cannot be read"
    versions: dict[str, list[str]] = {}
    for facts in files:
        versions.setdefault(facts.project, []).append(facts.version)
    for requirement in needs:
        name = required_name(requirement)
        held = versions.get(name)
        if held is None:
            if context.leads_into_set(requirement) or name in context.by_project:
                return f"{requirement} is not among the files"
            if requirement.url is not None:
                return f"{requirement} is to be fetched from an address"
        elif not any(requirement.specifier.contains(version, prereleases=True) for version in held):
            return f"{requirement} contradicts the set's {name} {', '.join(held)}"
    impossible = [
        name for name, specifier in _outside(needs, set(versions)) if version_for(specifier) is None
    ]
    return f"no version of {', '.join(impossible)} satisfies all that require it" if impossible else None


def _outside(needs: list[Requirement], held: set[str]) -> Iterator[tuple[str, SpecifierSet]]:
    """What packages from elsewhere must satisfy, all requirements together."""
    joined: dict[str, SpecifierSet] = {}
    for requirement in needs:
        name = required_name(requirement)
        if name not in held:
            joined[name] = joined.get(name, SpecifierSet()) & requirement.specifier
    yield from sorted(joined.items())


def _stand_ins(needs: list[Requirement], held: set[str]) -> Iterator[StandIn]:
    for name, specifier in _outside(needs, held):
        version = version_for(specifier)
        if version is not None:
            extras = {
                str(canonicalize_name(extra))
                for item in needs
                if required_name(item) == name
                for extra in item.extras
            }
            yield StandIn(name, version, tuple(sorted(extras)))


def version_for(specifier: SpecifierSet) -> str | None:
    """A version that satisfies the specifiers, the newest of those they are made of or come next; or None."""
    candidates = {Version("1")}
    if any(one.operator == "===" and not _is_version(one.version) for one in specifier):
        return None  # no version that can be compared is spelled so
    for one in specifier:
        named = Version(one.version.removesuffix(".*"))
        *front, last = named.release
        more = ".".join(map(str, [*front, last + 1]))
        less = ".".join(map(str, [*front, last - 1, 9999])) if last else None
        texts = [str(named), more, f"{named.public}.post1", f"{named.base_version}.1", less, "0"]
        texts += [f"{named.public}.dev0", f"{named.public}.post1.dev0"]
        if named.pre is not None:
            texts += [f"{named.base_version}{named.pre[0]}{named.pre[1] + 1}"]
        if named.dev is not None:
            texts += [f"{named.base_version}.dev{named.dev + 1}", f"{named.base_version}a0"]
        if named.post is not None:
            texts += [f"{named.base_version}.post{named.post + 1}", f"{named.public}.dev0"]
        candidates |= {Version(text) for text in texts if text is not None and _is_version(text)}
    good = [version for version in candidates if specifier.contains(version, prereleases=True)]
    final = [version for version in good if not version.is_prerelease]
    return str(max(final or good)) if good else None


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except ValueError:
        return False
    return True
