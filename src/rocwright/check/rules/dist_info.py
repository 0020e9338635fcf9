"""Rules about the other files of a `.dist-info` folder: WHEEL, and what only an installer may write there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts
from rocwright.check.rules.metadata import can_be_judged
from rocwright.wheel.read import place_of

_REBUILD = "build the wheel again; a wheel is never repaired by hand"
# The format that installers know; they refuse another major version.
_FORMAT = "1"
# What installers write of an installation (packaging.python.org, "Recording installed projects").
_OF_INSTALLERS = {
    "direct_url.json": "pip freeze would name that place instead of the version",
    "INSTALLER": "it says who installed it, which is not known yet",
    "REQUESTED": "it says that a user asked for it, which is not known yet",
}


def _wheel_file(facts: Facts, _: Context) -> Iterator[Problem]:
    fields = facts.wheel_fields
    if fields is None or not can_be_judged(facts, "WHEEL"):
        return
    versions, roots = fields.get("wheel-version", ()), fields.get("root-is-purelib", ())
    numbers = [re.fullmatch(r"([0-9]+)\.[0-9]+", text) for text in versions]
    if len(numbers) != 1 or numbers[0] is None:
        said = f"is {', '.join(map(repr, versions))}" if versions else "is missing"
        yield Problem(f"Wheel-Version in WHEEL {said}; it is one number like 1.0", _REBUILD)
    elif numbers[0][1] != _FORMAT:
        yield Problem(f"Wheel-Version {versions[0]} is of a format that no installer knows", _REBUILD)
    if len(roots) != 1 or roots[0].lower() not in ("true", "false"):
        said = f"is {', '.join(map(repr, roots))}" if roots else "is missing"
        yield Problem(f"Root-Is-Purelib in WHEEL {said}; it is true or false", _REBUILD)


def _purelib(facts: Facts, _: Context) -> Iterator[Problem]:
    if not can_be_judged(facts, "WHEEL") or (facts.wheel_fields or {}).get("root-is-purelib") != ("true",):
        return
    if any(elf.member == place_of(elf.member) for elf in facts.elf):
        yield Problem(
            "WHEEL says that the wheel is pure Python, and there are libraries in it: where a system has two "
            "directories for packages, it is apart from those that its libraries lead to",
            "let the build write Root-Is-Purelib: false",
        )


def _leftover(facts: Facts, _: Context) -> Iterator[Problem]:
    if len(facts.dist_infos) != 1:
        return
    for file, why in _OF_INSTALLERS.items():
        name = f"{facts.dist_infos[0]}/{file}"
        if name in facts.names:
            yield Problem(
                f"installers write this file: {why}",
                "make wheels from a build, not from an environment",
                name,
            )


def _top_level(facts: Facts, _: Context) -> Iterator[Problem]:
    name = f"{facts.dist_infos[0]}/top_level.txt" if len(facts.dist_infos) == 1 else ""
    said = [line.strip() for line in facts.texts.get(name, "").splitlines() if line.strip()]
    places = {place_of(member.name).partition("/")[0] for member in facts.members}
    there = places | {place.partition(".")[0] for place in places}
    if said and not any(line.replace(".", "/").partition("/")[0] in there for line in said):
        shown = ", ".join(said[:3])
        yield Problem(
            f"it names {shown}, and none of that is in the wheel",
            "look for what the build left out, and build again",
            name,
        )


RULES = (
    Rule("wheel-file", "WHEEL says which format it has, once, and whether it is pure Python.", _wheel_file),
    Rule("wheel-purelib", "A wheel with libraries does not claim to be pure Python.", _purelib),
    Rule("installer-files", "Nothing is in .dist-info that only an installer writes there.", _leftover),
    Rule("top-level", "Some module that top_level.txt names is in the wheel.", _top_level),
)
