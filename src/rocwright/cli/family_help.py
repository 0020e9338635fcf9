"""The names of the family in the words of help: another row of the tables is another name there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

from rocwright.builder.decide.recipe import recipes
from rocwright.data import load_table
from rocwright.model.channels import LandingTable
from rocwright.model.project import ProjectTable

F = TypeVar("F", bound=Callable[..., Any])


def and_list(names: Sequence[str]) -> str:
    """`torch, torchaudio and torchvision`."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


@cache
def family_words() -> dict[str, str]:
    """Lists of projects by what they have in common, from the built-in tables.

    `short` are the names that a command line takes; `hipified` have a hipify script of their own; `required`
    may be lacking nowhere, `optional` on Windows; `versions` are lines of output; `installed` are what people
    install together; `order` is that of a build; `split` have device code.
    """
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


def names_family(command: F) -> F:
    """Fill `{short}` and the like in a command's help."""
    if command.__doc__:
        command.__doc__ = command.__doc__.format_map(family_words())
    return command
