"""Rules about what must be in a wheel: files by pattern, a torch really built for ROCm, licences, an SBOM."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.version import Version

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts
from rocwright.check.rules.archive import unreadable_members
from rocwright.check.rules.metadata import licence_member
from rocwright.check.rules.requires import rocm_pin
from rocwright.check.rules.rocm_init import parse_source, what_is_wrong, what_is_wrong_inside
from rocwright.check.rules.versions import other_rocm
from rocwright.model.patterns import any_pattern, fits
from rocwright.wheel.read import place_of

_INIT, _VERSION = "torch/_rocm_init.py", "torch/version.py"


def _required(facts: Facts, context: Context) -> Iterator[Problem]:
    places = [place_of(member.name) for member in facts.members if not member.name.endswith("/")]
    for pattern in dict.fromkeys(context.terms(facts.project).required):
        expression = any_pattern((pattern,))
        if not any(map(expression.fullmatch, places)):
            yield Problem(
                f"it has no {pattern}",
                "look in the build's log for the part that was left out, then build again",
            )


def _forbidden(facts: Facts, context: Context) -> Iterator[Problem]:
    patterns = tuple(dict.fromkeys(context.terms(facts.project).forbidden))
    for member in facts.members:
        place = place_of(member.name.removesuffix("/"))
        if fits(place, patterns):
            pattern = next(each for each in patterns if fits(place, (each,)))
            yield Problem(
                f"no wheel of this package has {pattern}",
                "clean the tree before the build, or leave it out where the package lists its files",
                member.name,
            )


def _is_there(facts: Facts, name: str) -> bool:
    return any(member.name == name for member in facts.members)


def _unread(facts: Facts, name: str) -> Iterator[Problem]:
    """A source that is there, but was not read: damaged, which another rule says, or no source at all."""
    if name not in unreadable_members(facts):
        yield Problem("it is far larger than any source", "look at what wrote it", name)


def _rocm_init(facts: Facts, context: Context) -> Iterator[Problem]:
    text = facts.texts.get(_INIT)
    if text is None:
        if _is_there(facts, _INIT):
            yield from _unread(facts, _INIT)
        elif not context.brings_rocm(facts):
            yield Problem(
                "it is missing, so torch does not find ROCm's Python packages",
                "write it into the source tree before the wheel is built",
                _INIT,
            )
        return
    if context.brings_rocm(facts):
        causes = what_is_wrong_inside(text, [member.name for member in facts.members])
    else:
        causes = what_is_wrong(text, rocm_pin(facts))
    for cause in causes:
        yield Problem(cause, "generate it again", _INIT)


def _assigned(module: ast.Module, name: str) -> object:
    """The literal last assigned to a module's variable; None when there is none."""
    value: object = None
    for node in module.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            value = node.value.value if isinstance(node.value, ast.Constant) else None
    return value


def _same_version(said: str, version: str) -> bool:
    """Whether a module's version is the wheel's; where that has no local part, any will do."""
    try:
        ours, theirs = Version(version), Version(said)
    except ValueError:  # also for numbers of thousands of digits
        return False
    return ours.public == theirs.public and ours.local in (None, theirs.local)


def _hip(facts: Facts, _: Context) -> Iterator[Problem]:
    text = facts.texts.get(_VERSION)
    next_step = "look in the build's log for why ROCm was not found (USE_ROCM, ROCM_HOME), then build again"
    if text is None and _is_there(facts, _VERSION):
        yield from _unread(facts, _VERSION)
        return
    if text is None:
        yield Problem("it is missing", next_step, _VERSION)
        return
    module = parse_source(text)
    if isinstance(module, str):
        yield Problem(module, next_step, _VERSION)
        return
    said = _assigned(module, "__version__")
    if isinstance(said, str) and not _same_version(said, facts.version):
        yield Problem(
            f"it says {said}, the wheel is {facts.version}",
            "build it again with that version; a tool that changes a wheel's version must change this, too",
            _VERSION,
        )
    hip, cuda = _assigned(module, "hip"), _assigned(module, "cuda")
    if not isinstance(hip, str) or not hip:
        built_for = "CUDA" if isinstance(cuda, str) and cuda else "the CPU only"
        yield Problem(f"it says hip = {hip!r}: this torch was built for {built_for}", next_step, _VERSION)
        return
    rocm = _assigned(module, "rocm")
    other = other_rocm(hip, rocm if isinstance(rocm, str) else None, facts, rocm_pin(facts))
    if other is not None:
        yield Problem(other, "build it again with the ROCm that it is to run on", _VERSION)


