"""Where a library that another needs comes from: the wheel, its requirements, the system, or nowhere.

And the rules about it for Linux libraries: something brings what they need, and the claimed system has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from rocwright.check.context import Context, Problem, Rule, parsed_requirements
from rocwright.check.facts import ElfFacts, Facts
from rocwright.check.rules.elf import linux_tags, native
from rocwright.model.patterns import fits
from rocwright.model.platforms import Policy, Provider, numbers
from rocwright.wheel.metadata import exact_version

_SHOWN = 3


class Missing(msgspec.Struct, frozen=True):
    """Nothing here holds the library; `sure` when no package that is not looked at can bring it."""

    sure: bool
    why: str


def missing(library: str, facts: Facts, context: Context, *, windows: bool = False) -> Missing | None:
    """What is known of a library that a file needs and that is not there; None when something brings it.

    What brings it: the wheel itself, a package that it requires (over any number of steps, extras included),
    the system, the place it is installed in as the contract knows it, or a package that its requirements lead
    to and that is known to hold a library of this name, even when that package is not among the files.
    """
    libraries = context.libraries
    if context.platforms.on_every(library, windows=windows) or libraries.provides(
        facts, library, windows=windows
    ):
        return None
    if fits(library.lower() if windows else library, context.terms(facts.project).provided):
        return None
    if context.terms(facts.project).host in libraries.holders(library, windows=windows):
        return None  # whatever requires this wheel brings its host, too
    reach = libraries.reach(facts)
    if reach.blind:
        return None  # what a file that cannot be read has or requires is not known; it has a finding itself
    provider = _provider(library, context, windows=windows)
    should = [] if provider is None else [name for name in reach.projects if fits(name, provider.packages)]
    if provider is not None and not should:
        brought = (*provider.packages, *provider.through)
        whole = reach.projects & context.independent
        if any(fits(name, brought) for name in {*reach.projects, *reach.unseen}.difference(whole)):
            return None
        if whole and provider.rocm is not None:
            return Missing(True, f"{' and '.join(sorted(whole))} has ROCm inside, but not this library")
    if facts.project not in should and _is_choice(library, facts, windows=windows):
        return Missing(False, "it has builds for several versions of these and loads one that fits")
    if should:
        return Missing(True, f"{' and '.join(sorted(should))} should have it, but does not")
    return _elsewhere(library, facts, context, provider, windows=windows)


def _elsewhere(
    library: str, facts: Facts, context: Context, provider: Provider | None, *, windows: bool
) -> Missing:
    """What may bring a library to which no requirement leads, as far as the files at hand say."""
    nothing = Missing(True, "it is not in this wheel, in what it requires, or on the system")
    holders = sorted(set(context.libraries.holders(library, windows=windows)) - {facts.project})
    if holders:
        why = f"{holders[0]} has it, but no requirement of this wheel leads there"
        return Missing(context.request.closed, why)
    platform = context.platforms.windows if windows else context.platforms.linux
    if re.fullmatch(platform.bundled, library):
        return nothing
    if context.request.closed and "family-pin" in context.terms(facts.project).rules:
        # What the family is built from is in its set; packages from elsewhere bring it none of its libraries.
        return Missing(True, "it is not in this wheel, in what it requires of the set, or on the system")
    if provider is not None:
        return Missing(False, f"{provider.name} would bring it, but no requirement leads there")
    unseen = context.libraries.reach(facts).unseen
    if not unseen:
        return nothing
    more = f" or {len(unseen) - _SHOWN} others" if len(unseen) > _SHOWN else ""
    names = " or ".join(unseen[:_SHOWN])
    return Missing(False, f"perhaps {names}{more} would bring it: required, but not among these files")


def unmet(
    needs: Iterable[tuple[str, tuple[str, ...]]], facts: Facts, context: Context, *, windows: bool = False
) -> tuple[list[tuple[str, str, Missing]], dict[str, list[tuple[str, str]]]]:
    """What is missing for sure, as (member, library, why), and what perhaps, as (member, library) by why.

    `needs` are members with the names of what they need.
    """
    sure: list[tuple[str, str, Missing]] = []
    perhaps: dict[str, list[tuple[str, str]]] = {}
    for member, names in needs:
        for name in names:
            found = missing(name, facts, context, windows=windows)
            if found is not None and found.sure:
                sure.append((member, name, found))
            elif found is not None:
                perhaps.setdefault(found.why, []).append((member, name))
    return sure, perhaps


def unmet_problems(
    needs: Iterable[tuple[str, tuple[str, ...]]], facts: Facts, context: Context, *, windows: bool = False
) -> Iterator[Problem]:
    """A problem for each library that is missing for sure."""
    for member, name, found in unmet(needs, facts, context, windows=windows)[0]:
        yield Problem(
            f"it needs {name}: {found.why}",
            "put the library into the wheel, or require the package that brings it",
            member,
        )


def unseen_problems(
    needs: Iterable[tuple[str, tuple[str, ...]]], facts: Facts, context: Context, *, windows: bool = False
) -> Iterator[Problem]:
    """Problems for what something unseen may bring; libraries missing for one reason share a problem."""
    for why, pairs in unmet(needs, facts, context, windows=windows)[1].items():
        names = sorted({name for _, name in pairs})
        for member in dict.fromkeys(member for member, _ in pairs):
            yield Problem(
                f"{_these(names)}: {why}",
                "check it together with the packages that it is installed with: --set",
                member,
            )


def _these(names: list[str]) -> str:
    return f"what it needs is not all here ({', '.join(names)})"


def _provider(library: str, context: Context, *, windows: bool) -> Provider | None:
    """The row of packages that are known to hold a library of this name."""
    named = context.rocm_libraries.short_name(library, "windows" if windows else "linux")
    for provider in context.platforms.provider:
        patterns = provider.dlls if windows else provider.libraries
        if named is not None and provider.rocm == named[1]:
            return provider
        if fits(library.lower() if windows else library, patterns):
            return provider
    return None


def _is_choice(library: str, facts: Facts, *, windows: bool) -> bool:
    """Whether the wheel needs a library in several versions: then it has builds of which it loads one.

    Not where it pins a package that it requires: such a wheel is for one version of everything, and two of
    one library are a mixture of builds.
    """
    if any(pin.marker is None and exact_version(pin) for pin in parsed_requirements(facts)):
        return False
    needed = (
        (name for pe in facts.pe for name in (*pe.imports, *pe.delay_imports))
        if windows
        else (name for elf in facts.elf for name in elf.needed)
    )
    base = _base(library)
    return len({name.lower() for name in needed if _base(name) == base}) > 1


@lru_cache(maxsize=4096)
def _base(library: str) -> str:
    """The name without a version: `libhipblas` of `libhipblas.so.2`, `amdhip64` of `amdhip64_7.dll`."""
    if ".so" in library:
        return library.partition(".so")[0]
    return re.sub(r"[-_.]?[0-9][0-9_.]*$", "", library.lower().removesuffix(".dll"))


def _needed(facts: Facts, context: Context) -> Iterator[Problem]:
    yield from unmet_problems(_needs(facts, context), facts, context)


def _unseen(facts: Facts, context: Context) -> Iterator[Problem]:
    yield from unseen_problems(_needs(facts, context), facts, context)


def _needs(facts: Facts, context: Context) -> list[tuple[str, tuple[str, ...]]]:
    return [(elf.member, elf.needed) for elf in native(facts, context)]


def _manylinux(facts: Facts, context: Context) -> Iterator[Problem]:
    policies = [policy for tag in linux_tags(facts) if (policy := context.platforms.policy(tag))]
    if not policies:
        return
    # Of several tags each is a promise; who keeps the oldest keeps them all.
    policy = min(policies, key=lambda one: one.newest["GLIBC"])
    broken = list(_beyond(policy, facts, context))
    if not broken:
        return
    newer = context.platforms.policies(policy.machine)
    fitting = next((one.tag for one in newer if not any(_beyond(one, facts, context))), None)
    tag = f"or tag it {fitting}, the oldest that fits" if fitting else "no manylinux tag fits it as it is"
    for member, cause, step in broken:
        yield Problem(cause, f"{step}, {tag}", member)


def _beyond(policy: Policy, facts: Facts, context: Context) -> Iterator[tuple[str, str, str]]:
    """What the wheel needs and the policy does not promise: where, what, and what helps but another tag."""
    for elf in native(facts, context):
        for cause in _too_new(elf, facts, policy, context):
            yield elf.member, cause, "build it on an older system"
        for name in elf.needed:
            if _only_elsewhere(name, policy, context) and not context.libraries.provides(facts, name):
                cause = f"it needs {name}, which {policy.tag} does not allow"
                yield elf.member, cause, "put the library into the wheel (auditwheel repair)"


def _only_elsewhere(library: str, policy: Policy, context: Context) -> bool:
    """Whether a system library is none of this policy's; the loader, the driver and Python are everywhere."""
    linux = context.platforms.linux
    allowed = (*policy.libraries, *linux.drivers, *linux.interpreter, "ld-linux*.so.*", "ld64.so.*")
    return context.platforms.on_every(library) and not fits(library, allowed)


