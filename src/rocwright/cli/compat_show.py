"""`rocwright compat show`: the compatibility page, or a section of it, in any form."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.show_compat import show_section
from rocwright.compat.claimed.export import exported
from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.render import as_markdown, as_rst, markup_of, page_markdown, page_rst
from rocwright.compat.claimed.sections import SECTIONS, section
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.system import console


def _refuse_other_form(given: Mapping[str, object]) -> None:
    if given["form"] != "table":
        raise UsageError(f"--json and --format {given['form']} are two forms", next_step="give one of them")


@answers(before="config", refuse=_refuse_other_form)
def compat_show(
    name: Annotated[str, Parameter(name="SECTION")] = "",
    /,
    *,
    rocm: str = "latest",
    form: Annotated[Literal["table", "markdown", "rst"], Parameter(name="--format")] = "table",
    config: Path | None = None,
) -> Answer:
    """Show what PyTorch on ROCm supports: all of it, or one section.

    Sections: overview, use-cases, docker, libraries, supported, data-types, modules, domain-libraries,
    features, issues, library-versions, machines, status, statements, conflicts. All of it as rst is the page
    in the form of ROCm's documentation, whose versions of libraries come from the version set that it names.

    For example: rocwright compat show libraries --rocm 7.0; rocwright compat show --format rst > page.rst

    Parameters
    ----------
    name
        The section.
    rocm
        The release of ROCm whose versions of libraries are shown.
    form
        Tables for the terminal, Markdown, or reStructuredText.
    json
        Print the rows of the tables as JSON.
    config
        A rocwright.toml with rows of your own (default: the one here).
    """
    facts = load_facts(read_overlay(config))
    markup = markup_of(facts, rocm)

    def show() -> None:
        if not name and form != "table":
            console.out((page_rst(facts) if form == "rst" else page_markdown(facts, markup)).rstrip("\n"))
            return
        for one in [section(facts, name)] if name else [build(facts) for build in SECTIONS.values()]:
            if form == "table":
                show_section(one, markup)
            else:
                console.out((as_rst if form == "rst" else as_markdown)(one, markup).rstrip("\n"))

    return Answer(exported(facts, name, rocm), show)
