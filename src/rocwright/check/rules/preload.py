"""The rule about what torch loads before its own libraries: all of ROCm that these need by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rocwright.check.context import Context
from rocwright.check.facts import Facts
from rocwright.check.libraries import directory_of, search_entries
from rocwright.check.rules.base import Problem, Rule
from rocwright.check.rules.elf import native
from rocwright.check.rules.rocm_init import what_is_wrong
from rocwright.check.rules.source import literal, parse_source

_INIT = "torch/_rocm_init.py"
_CALL, _LIST = "initialize_process", "preload_shortnames"


def _preload(facts: Facts, context: Context) -> Iterator[Problem]:
    """What the list lacks, directly needed names only: what ROCm's libraries need they find themselves.

    A library that the RPATH of the one that needs it leads to, in the files at hand, need not be in the list.
    That another name in the list happens to load it does not count: that changes from release to release.
    """
    text = facts.texts.get(_INIT)
    # That it is missing, or does not initialise ROCm, is a finding of its own.
    if text is None or any(what_is_wrong(text, None)):
        return
    module = parse_source(text)
    loaded = _listed(module) if isinstance(module, ast.Module) else None
    if loaded is None:
        yield Problem(f"its {_LIST} is no list of texts, so it cannot be compared", "write a list", _INIT)
        return
    for member, library in (*_elf_needs(facts, context), *_pe_needs(facts)):
        named = context.rocm_libraries.short_name(library, "linux" if ".so" in library else "windows")
        if named is not None and named[0] not in loaded:
            yield Problem(
                f"it needs {library} before anything has loaded it: {_LIST} in {_INIT} lacks {named[0]!r}",
                f"add {named[0]!r} to the list of libraries that torch's recipe preloads",
                member,
            )


def _elf_needs(facts: Facts, context: Context) -> Iterator[tuple[str, str]]:
    places = context.libraries.places
    for elf in native(facts, context):
        here = [directory_of(elf, entry) for entry in search_entries(elf)]
        for name in elf.needed:
            reached = any(f"{directory}/{name}" in places for directory in here if directory is not None)
            if not reached and not context.libraries.holds(facts, name):
                yield elf.member, name


def _pe_needs(facts: Facts) -> Iterator[tuple[str, str]]:
    own = {pe.member.rpartition("/")[2].lower() for pe in facts.pe}
    for pe in facts.pe:
        yield from ((pe.member, name) for name in pe.imports if name.lower() not in own)


def _listed(module: ast.Module) -> frozenset[str] | None:
    """The literal list given to initialize_process; None when it is made elsewhere."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _name(node.func) == _CALL:
            value = next((keyword.value for keyword in node.keywords if keyword.arg == _LIST), None)
            if value is None:
                return None
            names = literal(value)
            if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
                return None
            return frozenset(names)
    return None


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


RULES = (
    Rule(
        "torch-preload",
        "torch/_rocm_init.py loads each ROCm library that torch's own libraries need and do not find.",
        _preload,
    ),
)