def _too_new(elf: ElfFacts, facts: Facts, policy: Policy, context: Context) -> Iterator[str]:
    newest: dict[str, str] = {}
    for library, versions in elf.versions.items():
        # The wheel's own copy of a library has what it has.
        if context.libraries.provides(facts, library):
            continue
        for version in versions:
            if not policy.admits(version):
                prefix = version.partition("_")[0]
                newest[prefix] = max(newest.get(prefix, version), version, key=_order)
    for prefix, version in sorted(newest.items()):
        limit = ".".join(map(str, policy.newest[prefix]))
        yield f"it needs {version}; {policy.tag} ends at {prefix}_{limit}"


def _order(version: str) -> tuple[int, ...]:
    """Numbers as versions compare; a name without a number, `GLIBC_PRIVATE`, first."""
    text = version.partition("_")[2]
    return numbers(text) if text.replace(".", "").isdigit() else ()


RULES = (
    Rule(
        "elf-needed",
        "Each library that another needs is in the wheel, in one that it requires, or the system's.",
        _needed,
    ),
    Rule(
        "elf-needed-unseen",
        "No library has to come from a package that is not among the checked files.",
        _unseen,
        severity="warning",
    ),
    Rule(
        "elf-manylinux",
        "A wheel needs no symbol version and no system library that its manylinux tag does not promise.",
        _manylinux,
    ),
)
