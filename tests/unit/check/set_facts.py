"""Sets as facts, written by hand: no file is made or read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rocwright.check.context import Request
from rocwright.check.contract import ContractTable
from rocwright.check.facts import (
    CodeFile,
    ElfFacts,
    Facts,
    Headers,
    Installation,
    KpackFacts,
    Member,
    OriginFacts,
)
from rocwright.check.report import Report
from rocwright.check.rules import SET_RULES
from rocwright.check.run import judge
from rocwright.data import load_table
from rocwright.device_code.kpack import Marker

LINUX = "cp311-cp311-linux_x86_64"
PURE = "py3-none-any"


def wheel(
    project: str,
    version: str = "1.0",
    tag: str = LINUX,
    *,
    requires: Sequence[str] = (),
    extras: Sequence[str] = (),
    members: Sequence[str] | Mapping[str, int] = (),
    size: int = 1000,
    unreadable: str | None = None,
    elf: Sequence[ElfFacts] = (),
    archives: Sequence[KpackFacts] = (),
    code: Sequence[CodeFile] = (),
    origins: Sequence[OriginFacts] = (),
) -> Facts:
    sizes = members if isinstance(members, Mapping) else dict.fromkeys(members, 10)
    return Facts(
        Path(f"{project.replace('-', '_')}-{version}-{tag}.whl"),
        "wheel",
        size=size,
        project=project,
        version=version,
        tags=frozenset({tag}),
        unreadable=unreadable,
        members=tuple(Member(name, size) for name, size in sizes.items()),
        headers=Headers("2.1", project, version, tuple(requires), tuple(extras)),
        elf=tuple(elf),
        archives=tuple(archives),
        code=tuple(code),
        origins=tuple(origins),
    )


def sdist(
    project: str, version: str = "1.0", *, requires: Sequence[str] = (), extras: Sequence[str] = ()
) -> Facts:
    return Facts(
        Path(f"{project.replace('-', '_')}-{version}.tar.gz"),
        "sdist",
        size=1000,
        project=project,
        version=version,
        headers=Headers("2.2", project, version, tuple(requires), tuple(extras)),
    )


def split(member: str, *paths: str, kernel: str) -> ElfFacts:
    return ElfFacts(member, marker=Marker(paths, kernel))


def contract() -> ContractTable:
    return load_table("contract", ContractTable)


def set_report(
    *files: Facts,
    closed: bool = True,
    targets: Sequence[str] | None = None,
    installations: Sequence[Installation] = (),
    without: str | None = None,
) -> Report:
    """What the rules of a set say; rules of one file are left out."""
    request = Request(targets=None if targets is None else frozenset(targets), closed=closed)
    return judge(
        files,
        request=request,
        contract=contract(),
        rules=(),
        set_rules=[rule for rule in SET_RULES if rule.id != without],
        installations=installations,
    )


def found(*files: Facts, **options: object) -> list[tuple[str, str, str]]:
    """(rule, file, cause) of every finding."""
    report = set_report(*files, **options)
    return [(finding.rule, finding.file, finding.cause) for finding in report.findings]
