"""Rules about a whole set: versions, ownership, what its files require of each other; that it installs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from packaging.requirements import Requirement
from packaging.version import Version

from rocwright.check.context import Context, Problem, SetRule, parsed_requirements, required_name
from rocwright.check.environments import PythonPlatform, may_meet
from rocwright.check.facts import Facts
from rocwright.check.rules.environment import entry_scripts
from rocwright.wheel.read import place_of

_ONE_STATE = "build the set from one state, so that its packages fit each other"
# Where programs are put, as `place_of` spells it.
_PROGRAMS = "<scripts>/"
# These are about no single file.
SET = "set"


def _one_version(context: Context) -> Iterator[tuple[str, Problem]]:
    for name, times in Counter(facts.name for facts in context.files).items():
        if times > 1:
            yield (
                name,
                Problem(
                    f"{times} files of this name are there, in several directories",
                    "give only the one that is meant; a set has one file of each name",
                ),
            )
    for project, files in sorted(context.by_project.items()):
        versions = {facts.version: facts.name for facts in reversed(files)}
        if len(versions) > 1:
            in_order = sorted(versions, key=Version)
            yield (
                versions[in_order[-1]],
                Problem(
                    f"{project} is there in {len(versions)} versions: {', '.join(in_order)}",
                    "remove the files of the older build; a set holds one version of each package",
                ),
            )


def _ownership(context: Context) -> Iterator[tuple[str, Problem]]:
    """Two packages that own one path: uninstalling one breaks the other."""
    wheels = [facts for facts in context.files if facts.kind == "wheel"]
    paths = {facts.name: {place_of(member.name): member.name for member in facts.members} for facts in wheels}
    scripts = {
        facts.name: {f"{_PROGRAMS}{name}": member for name, member in entry_scripts(facts)}
        for facts in wheels
    }
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for number, facts in enumerate(wheels):
        for place in paths[facts.name].keys() | scripts[facts.name].keys():
            holders[place].append(number)
    shared: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for place, numbers in holders.items():
        # All wheels of a project have most places; they are never installed together.
        if len({wheels[number].project for number in numbers}) > 1:
            for pair in combinations(numbers, 2):
                shared[pair].append(place)
    for pair, places in sorted(shared.items()):
        first, second = (wheels[number] for number in pair)
        if not may_meet(first, second, context.environments):
            continue
        programs = scripts[second.name]
        for place in sorted(places):
            what = f"the program {place.removeprefix(_PROGRAMS)}" if place in programs else "it"
            yield (
                second.name,
                Problem(
                    f"{what} also belongs to {first.name}; uninstalling one deletes the other's file",
                    "give each path to one package",
                    programs.get(place) or paths[second.name][place],
                ),
            )


def _required(context: Context) -> Iterator[tuple[Facts, Requirement, list[PythonPlatform]]]:
    """What holds without any extra: each requirement, and where it holds."""
    for facts in context.files:
        here = [environment for environment in context.environments if environment.takes(facts)]
        for requirement in parsed_requirements(facts):
            where = [environment for environment in here if environment.applies(requirement)]
            if where:
                yield facts, requirement, where


def fitting(context: Context, requirement: Requirement) -> list[Facts]:
    """Files of the set with a version that answers a requirement."""
    # As an installer compares: 2.9 equals 2.9.0, and a pin without a local part admits any.
    return [
        facts
        for facts in context.by_project.get(required_name(requirement), ())
        if requirement.specifier.contains(facts.version, prereleases=True)
    ]


def versions_held(context: Context, requirement: Requirement) -> str:
    """`torch 2.9.0`: what the set holds of a required project."""
    name = required_name(requirement)
    return f"{name} {', '.join(sorted({facts.version for facts in context.by_project.get(name, ())}))}"


def _pins_fit(context: Context) -> Iterator[tuple[str, Problem]]:
    for facts, requirement, _ in _required(context):
        if required_name(requirement) in context.by_project and not fitting(context, requirement):
            held = versions_held(context, requirement)
            yield facts.name, Problem(f"it requires {requirement}, the set holds {held}", _ONE_STATE)


def _closed(context: Context) -> Iterator[tuple[str, Problem]]:
    for facts, requirement, where in _required(context):
        answers = fitting(context, requirement)
        if required_name(requirement) not in context.by_project:
            if context.leads_into_set(requirement):
                yield (
                    facts.name,
                    Problem(
                        f"it requires {requirement}, which is not among these files",
                        "add it to the set"
                        if context.request.closed
                        else "check the whole set together (--set DIR), or make sure that the index holds it",
                    ),
                )
            continue
        lacking = without(answers, where)
        if answers and lacking:
            yield (
                facts.name,
                Problem(
                    f"it requires {requirement}, which has no file for {lacking}",
                    "build it for every Python and platform of the set",
                ),
            )


def without(answers: Iterable[Facts], where: Iterable[PythonPlatform]) -> str:
    """The environments in which none of these files can be installed, as text."""
    files = list(answers)
    return ", ".join(str(each) for each in where if not any(each.takes(facts) for facts in files))


RULES = (
    SetRule(
        "set-one-version",
        "Each package is in the set in one version, and each file once.",
        _one_version,
        by_metadata=True,
    ),
    SetRule("set-ownership", "No installed path belongs to two packages.", _ownership),
    SetRule(
        "set-pins",
        "The set has the versions that its packages require of each other.",
        _pins_fit,
        by_metadata=True,
    ),
    SetRule(
        "set-closed",
        "What only this set can provide is in it, for every Python and platform of the set.",
        _closed,
        open_severity="warning",
        by_metadata=True,
    ),
)


def _installs(context: Context) -> Iterator[tuple[str, Problem]]:
    for done in context.installations:
        for problem in done.problems:
            yield (
                SET,
                Problem(
                    f"{done.installer} for {done.where}: {problem}",
                    done.next_step or "fix what the installer reports, then check again",
                ),
            )


def _candidates(context: Context) -> Iterator[tuple[str, Problem]]:
    for done in context.installations:
        for project, files in sorted(done.asked.items()):
            if len(files) > 1:
                yield (
                    SET,
                    Problem(
                        f"{done.installer} for {done.where} tried {len(files)} files of {project}: "
                        f"{', '.join(sorted(files))}",
                        "keep one file of each project per Python; each further one costs users a download",
                    ),
                )


def _unproved(context: Context) -> Iterator[tuple[str, Problem]]:
    for done in context.installations:
        if done.not_tried is not None:
            yield (
                SET,
                Problem(
                    f"not proved with {done.installer} for {done.where}: {done.not_tried}",
                    done.next_step or "check again where it can be tried",
                ),
            )
        for one in done.imports:
            if one.left:
                yield (
                    one.file,
                    Problem(
                        f"not proved that {one.module} can be imported with {done.where}: {one.left}",
                        "import it where what it needs is there",
                    ),
                )


def _imports(context: Context) -> Iterator[tuple[str, Problem]]:
    # Both installers put the same files there: what is wrong with them is said once.
    found = {
        (one.file, one.member, done.where, one.fault)
        for done in context.installations
        for one in done.imports
        if one.fault
    }
    for file, member, where, fault in sorted(found):
        yield (
            file,
            Problem(f"imported with {where}: {fault}", "build it so that it can be imported", member),
        )


INSTALL_RULES = (
    SetRule(
        "set-install",
        "pip and uv resolve and install the set.",
        _installs,
        by_metadata=True,
        proof=True,
    ),
    SetRule(
        "set-candidates",
        "Installers look at one file of each project.",
        _candidates,
        by_metadata=True,
        proof=True,
    ),
    SetRule(
        "set-import",
        "Where the set is installed, what its packages offer at top level can be imported.",
        _imports,
        proof=True,
    ),
    SetRule(
        "set-unproved",
        "The set was installed with both installers on every Python and platform, and imported.",
        _unproved,
        severity="warning",
        by_metadata=True,
        proof=True,
    ),
)
