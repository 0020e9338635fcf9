"""Rules about Linux libraries and programs: that they load, and from where they take what they need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.check.rules.base import Problem, Rule

_REBUILD = "build the wheel again; a wheel is never repaired by hand"


def _elf_readable(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in facts.elf:
        if elf.problem is not None:
            yield Problem(elf.problem, _REBUILD, elf.member)


def _runpath(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in facts.elf:
        if elf.runpath is not None:
            yield Problem(
                f"it has RUNPATH {elf.runpath!r}, which indirect dependencies do not inherit",
                "link with --disable-new-dtags, or turn it into an RPATH",
                elf.member,
            )


def _rpath(facts: Facts, _: Context) -> Iterator[Problem]:
    for elf in facts.elf:
        for tag, text in (("RPATH", elf.rpath), ("RUNPATH", elf.runpath)):
            leaving = [entry for entry in (text or "").split(":") if text and _leaves(elf.member, entry)]
            if leaving:
                yield Problem(
                    f"it has {tag} {':'.join(leaving)!r}, no place inside the installation",
                    "use entries relative to $ORIGIN that stay inside site-packages",
                    elf.member,
                )


def _leaves(member: str, entry: str) -> bool:
    """Whether an RPATH entry is not below the folder that the wheel is installed in."""
    head, *rest = entry.replace("${ORIGIN}", "$ORIGIN").rstrip("/").split("/")
    if head != "$ORIGIN":
        return True
    depth = len(PurePosixPath(member).parts) - 1
    for part in rest:
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return False


RULES = (
    Rule("elf-readable", "Each compiled file is a well-formed ELF object.", _elf_readable, waivable=False),
    Rule(
        "elf-runpath", "No RUNPATH, which does not hold for indirect dependencies; an RPATH does.", _runpath
    ),
    Rule(
        "elf-rpath",
        "Each entry of an RPATH or RUNPATH is relative to $ORIGIN and stays in site-packages.",
        _rpath,
    ),
)
