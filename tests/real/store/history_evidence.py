"""What the gate has to see before it opens, found out once more from the raw statements of a store.

Its own few lines for JSON, days, waivers, bypasses and attempts: nothing of the code under test takes part.
The suites that are asked for stand here, too, so that a gate that forgets one is found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

URN = "urn:rocwright:"
# Suite -> whether it is asked for once for each target.
SUITES = {"rocm-sdk": False, "smoke-host": False, "smoke-gpu": True}
_BAD = {"passed": 0, "skipped": 1, "cancelled": 2, "failed": 3}
Test = tuple[str, str, str]


class Violation(AssertionError):
    """A promise of the store is broken; says which, where, and after whose write."""


def manifest_of(data: bytes, one: str) -> dict[str, Any]:
    """The manifest whose bytes have the digest that a set is called by."""
    if hashlib.sha256(data).hexdigest() != one:
        raise Violation(f"the manifest of set {one[:12]} was changed")
    return json.loads(data)


def said_about(one: str, statements: Iterable[bytes]) -> list[dict[str, Any]]:
    """The statements that name the set among their subjects."""
    about = {"name": "rocwright:set", "digest": {"sha256": one}}
    return [item for item in map(json.loads, statements) if about in item["subject"]]


def lacking(one: str, manifest: Mapping[str, Any], statements: Iterable[bytes], day: str, gate: str) -> str:
    """What is missing on that day (ISO) for a channel whose gate is `checked` or `tested`; empty: nothing."""
    mine = said_about(one, statements)
    why = [_unchecked(mine, {entry["name"] for entry in manifest["files"]}, day)]
    if gate == "tested":
        why += [_unbuilt(mine), _untested(mine, manifest, day)]
    return "; ".join(filter(None, why))


def _predicates(said: Iterable[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item["predicate"] for item in said if item["predicateType"] == f"{URN}{kind}:v1"]


def _unchecked(mine: list[dict[str, Any]], files: set[str], day: str) -> str:
    checks = _predicates(mine, "findings")
    waivers = [one for one in _predicates(mine, "waiver") if one["expires"] >= day and one["reason"].strip()]
    why = [] if checks else ["nobody checked it"]
    for check in checks:
        left_out = files - set(check["files"])
        why += [f"a check left out {', '.join(sorted(left_out))}"] if left_out else []
        errors = [one for one in check.get("findings", ()) if one["severity"] == "error"]
        why += ["a check did not pass"] if not errors and check["passed"] is not True else []
        for error in errors:
            never = check.get("unwaivable")
            waived = any(
                waiver["rule"] == error["rule"] and fnmatchcase(error["file"], waiver.get("file", "*"))
                for waiver in waivers
            )
            if never is None or error["rule"] in never or not waived:
                why.append(f"{error['rule']} is broken and not waived on {day}")
    return "; ".join(why)


def _unbuilt(mine: list[dict[str, Any]]) -> str:
    results = {one.get("result") for one in _predicates(mine, "build")}
    return "" if results == {"success"} else f"builds: {', '.join(map(str, results)) or 'none'}"


def required(manifest: Mapping[str, Any]) -> list[Test]:
    """Suite, family and target (empty: all of it) of each test that a release needs."""
    return [
        (suite, manifest["family"], target)
        for suite, each in SUITES.items()
        for target in (manifest["targets"] if each else [""])
    ]


def results(mine: list[dict[str, Any]]) -> dict[Test, dict[str, Any]]:
    """The result of each test that counts: of what ran, the last attempt, and of two the worse."""
    found: dict[Test, dict[str, Any]] = {}

    def rank(result: Mapping[str, Any]) -> tuple[bool, int, int]:
        ran = result["runner"] or result["result"] != "skipped"
        return ran, result.get("attempt", 1), _BAD[result["result"]]

    for result in _predicates(mine, "test"):
        key = (result["suite"], result["family"], result.get("target", ""))
        if key not in found or rank(result) > rank(found[key]):
            found[key] = result
    return found


def _untested(mine: list[dict[str, Any]], manifest: Mapping[str, Any], day: str) -> str:
    found = results(mine)
    why = [
        f"{' '.join(key).strip()} {result['result']}"
        for key, result in found.items()
        if (result["runner"] and result["result"] != "passed")
        or (not result["runner"] and result["result"] != "skipped")
    ]
    bypassed = {
        (of["suite"], of["family"], of.get("target", ""))
        for bypass in _predicates(mine, "bypass")
        for of in [bypass["required"]]
        if bypass["expires"] >= day and bypass["reason"].strip()
    }
    for test in required(manifest):
        passed = test in found and found[test]["result"] == "passed"
        if not passed and test not in bypassed:
            why.append(f"{' '.join(test).strip()} has not passed and is not bypassed on {day}")
    return "; ".join(why)
