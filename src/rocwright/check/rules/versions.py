"""Rules about versions that modules say of themselves: they are the wheel's, and those of its ROCm."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts
from rocwright.wheel.read import place_of

_PLACES = ("__init__.py", "version.py", "_version.py")
_ROCM = re.compile(r"rocm(?P<version>[0-9]+(?:\.[0-9]+)+)")


def other_version(said: str, version: str) -> bool:
    """Whether a module's version is not the wheel's; of local parts one that either lacks is not compared."""
    try:
        ours, theirs = Version(version), Version(said)
    except ValueError:  # also for numbers of thousands of digits
        return False
    return ours.public != theirs.public or (
        None not in (ours.local, theirs.local) and ours.local != theirs.local
    )


def _modules(facts: Facts, _: Context) -> Iterator[Problem]:
    if facts.project == "torch":
        return  # `torch-hip` reads its version.py
    for one in facts.python:
        package, name = place_of(one.member).partition("/")[::2]
        if one.version is None or name not in _PLACES or package.lower() != facts.project.replace("-", "_"):
            continue
        if other_version(one.version, facts.version):
            yield Problem(
                f"it says {one.version}, the wheel is {facts.version}",
                "build it again with that version; what changes a wheel's version must change this, too",
                one.member,
            )


def other_rocm(hip: str, rocm: str | None, facts: Facts, pin: str | None) -> str | None:
    """Why `hip` and `rocm` of torch/version.py are not those of the ROCm that the wheel requires or names.

    HIP and ROCm may differ in their minor versions (ROCm 7.9 has HIP 7.1), so of HIP only the major one is
    compared; `rocm` is ROCm's own.
    """
    local = _ROCM.search(facts.version.partition("+")[2])
    wanted = pin or (local["version"] if local is not None else None)
    if wanted is None:
        return None
    source = f"the wheel requires rocm {wanted}" if pin else f"the wheel is for ROCm {wanted}"
    for name, said, parts in (("rocm", rocm, 2), ("hip", hip, 1)):
        if said and _release(said)[:parts] != _release(wanted)[: len(_release(said)[:parts])]:
            return f"it says {name} = {said!r}, so this torch was built for another ROCm: {source}"
    return None


def _release(text: str) -> tuple[str, ...]:
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    # Compared as text: Python reads no number of thousands of digits.
    return tuple(part.lstrip("0") for part in match[0].split(".")) if match is not None else ()


RULES = (Rule("module-version", "__version__ in the package is the wheel's version.", _modules),)
