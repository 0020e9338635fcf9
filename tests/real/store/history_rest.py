"""What must hold when nobody is at work: every page says what the log says, every listed set is there, whole.

Read from raw bytes with code of its own, as `history_checks`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from real.store.history_checks import Checker, Violation, links
from real.store.history_evidence import manifest_of

_PROJECT = re.compile(r'<a href="([a-z0-9-]+)/">\1</a>')
# Project -> name, sha256 and whether it is yanked, of each file.
Wanted = dict[str, set[tuple[str, str, bool]]]


def at_rest(checker: Checker, prefix: str) -> None:
    """The pages of a channel are those of its log, and what it lists is whole; raises `Violation`."""
    standing = checker.standing(prefix)
    if not standing:
        return
    whole(checker, standing)
    wanted: Wanted = {}
    for one, yanked in standing.items():
        for entry in _manifest(checker, one)["files"]:
            wanted.setdefault(entry["project"], set()).add((entry["name"], entry["sha256"], yanked))
    served = {
        key.removeprefix(prefix)
        for folder in checker.world.folders
        if f"{folder}/".startswith(prefix) and not folder.endswith(("/_log", "/_signatures"))
        for key in checker.world.inside(folder)
    }
    expected = {"index.html", "_json/index.html", "_flat/index.html"}
    expected |= {f"{kind}{project}/index.html" for project in wanted for kind in ("", "_json/")}
    if served != expected:
        raise Violation(f"{prefix} serves {', '.join(sorted(served ^ expected))}, or does not")
    for project, files in wanted.items():
        _same(_html(checker, f"{prefix}{project}/index.html"), files, f"{prefix}{project}/")
        _same(_json(checker, f"{prefix}_json/{project}/index.html"), files, f"{prefix}_json/{project}/")
    # Installers do not all look on a flat page for what is yanked: it is not there.
    offered = {file for files in wanted.values() for file in files if not file[2]}
    _same(_html(checker, f"{prefix}_flat/index.html"), offered, f"{prefix}_flat/")
    root = checker.world.backing.read(f"{prefix}index.html").decode()
    listed = json.loads(checker.world.backing.read(f"{prefix}_json/index.html"))["projects"]
    if sorted(wanted) != _PROJECT.findall(root) or sorted(wanted) != [one["name"] for one in listed]:
        raise Violation(f"{prefix} names other projects than its log")
    _log_is_unchanged(checker, prefix)
    checker.checks["pages at rest"] += len(expected)


def whole(checker: Checker, sets: Iterable[str]) -> None:
    """Each file of these sets, and what lies beside it, has the digest that the manifest says."""
    for one in sets:
        for key, sha256 in checker.objects_of(one).items():
            checker.checks["files read"] += 1
            if key not in checker.world.modified:
                raise Violation(f"{key} of set {one[:12]} is not there")
            if hashlib.sha256(checker.world.backing.read(key)).hexdigest() != sha256:
                raise Violation(f"{key} of set {one[:12]} has other bytes")


def pins_are_kept(checker: Checker, *, settled: bool = True) -> None:
    """Every pin that was acknowledged is there, with its set, which is whole; `settled`: nobody works."""
    world, truth = checker.world, checker.truth
    found = {
        key.removeprefix("pins/").removesuffix(".json"): json.loads(world.backing.read(key))["set"]
        for key in world.inside("pins")
    }
    for name, one in truth.pins.items():
        if name not in truth.unpinning and found.get(name) != one:
            raise Violation(f"the pin {name} held set {one[:12]}, and does not any more")
    if settled:
        # Two that pin and remove at once end either way.
        truth.pins, truth.unpinning = found, set()
    checker.checks["pins"] += len(found)
    # What somebody damaged is whole again when the repair is done.
    if not checker.damaged:
        whole(checker, found.values())


def power_was_cut(checker: Checker, lost: list[str]) -> None:
    """After a power cut: what was acknowledged is there, whole, and clients find a whole set."""
    checker.checks["power cuts"] += 1
    for key in lost:
        if key in checker.versions:
            there = key in checker.world.modified
            page = checker.world.backing.read(key) if there else None
            checker.versions[key].append((checker.world.now, page))
    logs = [one.removesuffix("_log") for one in checker.world.folders if one.endswith("/_log")]
    checker.unborn.update(one for one in logs if not checker.truth.acknowledged.get(one))
    for prefix in logs:
        acknowledged = checker.truth.acknowledged.get(prefix, [])
        folded = checker.folded(prefix, lost=True)
        if prefix in checker.damaged:
            # The power went while it was repaired: what it lists is asked when that is done.
            continue
        gone = set(acknowledged) - folded.standing.keys() - folded.dropped
        if gone:
            raise Violation(f"set {min(gone)[:12]} was acknowledged and is not in the log of {prefix}")
        if prefix not in checker.unborn:
            whole(checker, folded.standing)
            checker.channel(prefix)
    pins_are_kept(checker, settled=False)


def _manifest(checker: Checker, one: str) -> dict:
    return manifest_of(checker.world.backing.read(f"sets/{one}/manifest.json"), one)


def _html(checker: Checker, key: str) -> set[tuple[str, str, bool]]:
    return {(link.name, link.sha256, link.yanked) for link in links(checker.world.backing.read(key))}


def _json(checker: Checker, key: str) -> set[tuple[str, str, bool]]:
    page = json.loads(checker.world.backing.read(key))
    return {
        (one["filename"], one["hashes"]["sha256"], bool(one.get("yanked", False))) for one in page["files"]
    }


def _same(found: set[tuple[str, str, bool]], wanted: set[tuple[str, str, bool]], where: str) -> None:
    if found != wanted:
        names = ", ".join(sorted(name for name, _, _ in found ^ wanted))
        raise Violation(f"pages are not those of its log: {where} is wrong about {names}")


def _log_is_unchanged(checker: Checker, prefix: str) -> None:
    for key, _ in checker.folded(prefix).events:
        data = checker.world.backing.read(key)
        if not hashlib.sha256(data).hexdigest().startswith(key[-21:-5]):
            raise Violation(f"{key} was changed")
