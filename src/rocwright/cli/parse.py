"""The parser of the command line: the application, words that it refuses, and older ones, which are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal, get_args, get_origin

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    UnknownOptionError,
    ValidationError,
)
from cyclopts.exceptions import RepeatArgumentError, UnknownCommandError, UnusedCliTokensError
from cyclopts.help import HelpPanel

from rocwright import __version__
from rocwright.cli import COMMANDS, CommandGroup
from rocwright.cli.help import help_pages, show_rows, show_text
from rocwright.errors import UsageError
from rocwright.system import console

# What Python calls such values says little to people.
_KINDS: Mapping[type, str] = {int: "not a whole number", float: "not a number"}


def _application(name: str, group: CommandGroup) -> App:
    """A group for the parser; a command is imported when it is called."""
    made = App(
        name=name,
        version=__version__,
        help=group.help,
        # `guarded` says it; cyclopts would end without a word.
        suppress_keyboard_interrupt=False,
    )
    for word, command in group.named():
        if isinstance(command, CommandGroup):
            made.command(_application(word, command))
        else:
            made.command(f"rocwright.cli.{command}", name=word)
    return made


app = _application("rocwright", COMMANDS)


def parsed(app: App, words: Sequence[str] | None) -> None:
    """Run the command that the words name (None: those of the process); raises `UsageError` for others."""
    try:
        app(words, exit_on_error=False, print_error=False)
    except CycloptsError as problem:
        raise _told(problem, " ".join((app.name[0], *(problem.command_chain or ())))) from None


class ScriptHelp:
    """The help of a documented script, in the form that help of commands has; the parser calls it."""

    def render_usage(self, _terminal: object, _options: object, usage: object) -> None:
        """How the script is called."""
        console.out(f"Usage: {str(usage).strip().removeprefix('Usage: ')}")

    def render_description(self, _terminal: object, _options: object, description: object) -> None:
        """What it does."""
        show_text(_plain(description))

    def __call__(self, console: object, options: object, panel: HelpPanel) -> None:
        """Its commands, or options that belong together."""
        rows = []
        for entry in panel.entries:
            text = " ".join(_plain(entry.description).split())
            default = "required" if entry.required else entry.default and f"default: {entry.default}"
            told = f"{text.removesuffix('.')} ({default})." if default else text
            # Parsers before 5 tell no place's name apart, and no metavar.
            labels = [getattr(entry, "positional_label", None), *entry.names, *entry.shorts]
            value = getattr(entry, "metavar", None)
            rows.append((" ".join(filter(None, [", ".join(filter(None, labels)), value])), told))
        if rows:
            show_rows(_plain(panel.title), rows)


def _plain(text: object) -> str:
    return str(getattr(text, "primary_renderable", text or ""))


def _told(problem: CycloptsError, command: str) -> UsageError:
    """What is wrong in plain words; the next step says what was meant, what to choose, and where help is."""
    helped = f"`{command} --help`"
    if isinstance(problem, UnknownCommandError):
        return _no_command(problem, command)
    if isinstance(problem, UnknownOptionError):
        name = (problem.token.keyword or problem.token.value).partition("=")[0]
        known = [one for argument in problem.argument_collection for one in argument.names]
        near = _near(name, known)
        return UsageError(f"`{command}` has no option {name}", next_step=f"{near}{helped} lists them all")
    if isinstance(problem, UnusedCliTokensError):
        more = " ".join(map(repr, problem.unused_tokens or ()))
        return UsageError(f"`{command}` does not take {more}", next_step=f"leave it out, or see {helped}")
    if isinstance(problem, RepeatArgumentError):
        name = problem.token.keyword or ""
        return UsageError(f"{name} is given several times", next_step=f"give {name} once")
    if isinstance(problem, MissingArgumentError) and problem.argument is not None:
        return _missing(problem, problem.argument.names, command)
    if isinstance(problem, (CoercionError, ValidationError)) and problem.argument is not None:
        return _bad_value(problem, problem.argument.names[0], helped)
    return UsageError(str(problem), next_step=f"see {helped}")


def _no_command(problem: CycloptsError, command: str) -> UsageError:
    word = (problem.unused_tokens or [""])[0]
    helped = f"`{command} --help` lists them all"
    if word.startswith("-"):
        return UsageError(
            f"`{command}` has no option {word}", next_step=f"options go after the command; {helped}"
        )
    near = _near(word, [name for name in problem.app or () if not name.startswith("-")])
    elsewhere = [f"`rocwright {found}`" for found in _ending_with(word)]
    if not near and elsewhere:
        near = f"did you mean {_listed(elsewhere)}? "
    return UsageError(f"`{command}` has no command {word!r}", next_step=f"{near}{helped}")


def _ending_with(word: str, group: CommandGroup = COMMANDS, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command, and every group, whose last word this is."""
    for name, below in group.named():
        if name == word:
            yield " ".join((*words, name))
        if isinstance(below, CommandGroup):
            yield from _ending_with(word, below, (*words, name))


