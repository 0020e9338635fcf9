"""The page of the commands and the pages of help, from the command line itself."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from blocks.text import code, table
from rocwright.cli import COMMANDS, CommandGroup
from rocwright.cli.help import HelpPage, examples
from rocwright.cli.parse import app

HELP = "src/rocwright/cli/help.json"

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
        description, helps, placed, options = _parts(command)
        usage = _usage(words, placed, options)
        parts.append(f"## {' '.join(words)}\n\n```text\n{usage}\n```\n\n{description}\n")
        shown = "".join(f"$ {line}\n" for line in lines.get(" ".join(words[1:]), ()))
        parts.append(f"```console\n{shown}```\n")
        if placed:
            rows = [(code(item.names[0]), _meaning(item, helps)[0]) for item in placed]
            parts.append(table(("Argument", "Meaning"), rows))
        if options:
            parts.append(table(("Option", "Meaning", "Default"), (_option(item, helps) for item in options)))
    return "\n".join(parts)


def render_help() -> str:
    """What `--help` shows of every command and group, as JSON that `rocwright.cli.help` reads."""
    pages = {" ".join(words[1:]): _page(words, command) for words, command in commands(app)}
    pages |= dict(_group_pages(COMMANDS, (), pages))
    return msgspec.json.format(msgspec.json.encode(dict(sorted(pages.items()))), indent=1).decode() + "\n"


_EVERY = (
    ("-h, --help", "Say what it does and takes."),
    ("-q, --quiet", "Print results and errors only."),
    ("-v, --verbose", "Say more: the commands that are run, what lies behind an error."),
)


def _group_pages(
    group: CommandGroup, words: tuple[str, ...], pages: dict[str, HelpPage]
) -> Iterator[tuple[str, HelpPage]]:
    """The page of a group and of those in it: its commands by heading, each with its first sentence."""
    rows = {}
    for heading, named in group.commands.items():
        rows[heading] = tuple(
            (
                name,
                below.help if isinstance(below, CommandGroup) else pages[" ".join((*words, name))].about[0],
            )
            for name, below in named.items()
        )
    for name, below in group.named():
        if isinstance(below, CommandGroup):
            yield from _group_pages(below, (*words, name), pages)
    own = () if words else (("--version", "Say the version."),)
    usage = " ".join(("rocwright", *words, "COMMAND"))
    yield (
        " ".join(words),
        HelpPage(usage, (group.help,), {**rows, "Options of every command": (*_EVERY, *own)}),
    )


def _page(words: tuple[str, ...], command: typing.Any) -> HelpPage:
    description, helps, placed, options = _parts(command)
    rows: dict[str, list[tuple[str, str]]] = {}
    for item in placed:
        rows.setdefault("Arguments", []).append((item.names[0], helps.get(item.field_info.name, "")))
    for item in sorted(options, key=lambda item: _heading(item)[0]):
        meaning, default = _meaning(item, helps)
        default = default if item.required else default and f"default: {default}"
        told = f"{meaning.removesuffix('.')} ({default})." if default else meaning
        kind = "" if _is_flag(item) else f" {_type_word(item.hint)}"
        rows.setdefault(_heading(item)[1], []).append((", ".join(_spellings(item)) + kind, told))
    about = [" ".join(paragraph.split()) for paragraph in description.split("\n\n")]
    lines = examples().get(" ".join(words[1:]), ())
    below = {heading: tuple(told) for heading, told in rows.items()}
    return HelpPage(_usage(words, placed, options), tuple(about), below, lines)


def _heading(argument: typing.Any) -> tuple[int, str]:
    """What an option stands below, and where among the headings; those without one come first."""
    for group in argument.parameter.group or ():
        # Groups that a command declares are numbered; the parser's own is not.
        if isinstance(group.sort_key, tuple):
            return group.sort_key[1], group.name
    return -1, "Options"


def _parts(command: typing.Any) -> tuple[str, dict[str, str], list[typing.Any], list[typing.Any]]:
    """What a command does, what its parameters mean by Python name, its arguments and its options."""
    description, helps = _prose(command.default_command.__doc__ or "")
    arguments = list(command.assemble_argument_collection())
    for shared in (one for one in arguments if one.names[0] == "*"):
        helps |= _field_helps(shared.hint)
    # A class of options stands there besides its options.
    arguments = [one for one in arguments if one.names[0] != "*"]
    placed = [item for item in arguments if item.index is not None]
    return description, helps, placed, [item for item in arguments if item.index is None]


def _usage(words: tuple[str, ...], placed: list[typing.Any], options: list[typing.Any]) -> str:
    usage = [*words, *map(_placed, placed)]
    usage += [f"{item.names[0]} {_type_word(item.hint)}" for item in options if item.required]
    usage += ["[OPTIONS]"] if any(not item.required for item in options) else []
    return " ".join(usage)


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


def _option(argument: typing.Any, helps: dict[str, str]) -> tuple[str, str, str]:
    """Name, meaning and default of one option."""
    meaning, default = _meaning(argument, helps)
    if not _is_flag(argument):
        shown = f"{argument.names[0]} {_type_word(argument.hint)}"
    elif isinstance(argument.field_info.default, bool):
        shown = _spellings(argument)[0]
    else:
        shown = "`, `".join(argument.names)
    return code(shown), meaning, code(default) if default and not argument.required else default


def _spellings(argument: typing.Any) -> list[str]:
    """The names of an option; of a flag only those that change something."""
    if not _is_flag(argument) or not isinstance(argument.field_info.default, bool):
        return list(argument.names)
    default = argument.field_info.default
    return [name for name in argument.names if (name in argument.negatives) == default]


def _is_flag(argument: typing.Any) -> bool:
    return bool in (argument.hint, *typing.get_args(argument.hint))


def _meaning(argument: typing.Any, helps: dict[str, str]) -> tuple[str, str]:
    """What an option does, and its default in words; both may be empty."""
    names, default = argument.names, argument.field_info.default
    meaning = helps.get(argument.field_info.name) or argument.parameter.help or _SHARED_HELP.get(names[0], "")
    if _is_flag(argument) and default is True:
        meaning = f"Do not {meaning[:1].lower()}{meaning[1:]}"
    if argument.required:
        return meaning, "required"
    return meaning, "" if _is_flag(argument) or default in (None, (), [], "") else str(default)


def _placed(argument: typing.Any) -> str:
    name: str = argument.names[0]
    if argument.field_info.kind.name == "VAR_POSITIONAL":
        return f"{name}..."
    return name if argument.required else f"[{name}]"
