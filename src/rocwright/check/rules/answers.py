"""Rules about requirements that nobody can answer, that only a stranger answers, or that never hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from rocwright.check.context import Context, Problem, Rule, SetRule, parsed_requirements, required_name
from rocwright.check.environments import PythonPlatform, environments_of, named_extras
from rocwright.check.facts import Facts
from rocwright.check.install_plan import version_for
from rocwright.check.rules.requires import ELSEWHERE, cut
from rocwright.model.patterns import fits

_BOTH = ("wheel", "sdist")
# A real package asks some dozens of things of another one; what does more is not weighed.
_MOST = 100
_MISSED = {"torch-requires-rocm": "rocm", "torch-pin": "torch"}


def _address(facts: Facts, _: Context) -> Iterator[Problem]:
    for requirement in parsed_requirements(facts):
        if requirement.url is not None and ELSEWHERE.match(requirement.url):
            yield Problem(
                f"Requires-Dist {cut(str(requirement))} takes whatever lies at an address: indexes refuse "
                "it, and what is installed is not what was checked",
                "require it by name and version, and put it on the index",
            )


def _stranger(facts: Facts, context: Context) -> Iterator[Problem]:
    """What another vendor's build of the family needs, in a wheel for ROCm."""
    if not _for_rocm(facts, context):
        return
    contract = context.contract
    for requirement in parsed_requirements(facts):
        local = next(
            (one.version.partition("+")[2] for one in requirement.specifier if "+" in one.version), ""
        )
        if fits(required_name(requirement), contract.strangers):
            what = "which is for another vendor's GPUs"
        elif local and fits(local.lower(), contract.strange_builds):
            what = f"a build ({local}) that is not for ROCm"
        else:
            continue
        yield Problem(
            f"it is for ROCm and requires {requirement}, {what}",
            "look for a requirement that the build took over from the project's default",
        )


def _for_rocm(facts: Facts, context: Context) -> bool:
    """Whether the wheel says itself that it is for ROCm: its version, its name, or what it requires."""
    return (
        "rocm" in facts.version.partition("+")[2]
        or context.contract.is_own(facts.project)
        or any(context.contract.is_own(required_name(one)) for one in parsed_requirements(facts))
    )


def _contradiction(facts: Facts, _: Context) -> Iterator[Problem]:
    told = set()
    for extra, wanted in _wanted(facts):
        for name, lines in wanted.items():
            what = None
            if name == facts.project:
                bad = [one for one in lines if not one.specifier.contains(facts.version, prereleases=True)]
                if bad:
                    what = f"it requires {bad[0]} and is {facts.project} {facts.version} itself"
            elif (clash := _clash(lines)) is not None:
                what = f"no version of {name} satisfies {clash}"
            if what is not None and what not in told:
                told.add(what)
                yield Problem(
                    what + (f", which its extra {extra} brings" if extra else ""),
                    "correct the line that is wrong, and build again: pip and uv install nothing",
                )


def _wanted(facts: Facts) -> Iterator[tuple[str, Mapping[str, list[Requirement]]]]:
    """What holds together somewhere, by project: without an extra, and with each one besides."""
    requirements = [one for one in parsed_requirements(facts) if one.specifier]
    extras = {named for one in requirements for named in named_extras(one)}
    for environment in environments_of((facts,)):
        base = _grouped(one for one in requirements if environment.applies(one))
        yield "", base
        for extra in sorted(extras)[:_MOST]:
            more = _grouped(one for one in requirements if extra in named_extras(one))
            held = {
                name: [one for one in lines if environment.applies(one, extra)]
                for name, lines in more.items()
            }
            yield (
                extra,
                {name: [*lines, *base.get(name, ())] for name, lines in held.items() if lines},
            )


