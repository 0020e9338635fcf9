"""Help as people see it, with examples and the names of projects in it; and `rocwright completion`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import resources
from textwrap import fill
from typing import Any, Literal, TypeVar

import msgspec

from rocwright.data import load_table
from rocwright.system import console

F = TypeVar("F", bound=Callable[..., Any])
# Columns that a name has in help beside its text.
_WIDEST = 26


# -- how a command is called: examples at the end of its help


class ExampleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/examples.toml`: command lines by the words that call a command (`set promote`)."""

    examples: dict[str, tuple[str, ...]]


def examples() -> dict[str, tuple[str, ...]]:
    """Command lines by the words that call a command, without the program."""
    return load_table("examples", ExampleTable).examples


# -- help as it is shown: ready in a file, since nobody waits for a hundred commands to be imported


class HelpPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The help of a command or group: how it is called, what it does, rows of name and meaning by heading."""

    usage: str
    about: tuple[str, ...]
    rows: dict[str, tuple[tuple[str, str], ...]]
    examples: tuple[str, ...] = ()


def help_pages() -> dict[str, HelpPage]:
    """Every page by the words that call its command; `docs/generate.py` writes them from the commands."""
    text = resources.files("rocwright.cli").joinpath("help.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, HelpPage])


def show_help(command: Sequence[str]) -> None:
    """Print the help of the command or group that the words name."""
    page = help_pages()[" ".join(command)]
    width = _width()
    console.out(_folded(f"Usage: {page.usage}", width, " " * len("Usage: ")))
    show_text("\n\n".join(page.about))
    for heading, rows in page.rows.items():
        show_rows(heading, rows)
    if page.examples:
        console.heading("\nExamples:")
        console.out("\n".join(f"  $ {line}" for line in page.examples))


def show_text(text: str) -> None:
    """Print paragraphs, each behind an empty line."""
    for paragraph in text.split("\n\n"):
        console.out("\n" + _folded(" ".join(paragraph.split()), _width()))


def show_rows(heading: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print names and texts below their heading."""
    console.heading(f"\n{heading}:")
    console.out("\n".join(_lines(rows, _width())))


def _width() -> int:
    """Columns of help: long lines are hard to read."""
    return min(console.width(), 100)


def _lines(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Names in a column and texts beside them; the text of a name that is too wide for it stands below."""
    column = max((len(name) for name, _ in rows if len(name) <= _WIDEST), default=8)
    for name, text in rows:
        head = f"  {name:<{column}}  "
        if len(name) > column:
            yield head.rstrip()
            head = " " * (column + 4)
        yield _folded(head + text, width, " " * (column + 4))


def _folded(text: str, width: int, indent: str = "") -> str:
    # A path or an option is never cut.
    return fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


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
    """Print the script that makes a shell complete rocwright's commands, options and files.

    Write it where the shell looks for such files, and again after an update. Making it takes seconds: every
    command is read.

    Parameters
    ----------
    shell
        The shell that it is for.
    """
    # Not above: help is shown without the parser.
    from rocwright.cli.parse import app

    console.out(app.generate_completion(shell=shell).rstrip("\n"))
