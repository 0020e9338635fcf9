"""`rocwright compat query | show`: what documents say that PyTorch on ROCm supports, asked or as pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.reply import Reply, replies
from rocwright.compat.claimed.answer import answer
from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.judge import Answer, Reason
from rocwright.compat.claimed.markup import Markup
from rocwright.compat.claimed.question import parse_question, with_options
from rocwright.compat.claimed.render import as_markdown, as_rst, exported, markup_of, page_markdown, page_rst
from rocwright.compat.claimed.sections import SECTIONS, Bullets, Section, Table, section
from rocwright.compat.claimed.vocabulary import known_words
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.system import console


@replies(before="config")
def compat_query(
    *question: str,
    gpu: Annotated[str, Parameter(name=["--gpu", "--target"])] = "",
    torch: str = "",
    rocm: str = "",
    python: str = "",
    platform: Literal["", "linux", "windows", "wsl"] = "",
    about: Annotated[str, Parameter(name=["--about", "--feature"])] = "",
    config: Path | None = None,
) -> Reply:
    """Answer a question about what PyTorch on ROCm supports: yes, partly, no, unknown, list; and who says so.

    A combination is as supported as its weakest part, which the answer names. Everything that a question
    names is used, or reported as being in no source; an unknown word is an error. Without words or options it
    lists what can be asked for. A question that names no platform is about Linux.

    For example: rocwright compat query "does gfx1151 have flash attention in torch 2.9?"

    Parameters
    ----------
    question
        The question, in quotes or as words.
    gpu
        GPUs, separated by commas: targets, families, chips, products.
    torch
        A version of PyTorch.
    rocm
        A release of ROCm, or its line.
    python
        A version of Python.
    platform
        The platform.
    about
        A feature, library, project, data type or function.
    json
        Print the answer as JSON; its field verdict is one of yes, partly, no, unknown, list.
    config
        A rocwright.toml with rows of your own (default: the one here).
    """
    facts = load_facts(read_overlay(config))
    options = {
        "gpu": gpu,
        "torch": torch,
        "rocm": rocm,
        "python": python,
        "platform": platform,
        "about": about,
    }
    if not question and not any(options.values()):
        known = known_words(facts)
        return Reply(known, lambda: show_words(known))
    found = answer(with_options(parse_question(" ".join(question), facts), facts, **options), facts)
    return Reply(found, lambda: show_answer(found))


def _refuse_other_form(given: Mapping[str, object]) -> None:
    if given["form"] != "table":
        raise UsageError(
            f"--json and --format {given['form']} contradict each other", next_step="give one of them"
        )


@replies(before="config", refuse=_refuse_other_form)
def compat_show(
    name: Annotated[str, Parameter(name="SECTION")] = "",
    /,
    *,
    rocm: str = "latest",
    form: Annotated[Literal["table", "markdown", "rst"], Parameter(name="--format")] = "table",
    config: Path | None = None,
) -> Reply:
    """Show what PyTorch on ROCm supports: all of it, or one section.

    Sections: overview, use-cases, docker, libraries, supported, data-types, modules, domain-libraries,
    features, issues, library-versions, machines, status, statements, conflicts. All of it as rst is the page
    in the form of ROCm's documentation, whose versions of libraries come from the version set that it names.

    For example: rocwright compat show libraries --rocm 10.0; rocwright compat show --format rst > page.rst

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

    return Reply(exported(facts, name, rocm), show)


def show_section(section: Section, markup: Markup) -> None:
    """A section for the terminal: its title, its text, its tables, then the sections inside."""
    console.out(section.title)
    for block in section.blocks:
        if isinstance(block, Table):
            rows = [[markup.plain(cell) for cell in row] for row in block.rows]
            console.table("", block.head, rows)
        elif isinstance(block, Bullets):
            for item in block.items:
                console.out(f"  * {markup.plain(item)}", hang=4)
        else:
            console.out(markup.plain(block.text), hang=0)
    console.out("")
    for inside in section.inside:
        show_section(inside, markup)


def show_answer(answer: Answer) -> None:
    """The verdict on the first line, then what is needed, what decides, and who says what of each part."""
    head = f"{answer.verdict}, {answer.level}" if answer.level else answer.verdict
    console.out(f"{head}: {answer.text}", hang=2)
    if answer.needs:
        console.out(f"needs     {answer.needs}", hang=10)
    if answer.weakest:
        console.out(f"weakest   {answer.weakest}", hang=10)
    for note in answer.notes:
        console.out(f"note      {note}", hang=10)
    for part in answer.parts:
        if len(answer.parts) > 1:
            told = (
                part.text
                if part.text.startswith(part.what)
                else f"{part.what}: {part.text}".removesuffix(": ")
            )
            console.out(f"{part.verdict:<9} {told}", hang=10)
        for reason in part.because:
            _show_reason(reason)


def _show_reason(reason: Reason) -> None:
    word = f"{reason.answer}, {reason.level}" if reason.level else reason.answer
    told = f"{word} ({reason.where}): " if word and reason.where else f"{word}: " if word else ""
    console.out(f"because   {told}{reason.text}", hang=10)
    for source in reason.sources:
        console.out(f"          {source.address}{f' ({source.date})' if source.date else ''}")


def show_words(known: Mapping[str, tuple[str, ...]]) -> None:
    """What can be asked for."""
    console.table("", ("ask for", "such as"), [[kind, ", ".join(words)] for kind, words in known.items()])