def _grouped(requirements: Iterable[Requirement]) -> Mapping[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = defaultdict(list)
    for requirement in requirements:
        found[required_name(requirement)].append(requirement)
    return found


def _clash(lines: list[Requirement]) -> str | None:
    """The fewest of some lines that no version satisfies: one, two or all; None where one does."""
    different = list({str(one.specifier): one for one in lines}.values())
    if len(different) > _MOST or version_for(_joined(different)) is not None:
        return None
    few = [[one] for one in different]
    few += [[one, other] for at, one in enumerate(different) for other in different[at + 1 :]]
    worst = next((some for some in few if version_for(_joined(some)) is None), different)
    return " and ".join(dict.fromkeys(str(one.specifier) for one in worst))


def _joined(lines: Iterable[Requirement]) -> SpecifierSet:
    joined = SpecifierSet()
    for one in lines:
        joined &= one.specifier
    return joined


def _vain(facts: Facts, context: Context) -> Iterator[Problem]:
    """A marker around a pin of the family that never holds where the wheel is installed."""
    terms = context.terms(facts.project)
    # What these rules ask for they miss where it does not hold.
    told = {name for rule, name in _MISSED.items() if rule in terms.rules} | {terms.host}
    extras = sorted({str(canonicalize_name(extra)) for extra in facts.headers.extras})[:_MOST]
    environments = environments_of((facts,))
    reachable = [*environments, *_on_linux(environments)]
    held: dict[str, list[bool]] = defaultdict(list)
    lines: dict[str, Requirement] = {}
    for requirement in parsed_requirements(facts):
        name = required_name(requirement)
        if name not in told and fits(name, (*terms.pinned, "torch")):
            lines.setdefault(name, requirement)
            # For an extra that is not offered another rule says so.
            asked = ("", *extras, *map(str, named_extras(requirement)))
            held[name].append(any(one.applies(requirement, extra) for one in reachable for extra in asked))
    for name, any_held in held.items():
        if not any(any_held):
            yield Problem(
                f"{lines[name]} holds on no Python and platform of the wheel, so {name} is not required",
                "correct the marker, or remove it",
            )


def _on_linux(environments: Iterable[PythonPlatform]) -> list[PythonPlatform]:
    """One METADATA often serves the wheels of all platforms: what holds on Linux may stand in any of them."""
    return [PythonPlatform(one.python, one.abi, "linux_x86_64") for one in environments]


RULES = (
    Rule(
        "requirement-address",
        "No Requires-Dist takes what lies at an address (`name @ https://…`).",
        _address,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule(
        "requirement-stranger",
        "A wheel for ROCm requires nothing of another vendor, and no build for another.",
        _stranger,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule(
        "requirement-contradiction",
        "Some version of each required project satisfies all that the wheel asks of it.",
        _contradiction,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule(
        "requirement-vain",
        "A requirement on the family holds somewhere that the wheel is for.",
        _vain,
        by_metadata=True,
    ),
)


# -- the set


def _set_contradiction(context: Context) -> Iterator[tuple[str, Problem]]:
    told = set()
    for environment in context.environments:
        wanted: dict[str, list[tuple[Facts, Requirement]]] = defaultdict(list)
        for facts in (one for one in context.files if environment.takes(one)):
            for one in parsed_requirements(facts):
                # What the set has is compared with what it has; what one file asks is another rule's.
                if (
                    one.specifier
                    and required_name(one) not in context.by_project
                    and environment.applies(one)
                ):
                    wanted[required_name(one)].append((facts, one))
        for name, lines in wanted.items():
            if _clash([one for _, one in lines]) is None or name in told:
                continue
            pair = _strangers(lines)
            if pair is not None:
                told.add(name)
                (_, first), (other, second) = pair
                yield (
                    other.name,
                    Problem(
                        f"it requires {second}, and {pair[0][0].name} requires {first}: no version of {name} "
                        "satisfies both",
                        "let both ask for what one version is; pip and uv cannot install them together",
                    ),
                )


def _strangers(
    lines: list[tuple[Facts, Requirement]],
) -> tuple[tuple[Facts, Requirement], tuple[Facts, Requirement]] | None:
    """Two lines of two projects that exclude each other, each of which can be satisfied."""
    for at, (facts, one) in enumerate(lines):
        for other, second in lines[at + 1 :]:
            if (
                other.project != facts.project
                and version_for(one.specifier & second.specifier) is None
                and version_for(one.specifier) is not None
                and version_for(second.specifier) is not None
            ):
                return (facts, one), (other, second)
    return None


SET_RULES = (
    SetRule(
        "set-contradiction",
        "What the packages of the set require of others can be there together.",
        _set_contradiction,
        open_severity="warning",
        by_metadata=True,
    ),
)
