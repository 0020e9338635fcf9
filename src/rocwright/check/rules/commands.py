"""Rules about what a wheel offers by name: entry points, and scripts by their first line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser, Error

from rocwright.check.context import Context, Problem, Rule
from rocwright.check.facts import Facts
from rocwright.check.modules import ModuleTable

_FILE = "entry_points.txt"
_COMMANDS = ("console_scripts", "gui_scripts")
_NAME = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_VALUE = re.compile(rf"(?P<module>{_NAME})\s*(?::\s*(?P<attr>{_NAME})\s*)?(?:\[[^\]]*\]\s*)?")
_FIX = "correct it where the project declares its entry points, then build again"
# Where a system has its interpreters; any other absolute path is one of the machine that built the wheel.
_SYSTEM = re.compile(r"#!\s*/(usr/(local/)?)?bin/[^/\s]+(\s.*)?")
_BUILD_PYTHON = re.compile(r"#!\s*(?P<path>/\S*/(python|pypy)[0-9.]*[a-z]*)(\s.*)?")


def _parsed(text: str) -> ConfigParser | str:
    """The file as installers read it, or why they cannot."""
    parser = ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    try:
        parser.read_string(text)
    except Error as error:
        return str(error).replace("\n", " ").replace("<string>", _FILE)
    return parser


def _member(facts: Facts) -> tuple[str, str] | None:
    found = [f"{info}/{_FILE}" for info in facts.dist_infos if f"{info}/{_FILE}" in facts.texts]
    return (found[0], facts.texts[found[0]]) if len(facts.dist_infos) == 1 and found else None


def _commands(facts: Facts, context: Context) -> Iterator[Problem]:
    told = _member(facts)
    # The marks of a merge are told by their own rule.
    if told is None or told[0] in facts.unmerged:
        return
    member, text = told
    parser = _parsed(text)
    if isinstance(parser, str):
        yield Problem(f"installers cannot read it: {parser}", _FIX, member)
        return
    for group in _COMMANDS:
        for name, value in parser.items(group) if parser.has_section(group) else ():
            match = _VALUE.fullmatch(value)
            if match is None or match["attr"] is None:
                yield Problem(f"{group}: {name} = {value} is no module:function", _FIX, member)
            elif (why := _leads_nowhere(match["module"], match["attr"], facts, context)) is not None:
                yield Problem(f"the command {name} ends with an error: {why}", _FIX, member)


def _plugins(facts: Facts, context: Context) -> Iterator[Problem]:
    told = _member(facts)
    parser = _parsed(told[1]) if told is not None else ""
    if told is None or isinstance(parser, str):
        return
    for group in parser.sections():
        for name, value in parser.items(group) if group not in _COMMANDS else ():
            match = _VALUE.fullmatch(value)
            if match is not None:
                why = _leads_nowhere(match["module"], match["attr"], facts, context)
                if why is not None:
                    yield Problem(f"{group}: {name} cannot be loaded: {why}", _FIX, told[0])


def _leads_nowhere(module: str, attr: str | None, facts: Facts, context: Context) -> str | None:
    """Why an entry point cannot be loaded; None also where what is at hand cannot tell."""
    top = module.split(".")[0]
    own = context.modules[facts.name]
    if own.kinds.get(top) in ("package", "module"):
        return _lost_in(own, "the wheel", module, attr)
    # Wheels of several environments may bring it: one that has it is enough.
    told = [
        _lost_in(table, table.project, module, attr)
        for table in context.tables(top)
        if table.kinds.get(top) == "package"
    ]
    return told[0] if told and all(told) else None


def _lost_in(table: ModuleTable, where: str, module: str, attr: str | None) -> str | None:
    kind = table.kinds.get(module)
    if kind is None:
        parent = module.rpartition(".")[0]
        init = table.sources.get(parent)
        if table.kinds.get(parent) == "package" and (init is None or init.names is None or init.spreads):
            return None
        return f"{where} has no module {module}"
    source = table.sources.get(module)
    if attr is None or source is None or source.names is None or source.dynamic or source.problem is not None:
        return None
    first = attr.split(".")[0]
    if first in source.names or first.startswith("__") or table.kinds.get(f"{module}.{first}") is not None:
        return None
    return f"{module} has no {first}"


def _scripts(facts: Facts, _: Context) -> Iterator[Problem]:
    for member, line in facts.shebangs.items():
        match = _BUILD_PYTHON.fullmatch(line)
        if match is not None and _SYSTEM.fullmatch(line) is None:
            yield Problem(
                f"its first line names an interpreter of the machine that built it: {match['path']}",
                "write #!python, which installers replace, or use an entry point",
                member,
            )


RULES = (
    Rule(
        "commands",
        "entry_points.txt can be read, and each command leads to a function that is there.",
        _commands,
    ),
    Rule("plugins", "Other entry points that lead into a package at hand lead to something.", _plugins),
    Rule("script-interpreter", "No script names an interpreter of the machine that built it.", _scripts),
)
