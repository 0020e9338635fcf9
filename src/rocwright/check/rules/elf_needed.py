"""Rules about what Linux libraries need: that something brings it, and that the claimed system has it."""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.check.context import Context
from rocwright.check.facts import ElfFacts, Facts
from rocwright.check.needs import unmet_problems, unseen_problems
from rocwright.check.rules.base import Problem, Rule
from rocwright.check.rules.elf import linux_tags, native
from rocwright.model.patterns import fits
from rocwright.model.platforms import Policy, numbers


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
    for elf in native(facts, context):
        yield from _too_new(elf, facts, policy, context)
        for name in elf.needed:
            if _only_elsewhere(name, policy, context) and not context.libraries.provides(facts, name):
                yield Problem(
                    f"it needs {name}, which {policy.tag} does not allow",
                    "put the library into the wheel (auditwheel repair), or claim less",
                    elf.member,
                )


def _only_elsewhere(library: str, policy: Policy, context: Context) -> bool:
    """Whether a system library is none of this policy's; the loader, the driver and Python are everywhere."""
    linux = context.platforms.linux
    allowed = (*policy.libraries, *linux.drivers, *linux.interpreter, "ld-linux*.so.*", "ld64.so.*")
    return context.platforms.on_every(library) and not fits(library, allowed)


def _too_new(elf: ElfFacts, facts: Facts, policy: Policy, context: Context) -> Iterator[Problem]:
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
        yield Problem(
            f"it needs {version}; {policy.tag} ends at {prefix}_{limit}",
            "build it on an older system, or give the wheel the tag of a newer manylinux",
            elf.member,
        )


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
        "No library is needed that only a package could bring which is not looked at.",
        _unseen,
        severity="warning",
    ),
    Rule(
        "elf-manylinux",
        "A wheel needs no symbol version and no system library that its manylinux tag does not promise.",
        _manylinux,
    ),
)
