"""What is built in a simulated history: small wheels, what is said of them, who lets what pass."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import msgspec

from real.store.history_checks import MAX_AGE, PROJECTS
from real.store.history_evidence import required
from rocwright.data import load_table
from rocwright.model.channels import Channels
from rocwright.model.findings import Finding, Waiver
from rocwright.model.sets import (
    BUILD,
    FINDINGS,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
    waiver_statement,
)
from rocwright.store.pool import describe_files
from rocwright.store.statements import Bypass, Required, SuiteResult, bypass_statement, result_statement
from wheels import ANY, write_wheel

FAMILIES = {
    "gfx94X-dcgpu": ("gfx942",),
    "gfx110X-all": ("gfx1100", "gfx1101"),
    "multi-arch": ("gfx1100", "gfx942"),
}
# Made up: rules of a check that nothing here runs.
RULE, UNWAIVABLE = "history-rule", "history-identity"
# How a check of a set ends, in a hundred.
CHECKS = {
    "clean": 78,
    "waived": 8,
    "waived too short": 3,
    "waiver expired": 2,
    "errors": 3,
    "unwaivable": 2,
    "file left out": 2,
    "build failed": 2,
}


def history_channels() -> Channels:
    """The table of channels, with numbers so small that retention has work to do within sixty days."""
    table = load_table("channels", Channels)
    few = tuple(
        msgspec.structs.replace(one, listed={"staging": 5, "release": 4}[one.name]) for one in table.channel
    )
    retention = msgspec.structs.replace(table.retention, grace_days=4)
    return msgspec.structs.replace(table, channel=few, retention=retention, max_age=int(MAX_AGE))


def write_wheels(folder: Path, family: str, number: int) -> list[Path]:
    """Five small wheels that pin each other exactly; labelled by their place, not real packages."""
    exact = f"1.{number}"
    needs = {
        "rocm-sdk-core": [],
        "rocm-sdk-libraries": [f"rocm-sdk-core=={exact}"],
        "rocm": [f"rocm-sdk-core=={exact}", f'rocm-sdk-libraries=={exact}; extra == "libraries"'],
        "torch": [f"rocm[libraries]=={exact}"],
        "torchvision": [f"torch=={exact}"],
    }
    extras = {"rocm": ["libraries"]}
    return [
        write_wheel(
            folder / family / str(number),
            name,
            exact,
            {f"{name.replace('-', '_')}/__init__.py": f"# {family} {number}\n"},
            requires=needs[name],
            extras=extras.get(name, ()),
            tag=ANY,
        )
        for name in PROJECTS
    ]


@dataclass
class Build:
    """A set that was built, what its check says, and what its tests will say."""

    manifest: SetManifest
    paths: list[Path]
    checked: list[Statement]
    results: list[Statement]
    kind: str

    @property
    def id(self) -> str:
        return set_id(self.manifest)


def build(
    folder: Path, family: str, number: int, today: date, chance: random.Random, counts: Counter[str]
) -> Build:
    """A set of today; what comes of it is drawn here, and known to nobody else before it is stated."""
    paths = write_wheels(folder, family, number)
    manifest = new_set(
        family=family,
        targets=FAMILIES[family],
        platform="linux",
        files=describe_files(paths),
        sources={"torch": f"{number:040x}"},
    )
    [kind] = chance.choices(list(CHECKS), list(CHECKS.values()))
    counts[f"sets: {kind}"] += 1
    checked = _checked(manifest, kind, today, chance)
    said = [
        statement
        for suite, of, target in required(msgspec.to_builtins(manifest))
        for statement in _tested(manifest, Required(suite, of, target), today, chance, counts)
    ]
    return Build(manifest, paths, checked, said, kind)


def error_found(manifest: SetManifest, rule: str, file: str) -> Statement:
    """A check of all files of a set that found one error."""
    finding = Finding(rule, "error", file, "made up", "nothing")
    names = [entry.name for entry in manifest.files]
    said = {"passed": False, "files": names, "findings": msgspec.to_builtins([finding])}
    return about_set(manifest, FINDINGS, {**said, "unwaivable": [UNWAIVABLE]})


def _checked(manifest: SetManifest, kind: str, today: date, chance: random.Random) -> list[Statement]:
    names = [entry.name for entry in manifest.files]
    built = about_set(manifest, BUILD, {"result": "failure" if kind == "build failed" else "success"})
    if kind in ("clean", "build failed"):
        return [about_set(manifest, FINDINGS, {"passed": True, "files": names}), built]
    if kind == "file left out":
        return [about_set(manifest, FINDINGS, {"passed": True, "files": names[1:]}), built]
    rule = UNWAIVABLE if kind == "unwaivable" else RULE
    file = chance.choice(names)
    found = [error_found(manifest, rule, file), built]
    if kind == "errors":
        return found
    # Some cover the file by a pattern; some hold for long enough to stage the set, not to promote it later.
    last = today + timedelta(days={"waived too short": 1, "waiver expired": -3}.get(kind, 30))
    pattern = chance.choice([file, "*", f"{file[:5]}*"])
    return [*found, waiver_statement(manifest, Waiver(rule, "known, and accepted", last, pattern))]


def _tested(
    manifest: SetManifest, one: Required, today: date, chance: random.Random, counts: Counter[str]
) -> list[Statement]:
    """What is stated of one test, in order."""
    say = partial(SuiteResult, one.suite, one.family, target=one.target, runner=True)
    fate = chance.random()
    if fate < 0.82:
        results = [say(result="passed")]
    elif fate < 0.92:
        counts["flaky suites"] += 1
        results = [say(result="failed"), say(result="passed", attempt=2)]
    elif fate < 0.95:
        results = [say(result="failed"), say(result="failed", attempt=2)]
    else:
        results = [msgspec.structs.replace(say(result="skipped"), runner=False)]
    said = [result_statement(manifest, result) for result in results]
    # A bypass of a test that failed is no help, and one that is past is none.
    if fate >= 0.935 and chance.random() < 0.7:
        last = today + timedelta(days=chance.choice([-2, 1, 10, 10]))
        counts["bypasses past" if last < today else "bypasses"] += 1
        said.append(bypass_statement(manifest, Bypass(one, "no machine until then", last)))
    return said
