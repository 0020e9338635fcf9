"""Check files and folders: gather facts, apply every rule, report all findings at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.utils import canonicalize_name

from rocwright.check.facts import Facts, gather
from rocwright.check.report import Finding, Report
from rocwright.check.rules import RULES, Request
from rocwright.check.set_rules import CLOSED_RULE, SET_RULES
from rocwright.model.gpu import parse_target

_ENDINGS = (".whl", ".tar.gz")
_OWN_RULES = ("readable", "empty-folder", "expected", "structure")


def check_paths(
    paths: Iterable[Path],
    *,
    targets: Iterable[str] | None = None,
    closed: bool = False,
    expect: Iterable[str] = (),
    scratch: Path | None = None,
    jobs: int = 2,
) -> Report:
    """Check wheels and sdists, and all of them together as one set.

    A folder stands for the wheels and sdists directly in it. `targets` are the GPU targets that torch and
    its extensions were built for; without them device code is not compared. `closed` says that the files are
    a complete set, so a pin that leads out of it is an error. `expect` names projects that must be there.
    Never raises for a bad wheel; raises `InvalidTarget` for text that names no GPU target and `NoSpace`
    when a library cannot be unpacked into `scratch`. `jobs` files are
    looked at side by side.
    """
    request = Request(None if targets is None else frozenset(str(parse_target(text)) for text in targets))
    files, findings = _expand(paths)
    # Unpacking and hashing release the interpreter lock, so files are looked at side by side; the largest
    # first, as one library package can hold most of the bytes.
    largest_first = sorted(files, key=lambda path: -path.stat().st_size if path.is_file() else 0)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        gathered = dict(
            zip(
                largest_first,
                pool.map(lambda path: gather(path, scratch=scratch), largest_first),
                strict=True,
            )
        )
    facts = [gathered[path] for path in files]
    return check_facts(facts, request=request, closed=closed, expect=expect, findings=findings)


def check_facts(
    facts: Sequence[Facts],
    *,
    request: Request,
    closed: bool = False,
    expect: Iterable[str] = (),
    findings: Sequence[Finding] = (),
) -> Report:
    """Apply every rule to gathered facts; pure. `findings` are kept in front."""
    found = list(findings)
    for one in facts:
        found += _check_one(one, request)
    readable = [one for one in facts if one.unreadable is None]
    found += _check_set(readable, closed)
    there = {one.project for one in readable}
    for name in sorted({canonicalize_name(text) for text in expect} - there):
        found.append(
            Finding("expected", "error", name, f"no wheel of {name} is there", "build it, then check again")
        )
    rules = [*_OWN_RULES, *(rule.id for rule in RULES), *(rule.id for rule in (*SET_RULES, CLOSED_RULE))]
    return Report(
        files=tuple(one.name for one in facts),
        findings=tuple(found),
        rules=tuple(rules),
        targets=None if request.targets is None else tuple(sorted(request.targets)),
    )


def _expand(paths: Iterable[Path]) -> tuple[list[Path], list[Finding]]:
    files: list[Path] = []
    findings = []
    for path in paths:
        if path.is_dir():
            inside = sorted(item for item in path.iterdir() if item.name.endswith(_ENDINGS))
            files += inside
            if not inside:
                findings.append(
                    Finding(
                        "empty-folder",
                        "error",
                        path.resolve().name,
                        "no wheels or sdists are in this folder",
                        "look for an earlier step that failed, or give another folder",
                    )
                )
        elif path.name.endswith(_ENDINGS):
            files.append(path)
        else:
            findings.append(
                Finding(
                    "readable", "error", path.name, "it is neither a wheel nor an sdist", "give .whl files"
                )
            )
    return list(dict.fromkeys(files)), findings


def _check_one(facts: Facts, request: Request) -> list[Finding]:
    if facts.unreadable is not None:
        return [Finding("readable", "error", facts.name, facts.unreadable, "build or fetch the file again")]
    found = [
        Finding(rule.id, rule.severity, facts.name, cause, next_step)
        for rule in RULES
        if rule.applies(facts)
        for cause, next_step in rule.check(facts, request)
    ]
    # What the strict reader refuses is mostly what a rule above explains better; never let it pass unsaid.
    if facts.structure is not None and not any(finding.severity == "error" for finding in found):
        found.append(Finding("structure", "error", facts.name, facts.structure, "build the wheel again"))
    return found


def _check_set(facts: Sequence[Facts], closed: bool) -> list[Finding]:
    found = [
        Finding(rule.id, rule.severity, file, cause, next_step)
        for rule in SET_RULES
        for file, cause, next_step in rule.check(facts)
    ]
    found += [
        Finding(CLOSED_RULE.id, "error" if closed else CLOSED_RULE.severity, file, cause, next_step)
        for file, cause, next_step in CLOSED_RULE.check(facts)
    ]
    return found