def _missing(problem: MissingArgumentError, names: Sequence[str], command: str) -> UsageError:
    given = [name for name in names if name in (problem.root_input_tokens or ())]
    what = f"{given[0]} needs a value" if given else f"`{command}` needs {names[0]}"
    choices = _choices(problem.argument.hint if problem.argument else None)
    step = f"choose {_listed(choices)}" if choices else f"give {names[0]}{' with a value' if given else ''}"
    # What must be given is given in every example.
    program, _, own = command.partition(" ")
    page = help_pages().get(own) if program == "rocwright" and not given and not choices else None
    if page is not None and page.examples:
        step += f", as in `{page.examples[0]}`"
    return UsageError(what, next_step=f"{step}; `{command} --help` says more")


def _bad_value(problem: CoercionError | ValidationError, name: str, helped: str) -> UsageError:
    """A value that is of another kind, or that the option's own rule refuses."""
    tokens = problem.argument.tokens if problem.argument else []
    token = getattr(problem, "token", None) or (tokens[0] if tokens else None)
    value = token.value if token else ""
    # Where a variable gave the value, it is the variable that has to change.
    name = (token.keyword if token else None) or name
    other = f"give another {name}; {helped} says more"
    if isinstance(problem, ValidationError):
        return UsageError(f"{name} {value} {problem.exception_message}", next_step=other)
    if problem.msg is not None:
        return UsageError(f"{name}: {problem.msg}", next_step=other)
    if choices := _choices(problem.target_type):
        return UsageError(
            f"{name} {value!r} is unknown",
            next_step=f"{_near(value, choices)}choose {_listed(choices)}; {helped} says more",
        )
    if problem.target_type is bool:
        step = f"give {name} without a value; {helped} says more"
        return UsageError(f"{name} {value!r} is neither true nor false", next_step=step)
    kind = _KINDS.get(problem.target_type) if isinstance(problem.target_type, type) else None
    return UsageError(str(problem) if kind is None else f"{name} {value!r} is {kind}", next_step=other)


def _choices(hint: object) -> list[str]:
    """The words that a value is chosen from, also where none may be given; empty where it is free."""
    if get_origin(hint) is Literal:
        return [str(one) for one in get_args(hint) if one]
    return [choice for inner in get_args(hint) for choice in _choices(inner)]


def _near(word: str, known: Iterable[str]) -> str:
    names = list(known)
    near = [name for name in names if len(word) > 2 and name.startswith(word)] or get_close_matches(
        word, names, n=1, cutoff=0.7
    )
    return f"did you mean {near[0]}? " if near else ""


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# By command, older to newer. Those whose meaning needs more than a name are told where they are read.
_OLDER: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("store", "fetch"): {"--target": "--artifact-group"},
    ("test", "setup-venv"): {"--find-links-url": "--find-links"},
}


def tell_older(words: Sequence[str]) -> None:
    """Say a line for each older spelling among the words of a command; they work all the same."""
    older = _OLDER.get(tuple(words[:2]), {})
    own = words[: words.index("--")] if "--" in words else words
    for name in dict.fromkeys(word.partition("=")[0] for word in own):
        if name in older:
            console.say(f"warning: {name} is an older spelling; give {older[name]}")
