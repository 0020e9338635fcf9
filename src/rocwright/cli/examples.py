"""How each command is called for what, by the table `data/examples.toml`: its help ends with that."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from cyclopts import App

from rocwright.data import load_table


class ExampleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Command lines by the words that call a command, without the program: `set promote`."""

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
