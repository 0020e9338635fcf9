"""Rules about Windows programs and DLLs, which are checked on any system."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts, PeFacts
from rocwright.check.rules.elf import OTHER_SYSTEM
from rocwright.check.rules.needs import unmet_problems, unseen_problems
from rocwright.model.platforms import WindowsMachines
from rocwright.wheel.tags import platform_of

_EXTENSION = ".pyd"
_REBUILD = "build the wheel again; a wheel is never repaired by hand"


def _windows_tags(facts: Facts, context: Context) -> list[str]:
    known = context.platforms.windows.machines
    return sorted({tag.rpartition("-")[2] for tag in facts.tags} & set(known))


def _readable(facts: Facts, _: Context) -> Iterator[Problem]:
    for pe in facts.pe:
        if pe.problem is not None:
            yield Problem(pe.problem, _REBUILD, pe.member)


def _machine(facts: Facts, context: Context) -> Iterator[Problem]:
    # Launchers are in many wheels, and .NET uses DLLs everywhere; only Python on Windows loads extensions.
    if platform_of(facts.tags) == "linux" and not facts.elf:
        for pe in facts.pe:
            if pe.member.endswith(_EXTENSION):
                yield Problem("it is for Windows, the wheel is tagged for Linux", OTHER_SYSTEM, pe.member)
        return
    tags = _windows_tags(facts, context)
    rows = [context.platforms.windows.machines[tag] for tag in tags]
    images = [pe for pe in facts.pe if pe.problem is None and not pe.portable] if rows else []
    strange = [pe for pe in images if not _fits(pe, rows)]
    # Where one is for the tag, others are chosen from at run time, but for extensions: Python loads those.
    chosen = any(pe.is_dll and pe not in strange for pe in images)
    for pe in strange:
        if not chosen or pe.member.endswith(_EXTENSION):
            yield Problem(
                f"it is for machine {pe.machine:#x}, the wheel is for {' and '.join(tags)}",
                "build the wheel for one machine at a time, or give it the other tag",
                pe.member,
            )


def _fits(pe: PeFacts, rows: Sequence[WindowsMachines]) -> bool:
    return any(pe.machine in ((row.libraries,) if pe.is_dll else row.programs) for row in rows)


def _imports(facts: Facts, context: Context) -> Iterator[Problem]:
    yield from unmet_problems(_needs(facts, context), facts, context, windows=True)


def _unseen(facts: Facts, context: Context) -> Iterator[Problem]:
    yield from unseen_problems(_needs(facts, context), facts, context, windows=True)


def _needs(facts: Facts, context: Context) -> list[tuple[str, tuple[str, ...]]]:
    """What is imported, at once or when first used; launchers in a wheel for Linux are data there."""
    readable: list[PeFacts] = [pe for pe in facts.pe if pe.problem is None]
    if not _windows_tags(facts, context):
        return []
    return [(pe.member, tuple(dict.fromkeys((*pe.imports, *pe.delay_imports)))) for pe in readable]


RULES = (
    Rule("pe-readable", "Each Windows program and DLL is a well-formed image.", _readable, waivable=False),
    Rule("pe-machine", "DLLs and programs are for a machine that the wheel's tag names.", _machine),
    Rule(
        "pe-imports",
        "Each DLL that another imports from is in the wheel, in one that it requires, or part of Windows.",
        _imports,
    ),
    Rule(
        "pe-imports-unseen",
        "No DLL has to come from a package that is not among the checked files.",
        _unseen,
        severity="warning",
    ),
)