def _bundled(facts: Facts, context: Context) -> list[str]:
    """Members that are other projects' files, by the contract's patterns."""
    pattern = any_pattern(context.terms(facts.project).bundled)
    return [
        member.name
        for member in facts.members
        if not member.name.endswith("/")
        and not member.name.split("/")[0].endswith(".dist-info")
        and pattern.fullmatch(place_of(member.name))
    ]


def _shown(members: list[str]) -> str:
    more = f" and {len(members) - 1} more" if len(members) > 1 else ""
    return f"{members[0]}{more}"


def _licences(facts: Facts, context: Context) -> Iterator[Problem]:
    bundled = _bundled(facts, context)
    if (
        bundled
        and not facts.licences
        and not any(licence_member(facts, path) for path in facts.headers.license_files)
    ):
        yield Problem(
            f"it brings files of other projects ({_shown(bundled)}), but no licence text",
            "put the licence texts below .dist-info/licenses and name them with License-File",
        )


def _sbom(facts: Facts, context: Context) -> Iterator[Problem]:
    bundled = _bundled(facts, context)
    if bundled and not facts.sboms:
        yield Problem(
            f"it brings files of other projects ({_shown(bundled)}), but no bill of materials",
            "put one below .dist-info/sboms (PEP 770)",
        )
    for member in facts.sboms:
        text = facts.texts.get(member)
        if text is None or not member.endswith(".json"):
            continue  # other notations are allowed, and left to those who read them
        if (why := _no_bill(text)) is not None:
            yield Problem(why, "write it again with the tool that wrote it", member)


def _no_bill(text: str) -> str | None:
    """Why a JSON text is no bill of materials in a format that others know."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is not valid JSON: {error}"
    if isinstance(document, Mapping) and (_is_cyclonedx(document) or _is_spdx(document)):
        return None
    return "it is neither CycloneDX (bomFormat, specVersion) nor SPDX (spdxVersion, or its @context)"


def _is_cyclonedx(document: Mapping[str, Any]) -> bool:
    return document.get("bomFormat") == "CycloneDX" and isinstance(document.get("specVersion"), str)


def _is_spdx(document: Mapping[str, Any]) -> bool:
    """SPDX 2 names its version, SPDX 3 its vocabulary (spdx.github.io/spdx-spec)."""
    if str(document.get("spdxVersion", "")).startswith("SPDX-"):
        return True
    context = document.get("@context")
    return any("spdx.org" in str(each) for each in (context if isinstance(context, list) else [context]))


LEGAL_RULES = (
    Rule(
        "licences",
        "A wheel that brings other projects' files has licence texts.",
        _licences,
    ),
    Rule(
        "sbom",
        "A bill of materials lists bundled files; each is CycloneDX or SPDX.",
        _sbom,
    ),
)

RULES = (
    Rule("required-files", "It has every file that a complete build of the package has.", _required),
    Rule("forbidden-files", "Nothing is left in it from the build or the checkout.", _forbidden),
    Rule(
        "torch-rocm-init",
        "torch/_rocm_init.py is there, and its initialize() can be called and loads ROCm.",
        _rocm_init,
    ),
    Rule(
        "torch-hip",
        "torch/version.py names the wheel's version and the HIP of its ROCm: it is not a CPU build.",
        _hip,
    ),
)
