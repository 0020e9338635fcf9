"""Rules about METADATA and tags: who the wheel is, what it requires, what it offers."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.check.context import Context, exact_version, parsed_requirements, required_name
from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem, Rule

_BOTH = ("wheel", "sdist")
_REBUILD = "build the wheel again; a wheel is never repaired by hand"


def _identity(facts: Facts, _: Context) -> Iterator[Problem]:
    headers = facts.headers
    try:
        name = canonicalize_name(headers.name or "", validate=True)
        same = name == facts.project and Version(headers.version or "") == Version(facts.version)
    except (InvalidName, InvalidVersion):
        same = False
    if not same:
        yield Problem(
            f"its metadata is of {headers.name} {headers.version}, not {facts.project} {facts.version}",
            "build it again; renaming a file does not change its version",
        )


def _brace(facts: Facts, _: Context) -> Iterator[Problem]:
    for text in facts.headers.requires:
        if "{" in text or "}" in text:
            yield Problem(
                f"Requires-Dist {text!r} contains a brace",
                "look for a template or shell variable that was not replaced",
            )


def _malformed(facts: Facts, _: Context) -> Iterator[Problem]:
    for text in facts.headers.requires:
        if "{" in text or "}" in text:
            continue
        try:
            Requirement(text)
        except InvalidRequirement as error:
            yield Problem(f"Requires-Dist {text!r} is malformed: {error}", "write it as PEP 508 says")


def _tags(facts: Facts, _: Context) -> Iterator[Problem]:
    if facts.tags != facts.wheel_tags:
        inside = ", ".join(sorted(facts.wheel_tags)) or "none"
        yield Problem(f"its name says {', '.join(sorted(facts.tags))}, WHEEL says {inside}", _REBUILD)


def _tag_any(facts: Facts, _: Context) -> Iterator[Problem]:
    compiled = [*(elf.member for elf in facts.elf), *(pe.member for pe in facts.pe)]
    if compiled and any(tag.endswith("-any") for tag in facts.tags):
        yield Problem(
            "it is in a wheel that is tagged for any platform",
            "give the wheel the platform's tag",
            compiled[0],
        )


def _requires_rocm(facts: Facts, _: Context) -> Iterator[Problem]:
    for requirement in parsed_requirements(facts):
        if required_name(requirement) == "rocm" and "libraries" in requirement.extras:
            if exact_version(requirement) is None:
                yield Problem(f"{requirement} is no exact pin", "pin rocm[libraries] with ==")
            return
    yield Problem(
        "it does not require rocm[libraries]==…, so installing it brings no ROCm",
        "give the build PYTORCH_EXTRA_INSTALL_REQUIREMENTS",
    )


def _torch_pin(facts: Facts, _: Context) -> Iterator[Problem]:
    pins = [item for item in parsed_requirements(facts) if required_name(item) == "torch"]
    if not any(exact_version(item) is not None for item in pins):
        shown = ", ".join(map(str, pins)) or "no torch at all"
        yield Problem(
            f"it requires {shown}; its extensions load only beside the torch they were built with",
            "pin torch with == to the version it was built against",
        )


RULES = (
    Rule(
        "metadata-identity",
        "Name and version in the metadata are those of the file name.",
        _identity,
        kinds=_BOTH,
        waivable=False,
    ),
    Rule(
        "requirement-brace",
        "No Requires-Dist holds a template variable that was not replaced.",
        _brace,
        kinds=_BOTH,
    ),
    Rule("requirement-malformed", "Each Requires-Dist is valid.", _malformed, kinds=_BOTH),
    Rule("tags", "The tags in the file name are those in WHEEL.", _tags),
    Rule("tag-any", "A wheel with compiled files is not tagged for any platform.", _tag_any),
    Rule("torch-requires-rocm", "torch requires rocm[libraries] with an exact pin.", _requires_rocm),
    Rule("torch-pin", "Extensions of torch pin the torch they were built with.", _torch_pin),
)
