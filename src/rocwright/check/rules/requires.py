"""Rules about requirements: well-formed, and exact where packages only work together as they were built."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.check.context import Context, Problem, Rule, parsed_requirements, required_name
from rocwright.check.environments import environments_of, named_extras, read_requirement
from rocwright.check.facts import Facts, Headers
from rocwright.check.rules.metadata import can_be_judged
from rocwright.model.patterns import fits
from rocwright.wheel.metadata import exact_version

_BOTH = ("wheel", "sdist")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_LONG = 200
# Packages with ROCm's libraries.
_ROCM = ("rocm", "rocm-*")
# A place that others can reach: it has a scheme, and not that of files.
ELSEWHERE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+:", re.IGNORECASE)


def _brace(facts: Facts, _: Context) -> Iterator[Problem]:
    for text in facts.headers.requires:
        if "{" in text or "}" in text:
            yield Problem(
                f"Requires-Dist {cut(text)} contains a brace",
                "look for a template or shell variable that was not replaced",
            )


def _malformed(facts: Facts, _: Context) -> Iterator[Problem]:
    for text in facts.headers.requires:
        if "{" in text or "}" in text:
            continue
        requirement = read_requirement(text)
        if isinstance(requirement, str):
            why = f"is malformed: {requirement}"
            yield Problem(f"Requires-Dist {cut(text)} {why}", "write it as PEP 508 says")
        elif requirement.url is not None and not ELSEWHERE.match(requirement.url):
            yield Problem(
                f"Requires-Dist {cut(text)} names a file of one machine, which no other has",
                "require it by name and version, and build the wheel again",
            )


def cut(text: str) -> str:
    """A line as quoted text, short enough to be read."""
    return repr(text if len(text) <= _LONG else f"{text[:_LONG]}…")


def _extra(facts: Facts, _: Context) -> Iterator[Problem]:
    offered = {canonicalize_name(extra) for extra in facts.headers.extras}
    unknown: dict[str, list[str]] = {}
    for requirement in parsed_requirements(facts):
        for name in named_extras(requirement):
            if canonicalize_name(name) not in offered:
                unknown.setdefault(name, []).append(requirement.name)
    for name, required in unknown.items():
        yield Problem(
            f"it requires {', '.join(required)} for the extra {name!r}, which no Provides-Extra offers",
            "add Provides-Extra, or correct the marker",
        )


def rocm_pin(facts: Facts) -> str | None:
    """The version of `rocm` that is required exactly; None without such a pin."""
    pins = [exact_version(item) for item in parsed_requirements(facts) if required_name(item) == "rocm"]
    return next((version for version in pins if version is not None), None)


def _cannot_tell(facts: Facts, name: str) -> bool:
    """Whether what is required of a project is unknown: other rules report what could not be read."""
    if not can_be_judged(facts) or facts.headers == Headers():
        return True
    for text in facts.headers.requires:
        if isinstance(read_requirement(text), str):
            match = _NAME.match(text)
            if match is not None and canonicalize_name(match.group(1)) == name:
                return True
    return False


def _is_rocm_libraries(requirement: Requirement) -> bool:
    extras = {canonicalize_name(extra) for extra in requirement.extras}
    return required_name(requirement) == "rocm" and "libraries" in extras


def _wherever(facts: Facts) -> list[Requirement]:
    """Requirements that hold without any extra somewhere where the wheel can be installed."""
    here = environments_of((facts,))
    return [item for item in parsed_requirements(facts) if any(each.applies(item) for each in here)]


def _requires_rocm(facts: Facts, context: Context) -> Iterator[Problem]:
    if _cannot_tell(facts, "rocm"):
        return
    found = [item for item in _wherever(facts) if _is_rocm_libraries(item)]
    if context.brings_rocm(facts):
        second = [item for item in _wherever(facts) if fits(required_name(item), _ROCM)]
        if second:
            yield Problem(
                f"it brings ROCm's libraries and requires {second[0]}: a process may load two of each",
                "leave the libraries out, or do not require the package",
            )
        return
    if not found:
        yield Problem(
            "it does not require rocm[libraries]==…, so installing it brings no ROCm",
            "set PYTORCH_EXTRA_INSTALL_REQUIREMENTS for the build",
        )
    for requirement in found:
        if exact_version(requirement) is None:
            yield Problem(f"{requirement} is not an exact pin", "pin rocm[libraries] with ==")


def _torch_pin(facts: Facts, _: Context) -> Iterator[Problem]:
    if _cannot_tell(facts, "torch"):
        return
    pins = [item for item in _wherever(facts) if required_name(item) == "torch"]
    exact = [version for version in map(exact_version, pins) if version is not None]
    if exact and "+" in facts.version and not any("+" in version for version in exact):
        yield Problem(
            f"it requires {', '.join(map(str, pins))}, which torch from any other index satisfies, too",
            f"pin the whole version, as in {pins[0].name}=={exact[0]}+{facts.version.partition('+')[2]}",
        )
    if not exact:
        named = [item for item in parsed_requirements(facts) if required_name(item) == "torch"]
        shown = ", ".join(map(str, named)) or "no torch at all"
        yield Problem(
            f"it requires {shown}; its extensions were built with one torch and one ROCm",
            "pin torch with == to the version it was built against",
        )


def _family_pin(facts: Facts, context: Context) -> Iterator[Problem]:
    terms = context.terms(facts.project)
    for requirement in parsed_requirements(facts):
        name = required_name(requirement)
        told = _is_rocm_libraries(requirement) and "torch-requires-rocm" in terms.rules
        if told or name == terms.host or not fits(name, terms.pinned) or exact_version(requirement):
            continue
        yield Problem(
            f"{requirement} is not an exact pin; packages of one family work only with others of their build",
            "pin it with == to the version of the same build",
        )


def _device_pin(facts: Facts, context: Context) -> Iterator[Problem]:
    host = context.terms(facts.project).host
    if host is None or _cannot_tell(facts, host):
        return
    pins = [item for item in _wherever(facts) if required_name(item) == host]
    if any(_is_version(item, facts.version) for item in pins):
        return
    shown = ", ".join(map(str, pins)) or f"no {host} at all"
    yield Problem(
        f"it requires {shown}; its code fits only the {host} {facts.version} it was taken out of",
        f"let it require {host}=={facts.version}",
    )


def _is_version(requirement: Requirement, version: str) -> bool:
    pinned = exact_version(requirement)
    return pinned is not None and Version(pinned) == Version(version)


RULES = (
    Rule(
        "requirement-brace",
        "No Requires-Dist contains a template variable that was not replaced.",
        _brace,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule(
        "requirement-malformed",
        "Each Requires-Dist is valid, and names no file of the machine that it was built on.",
        _malformed,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule(
        "requirement-extra",
        "A requirement for an extra names one that the package offers.",
        _extra,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule("torch-requires-rocm", "torch requires rocm[libraries] with an exact pin.", _requires_rocm),
    Rule(
        "torch-pin",
        "Extensions of torch pin the torch they were built with.",
        _torch_pin,
        by_metadata=True,
    ),
    Rule(
        "family-pin",
        "Requirements on packages of the same family are exact pins.",
        _family_pin,
        kinds=_BOTH,
        by_metadata=True,
    ),
    Rule("device-pin", "A device wheel requires the host of its own version.", _device_pin, by_metadata=True),
)
