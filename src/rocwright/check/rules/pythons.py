"""Which Pythons a wheel is for: what its tags, its extensions and Requires-Python say must be one thing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem

_INTERPRETER = re.compile(r"cp3([0-9]+)")
_ABI = re.compile(r"cp3[0-9]+t?")
# `_C.cpython-312-x86_64-linux-gnu.so`, `_C.cp312-win_amd64.pyd`; without a Python in its name it fits any.
_EXTENSION = re.compile(
    r"(?P<stem>.+)\.(cpython-(?P<unix>3[0-9]+t?)-[^./]+\.so|cp(?P<windows>3[0-9]+t?)-[^./]+\.pyd)"
)


def foreign_extensions(facts: Facts) -> Iterator[Problem]:
    """Extensions that no Python which the wheel is for looks at."""
    abis = {tag.split("-")[1] for tag in facts.tags}
    if not abis or not all(map(_ABI.fullmatch, abis)):
        return
    found = [match for member in facts.members if (match := _EXTENSION.fullmatch(member.name)) is not None]
    built = [(match["stem"], f"cp{match['unix'] or match['windows']}", match.string) for match in found]
    # Of one that is there for several Pythons each takes its own.
    served = {stem for stem, abi, _ in built if abi in abis}
    for stem, abi, member in built:
        if stem not in served:
            yield Problem(
                f"it is an extension for {abi}, and the wheel is for {' and '.join(sorted(abis))}",
                "build it again from a clean tree, with the Python that the tag names",
                member,
            )


def serves_none(facts: Facts) -> bool:
    """Whether Requires-Python excludes every Python that the tags name."""
    try:
        wanted = SpecifierSet(facts.headers.requires_python or "")
    except InvalidSpecifier:
        return False
    parts = [tag.split("-") for tag in facts.tags]
    named = [_INTERPRETER.fullmatch(python) for python, *_ in parts]
    if not parts or any(abi in ("abi3", "none") for _, abi, *_ in parts):
        return False  # those are for later ones as well
    # A specifier may ask for a certain bugfix release.
    releases = [f"3.{match[1]}.{patch}" for match in named if match is not None for patch in (0, 99)]
    return bool(releases) and all(named) and not any(wanted.contains(each) for each in releases)
