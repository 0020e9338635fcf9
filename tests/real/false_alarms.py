"""Findings on published wheels that were reviewed one by one: false_alarms.toml, and how to make its rows.

`PYTHONPATH=tests python -m real.false_alarms FILE...` prints the rows of wheels that are to join the table,
or whose findings changed; what was explained before keeps its words. Review each before it goes in: a finding
that is wrong is a defect of its rule, and has no place in the table.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from real import corpus
from rocwright.check.report import Report
from rocwright.check.run import check_paths

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("false_alarms.toml")


@dataclass(frozen=True)
class Explained:
    """Findings of one rule on one wheel: (members, cause) each, and why they are right."""

    rule: str
    severity: str
    found: tuple[tuple[str, str], ...]
    why: str


@dataclass(frozen=True)
class Reviewed:
    """A published wheel and all that `rocwright check` finds in it."""

    item: corpus.Item
    findings: tuple[Explained, ...]

    @property
    def expected(self) -> set[tuple[str, str, str, str]]:
        return {(one.rule, one.severity, *pair) for one in self.findings for pair in one.found}


def observed(report: Report) -> set[tuple[str, str, str, str]]:
    """Rule, severity, members (the first three, and how many more) and cause of each finding."""
    return {(found.rule, found.severity, found.about, found.cause) for found in report.findings}


def load(table: Path = TABLE) -> tuple[Reviewed, ...]:
    """Every wheel of the table, in its order."""
    known = {item.file: item for item in corpus.load()}
    reviewed = []
    for row in tomllib.loads(table.read_text())["wheel"]:
        item = known.get(row["file"]) or corpus.Item(
            "pypi", row["name"], row["version"], row["file"], row["size"], row["sha256"], "", "", False,
            False, (), (),
        )  # fmt: skip
        findings = tuple(
            Explained(one["rule"], one["severity"], tuple((a, c) for a, c in one["found"]), one["why"])
            for one in row.get("finding", [])
        )
        reviewed.append(Reviewed(item, findings))
    return tuple(reviewed)


def _rows(path: Path, known: dict[tuple[str, str], str]) -> Iterator[str]:
    name, version = path.name.split("-")[:2]
    yield f'[[wheel]]\nfile = "{path.name}"'
    if path.name not in {item.file for item in corpus.load()}:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        yield f'name = "{canonicalize_name(name)}"\nversion = "{version}"'
        yield f'size = {path.stat().st_size}\nsha256 = "{digest}"'
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for rule, severity, about, cause in sorted(observed(check_paths([path]))):
        groups.setdefault((rule, severity), []).append((about, cause))
    for (rule, severity), pairs in groups.items():
        yield f'[[wheel.finding]]\nrule = "{rule}"\nseverity = "{severity}"\nfound = ['
        yield from (f"  [{json.dumps(about)}, {json.dumps(cause)}]," for about, cause in pairs)
        yield f"]\nwhy = {json.dumps(known.get((path.name, rule), ''))}"
    yield ""


if __name__ == "__main__":
    explained = {(one.item.file, finding.rule): finding.why for one in load() for finding in one.findings}
    for argument in sys.argv[1:]:
        sys.stdout.writelines(f"{line}\n" for line in _rows(Path(argument), explained))
