"""Every command, every kind of mistake on its line: one form of error, nothing printed, nothing begun.

The parser is the real one; what it would call is not called, so a mistake that it takes does no harm here.
"""

import re
import shlex
import typing

import pytest

from rocwright.cli import COMMANDS, CommandGroup, main, parse

APP = parse.app


def below(group, words=()):
    """Every command and group with the words that call it."""
    for name, found in group.named():
        yield " ".join((*words, name)), found
        if isinstance(found, CommandGroup):
            yield from below(found, (*words, name))


COMMAND = [words for words, found in below(COMMANDS) if not isinstance(found, CommandGroup)]
GROUP = [words for words, found in below(COMMANDS) if isinstance(found, CommandGroup)]


@pytest.fixture
def mistaken(monkeypatch, capsys):
    """Return what is wrong with a line, and what to do."""

    class Parser:
        name = APP.name

        def __call__(self, words, **how):
            APP.parse_args(words, **how)

    monkeypatch.setattr(parse, "app", Parser())

    def run(words):
        with pytest.raises(SystemExit) as ended:
            main(words)
            pytest.fail(f"taken: {shlex.join(words)}")
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, ""), said.out
        what, next_step, end = said.err.split("\n")
        assert end == ""
        assert what.startswith("error (UsageError): ")
        assert next_step.startswith("  next: ")
        return what.removeprefix("error (UsageError): "), next_step.removeprefix("  next: ")

    return run


def kind_of(hint):
    """What a value is: a type, its choices, or several of them."""
    if typing.get_origin(hint) is typing.Literal:
        return [choice for choice in typing.get_args(hint) if choice]
    if typing.get_origin(hint) in (tuple, list):
        return tuple
    inner = [kind_of(one) for one in typing.get_args(hint) if one is not type(None)]
    return inner[0] if inner else hint


def line_of(command):
    """The arguments of a command, its options, and a line with all that it needs."""
    app = APP
    for word in command.split():
        app = app[word]
    found = [one for one in app.assemble_argument_collection() if one.names[0] != "*"]
    placed, options = ([one for one in found if (one.index is None) is free] for free in (False, True))
    words = command.split()
    for one in found:
        kind = kind_of(one.hint)
        value = kind[0] if isinstance(kind, list) else "1"
        words += ([] if one in placed else [one.names[0]]) + [value] if one.required else []
    return placed, options, words


# Behind its own words stand those of another program.
@pytest.mark.parametrize("command", [command for command in COMMAND if command != "set bisect"])
def test_an_option_that_a_command_has_not(command, mistaken):
    _, options, line = line_of(command)
    for word in ("--frobnicate", "--frobnicate=3", "-Z"):
        what, next_step = mistaken([*line, word])
        assert what == f"`rocwright {command}` has no option {word.partition('=')[0]}"
        assert next_step == f"`rocwright {command} --help` lists them all"
    for name in [one.names[0] for one in options if len(one.names[0]) > 8][:1]:
        assert mistaken([*line, name[:4] + name[5:]])[1].startswith("did you mean --")


@pytest.mark.parametrize("command", COMMAND)
def test_too_few_words_and_too_many(command, mistaken):
    placed, options, line = line_of(command)
    if line != command.split():
        what, next_step = mistaken(command.split())
        needed = re.fullmatch(rf"`rocwright {command}` needs (\S+)", what)[1]
        assert next_step.startswith((f"give {needed}, as in `rocwright {command} ", "choose "))
        assert next_step.endswith(f"; `rocwright {command} --help` says more")
    several = [one for one in placed if one.field_info.kind.name == "VAR_POSITIONAL"]
    several += [one for one in [*placed, *options] if one.required and kind_of(one.hint) is tuple]
    if not several:
        room = sum(not one.required for one in placed)
        what, next_step = mistaken([*line, *["x"] * room, "y"])
        assert what == f"`rocwright {command}` does not take 'y'"
        assert next_step == f"leave it out, or see `rocwright {command} --help`"


@pytest.mark.parametrize("command", COMMAND)
def test_values_that_an_option_cannot_have(command, mistaken):
    """One option of each kind that the command has."""
    _, options, line = line_of(command)
    kinds = {str(kind_of(one.hint)): one for one in options if not one.required and one.parse}
    for option in kinds.values():
        name, kind = option.names[0], kind_of(option.hint)
        if kind is tuple:
            continue
        if kind is bool:
            what, next_step = mistaken([*line, f"{name}=maybe"])
            assert what == f"{name} 'maybe' is neither true nor false"
            assert next_step.startswith(f"give {name} without a value; ")
            continue
        listed = f"give {name} with a value; "
        if isinstance(kind, list):
            listed = rf"choose (.+, )?(.+ or )?{kind[-1]}; "
        what, next_step = mistaken([*line, name])
        assert what == f"{name} needs a value"
        assert re.match(listed, next_step), next_step
        assert mistaken([*line, name, "1", name, "1"]) == (
            f"{name} is given several times",
            f"give {name} once",
        )
        if isinstance(kind, list):
            what, next_step = mistaken([*line, name, "frob"])
            assert what == f"{name} 'frob' is unknown"
            assert re.match(listed, next_step)
        elif kind in (int, float):
            what, next_step = mistaken([*line, name, "x1"])
            assert re.fullmatch(rf"{name}:? 'x1' is not a (whole )?number", what)
            assert next_step == f"give another {name}; `rocwright {command} --help` says more"


@pytest.mark.parametrize("group", ["", *GROUP])
def test_words_that_a_group_has_not(group, mistaken):
    program = f"rocwright {group}".strip()
    helped = f"`{program} --help` lists them all"
    for words in (["frobnicate"], ["frobnicate", "--help"], ["frobnicate", "set", "--json"]):
        assert mistaken([*group.split(), *words]) == (f"`{program}` has no command 'frobnicate'", helped)
    told = (f"`{program}` has no option --frob", f"options go after the command; {helped}")
    assert mistaken([*group.split(), "--frob", "list"]) == told
