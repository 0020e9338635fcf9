"""Facts written by hand, and rules applied to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rocwright.check.context import Request, Rule
from rocwright.check.facts import Facts, Headers, Member
from rocwright.check.loading import load_contract
from rocwright.check.run import judge
from rocwright.model.findings import Finding

LINUX = "py3-none-linux_x86_64"


def wheel(
    project: str = "pure",
    version: str = "1.0",
    members: Iterable[str | Member] = (),
    *,
    tag: str = LINUX,
    headers: dict[str, Any] | None = None,
    **fields: Any,
) -> Facts:
    """A wheel without a fault; `headers` and `fields` replace what is given."""
    stem = f"{project.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    said: dict[str, Any] = {"metadata_version": "2.4", "name": project, "version": version}
    said.update(headers or {})
    own = [f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD"]
    listed = [one if isinstance(one, Member) else Member(one, 1, 1) for one in (*members, *own)]
    given: dict[str, Any] = {
        "project": project,
        "version": version,
        "tags": frozenset({tag}),
        "wheel_tags": frozenset({tag}),
        "members": tuple(listed),
        "dist_infos": (info,),
        "headers": Headers(**said),
    }
    given.update(fields)
    return Facts(Path(f"{stem}-{tag}.whl"), "wheel", **given)


def sdist(project: str, version: str, **headers: Any) -> Facts:
    said = {"metadata_version": "2.2", "name": project, "version": version, **headers}
    path = Path(f"{project}-{version}.tar.gz")
    return Facts(path, "sdist", project=project, version=version, headers=Headers(**said))


def findings(facts: Facts, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """What these rules find, as far as the built-in contract applies them to the package."""
    return judge([facts], request=Request(), contract=load_contract(), rules=rules, set_rules=()).findings


def ids(facts: Facts, rules: Sequence[Rule]) -> list[str]:
    return [finding.rule for finding in findings(facts, rules)]


def only(facts: Facts, rules: Sequence[Rule]) -> Finding:
    [finding] = findings(facts, rules)
    return finding
