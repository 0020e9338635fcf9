"""Facts written by hand, and what one rule says of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rocwright.check.context import Context, Request
from rocwright.check.contract import ContractTable
from rocwright.check.facts import ElfFacts, Facts, Headers, PeFacts
from rocwright.check.rules import RULES
from rocwright.data import load_table

LINUX = "linux_x86_64"
CONTRACT = load_table("contract", ContractTable)


def wheel(
    project: str,
    *libraries: ElfFacts | PeFacts,
    platform: str = LINUX,
    requires: Iterable[str] = (),
    extras: Iterable[str] = (),
    python: str = "cp312-cp312",
    **facts: Any,
) -> Facts:
    """A wheel of version 1 with these libraries; `platform` may hold several platform tags."""
    name = f"{project.replace('-', '_')}-1-{python}-{platform}.whl"
    return Facts(
        Path(name),
        "wheel",
        project=project,
        version="1",
        tags=frozenset(f"{python}-{tag}" for tag in platform.split(".")),
        headers=Headers(name=project, version="1", requires=tuple(requires), extras=tuple(extras)),
        elf=tuple(one for one in libraries if isinstance(one, ElfFacts)),
        pe=tuple(one for one in libraries if isinstance(one, PeFacts)),
        **facts,
    )


def elf(member: str, *needed: str, **facts: Any) -> ElfFacts:
    """A library that needs these, under the name of its file."""
    facts.setdefault("soname", member.rpartition("/")[2])
    return ElfFacts(member, needed=needed, **facts)


def dll(member: str, *imports: str, **facts: Any) -> PeFacts:
    return PeFacts(member, imports=imports, **facts)


def said(rule: str, facts: Facts, *others: Facts, closed: bool = False) -> list[tuple[str, str]]:
    """Member and cause of each problem that a rule has with a file, which is checked together with others."""
    context = Context(CONTRACT, Request(closed=closed), (facts, *others))
    [one] = [one for one in RULES if one.id == rule]
    return [(problem.member, problem.cause) for problem in one.check(facts, context)]


def members(rule: str, facts: Facts, *others: Facts, closed: bool = False) -> list[str]:
    """The members that a rule has a problem with."""
    return [member for member, _ in said(rule, facts, *others, closed=closed)]
