"""Rules about what comes with other projects' files: their licence texts and a bill of materials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem, Rule
from rocwright.check.rules.metadata import licence_member
from rocwright.model.patterns import any_pattern
from rocwright.wheel.read import place_of


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
            f"it brings files of other projects ({_shown(bundled)}) and no licence text",
            "put the licence texts below .dist-info/licenses and name them with License-File",
        )


def _sbom(facts: Facts, context: Context) -> Iterator[Problem]:
    bundled = _bundled(facts, context)
    if bundled and not facts.sboms:
        yield Problem(
            f"it brings files of other projects ({_shown(bundled)}) and no bill of materials",
            "put one below .dist-info/sboms (PEP 770)",
        )
    for member in facts.sboms:
        text = facts.texts.get(member)
        if text is None or not member.endswith(".json"):
            continue  # other notations are allowed, and left to those who read them
        if (why := _no_bill(text)) is not None:
            yield Problem(why, "let the tool that wrote it write it again", member)


def _no_bill(text: str) -> str | None:
    """Why a JSON text is no bill of materials in a format that others know."""
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is no valid JSON: {error}"
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


RULES = (
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
