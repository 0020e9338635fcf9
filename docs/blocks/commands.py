"""The page of the commands, from the command line itself."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from itertools import pairwise

from blocks.text import code, table
from rocwright.cli import app
from rocwright.cli.help import examples

# Said once here where a command does not say it of its own.
_SHARED_HELP = {
    "--json": "Print the result as JSON on stdout.",
    "--jobs": "Threads (default: this machine's cores).",
}


def render_cli() -> str:
    """Every command: how it is called, what it does, its arguments and options."""
    parts: list[str] = []
    lines = examples()
    for words, command in commands(app):
        function = command.default_command
        description, helps = _prose(function.__doc__ or "")
        arguments = list(command.assemble_argument_collection())
        for shared in (one for one in arguments if one.names[0] == "*"):
            helps |= _field_helps(shared.hint)
        # A class of options stands there besides its options.
        arguments = [one for one in arguments if one.names[0] != "*"]
        placed = [item for item in arguments if item.index is not None]
        options = [item for item in arguments if item.index is None]
        usage = [*words, *(_placed(item) for item in placed)]
        usage += [f"{item.names[0]} {_type_word(item.hint)}" for item in options if item.required]
        usage += ["[OPTIONS]"] if any(not item.required for item in options) else []
        parts.append(f"## {' '.join(words)}\n\n```text\n{' '.join(usage)}\n```\n\n{description}\n")
        shown = "".join(f"$ {line}\n" for line in lines.get(" ".join(words[1:]), ()))
        parts.append(f"```console\n{shown}```\n")
        if placed:
            rows = [(code(item.names[0]), _meaning(item, helps)) for item in placed]
            parts.append(table(("Argument", "Meaning"), rows))
        if options:
            parts.append(table(("Option", "Meaning", "Default"), (_option(item, helps) for item in options)))
    return "\n".join(parts)


def commands(
    group: typing.Any, words: tuple[str, ...] = ("rocwright",)
) -> Iterator[tuple[tuple[str, ...], typing.Any]]:
    """Every command that does something, with the words that call it; `group` is the application."""
    for name in group:
        if name.startswith("-"):
            continue
        command = group[name]
        if command.default_command is None:
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


def _type_word(hint: object) -> str:
    """`pathlib.Path | None` as `PATH`, a list of them too."""
    if typing.get_origin(hint) is typing.Literal:
        return "|".join(typing.get_args(hint))
    options = [kind for kind in typing.get_args(hint) if kind not in (type(None), ...)] or [hint]
    if typing.get_args(options[0]):
        return _type_word(options[0])
    return {"Path": "PATH", "int": "NUMBER", "str": "TEXT"}.get(getattr(options[0], "__name__", ""), "VALUE")


def _prose(docstring: str) -> tuple[str, dict[str, str]]:
    """The description of a command, and of each of its parameters by Python name."""
    # Python 3.13 has taken the indentation off already.
    text, _, parameters = inspect.cleandoc(docstring).partition("Parameters\n")
    lines = [line.strip() for line in text.strip().splitlines()]
    found: dict[str, list[str]] = {}
    name = ""
    for line in parameters.splitlines()[1:]:
        if re.fullmatch(r"\w+", line):
            name = line.strip()
            found[name] = []
        elif name and line.strip():
            found[name].append(line.strip())
    return "\n".join(lines), {key: " ".join(words) for key, words in found.items()}


def _field_helps(options: type) -> dict[str, str]:
    """What stands below each field of a class of options, by the field's name."""
    body = ast.parse(textwrap.dedent(inspect.getsource(options))).body[0].body
    return {
        field.target.id: " ".join(told.value.value.split())
        for field, told in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(told, ast.Expr)
    }


def _meaning(argument: typing.Any, helps: dict[str, str]) -> str:
    shared = argument.parameter.help or _SHARED_HELP.get(argument.names[0], "")
    return helps.get(argument.field_info.name) or shared


def _option(argument: typing.Any, helps: dict[str, str]) -> tuple[str, str, str]:
    """Name, meaning and default of one option."""
    names, default = argument.names, argument.field_info.default
    flag = bool in (argument.hint, *typing.get_args(argument.hint))
    if flag and isinstance(default, bool):
        # Only the spelling that changes something.
        shown = next(name for name in names if (name in argument.negatives) == default)
    elif flag:
        shown = "`, `".join(names)
    else:
        shown = f"{names[0]} {_type_word(argument.hint)}"
    meaning = _meaning(argument, helps)
    if flag and default is True:
        meaning = f"Do not {meaning[:1].lower()}{meaning[1:]}"
    if argument.required:
        told = "required"
    else:
        told = "" if flag or default in (None, (), []) else code(str(default))
        told = "" if default == "" else told
    return code(shown), meaning, told


def _placed(argument: typing.Any) -> str:
    name: str = argument.names[0]
    if argument.field_info.kind.name == "VAR_POSITIONAL":
        return f"{name}..."
    return name if argument.required else f"[{name}]"
