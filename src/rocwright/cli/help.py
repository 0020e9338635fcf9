"""What help says besides a command's own words: examples, projects by name; and `rocwright completion`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, TypeVar

import msgspec
from cyclopts import App

from rocwright.data import load_table
from rocwright.system import console

F = TypeVar("F", bound=Callable[..., Any])


# -- how a command is called: examples at the end of its help


class ExampleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/examples.toml`: command lines by the words that call a command (`set promote`)."""

    examples: dict[str, tuple[str, ...]]


def examples() -> dict[str, tuple[str, ...]]:
    """Command lines by the words that call a command, without the program."""
    return load_table("examples", ExampleTable).examples


def add_examples(root: App, words: Sequence[str]) -> None:
    """Have the help that the words ask for end with examples; other words change nothing.

    Only then: no command reads the table when it is run.
    """
    command, rest, called = root, list(words), []
    while rest and not rest[0].startswith("-") and rest[0] in command:
        called.append(rest.pop(0))
        command = command[called[-1]]
    before = rest[: rest.index("--")] if "--" in rest else rest
    lines = examples().get(" ".join(called), ()) if "--help" in before or "-h" in before else ()
    if lines:
        shown = "\n".join(f"$ {line}" for line in lines)
        command.help_epilogue = f"Examples:\n\n```console\n{shown}\n```"


# -- the names of the family: another row of the tables is another name in the help


def names_family(command: F) -> F:
    """Fill `{short}` and the like in a command's help."""
    if command.__doc__:
        command.__doc__ = command.__doc__.format_map(family_words())
    return command


@cache
def family_words() -> dict[str, str]:
    """Lists of projects by what they have in common, from the built-in tables.

    `short` are the names that a command line takes; `hipified` have a hipify script of their own; `required`
    may be lacking nowhere, `optional` on Windows; `versions` are lines of output; `installed` are what people
    install together; `order` is that of a build; `split` have device code.
    """
    # Not above: of all help only that of sources and builds needs these tables.
    from rocwright.builder.decide.recipe import recipes
    from rocwright.model.channels import LandingTable
    from rocwright.model.project import ProjectTable

    rows = load_table("projects", ProjectTable).projects
    order = recipes().recipe
    product = load_table("landing", LandingTable).product[0]
    return {
        "short": ", ".join(row.alias or row.name for row in rows),
        "hipified": and_list([row.name for row in rows if row.hipify]),
        "required": and_list([row.name for row in rows if not row.optional("windows")]),
        "optional": and_list([row.name for row in rows if row.optional("windows")]),
        "versions": and_list([f"`{row.name}_version=…`" for row in rows]),
        "installed": and_list([product.name, *product.together]),
        "order": ", ".join(row.project for row in order),
        "split": and_list([row.project for row in order if row.device_code]),
    }


def and_list(names: Sequence[str]) -> str:
    """`torch, torchaudio and torchvision`."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


# -- what a shell completes


def completion(shell: Literal["bash", "fish", "powershell", "zsh"], /) -> None:
    """Print what makes a shell complete commands, options and files of rocwright.

    Write it where the shell looks for such files, and again after an update. Making it takes seconds: every
    command is read.

    Parameters
    ----------
    shell
        The shell that it is for.
    """
    # Not above: the application names this command before it is there itself.
    from rocwright.cli import app

    console.out(app.generate_completion(shell=shell).rstrip("\n"))
