"""How sections of the compatibility page and answers are printed."""

from __future__ import annotations

from collections.abc import Mapping

from rocwright.compat.claimed.judge import Answer, Reason
from rocwright.compat.claimed.markup import Markup
from rocwright.compat.claimed.sections import Bullets, Section, Table
from rocwright.system import console


def show_section(section: Section, markup: Markup) -> None:
    """A section for the terminal: its title, its text, its tables, then the sections inside."""
    console.out(section.title)
    for block in section.blocks:
        if isinstance(block, Table):
            rows = [[markup.plain(cell) for cell in row] for row in block.rows]
            console.table("", block.head, rows)
        elif isinstance(block, Bullets):
            for item in block.items:
                console.out(f"  * {markup.plain(item)}")
        else:
            console.out(markup.plain(block.text))
    console.out("")
    for inside in section.inside:
        show_section(inside, markup)


def show_answer(answer: Answer) -> None:
    """The verdict on the first line, then what is needed, what decides, and who says what of each part."""
    head = f"{answer.verdict}, {answer.level}" if answer.level else answer.verdict
    console.out(f"{head}: {answer.text}")
    if answer.needs:
        console.out(f"needs     {answer.needs}")
    if answer.weakest:
        console.out(f"weakest   {answer.weakest}")
    for note in answer.notes:
        console.out(f"note      {note}")
    for part in answer.parts:
        if len(answer.parts) > 1:
            told = (
                part.text
                if part.text.startswith(part.what)
                else f"{part.what}: {part.text}".removesuffix(": ")
            )
            console.out(f"{part.verdict:<9} {told}")
        for reason in part.because:
            _show_reason(reason)


def _show_reason(reason: Reason) -> None:
    word = f"{reason.answer}, {reason.level}" if reason.level else reason.answer
    told = f"{word} ({reason.where}): " if word and reason.where else f"{word}: " if word else ""
    console.out(f"because   {told}{reason.text}")
    for source in reason.sources:
        console.out(f"          {source.address}{f' ({source.date})' if source.date else ''}")


def show_words(known: Mapping[str, tuple[str, ...]]) -> None:
    """What can be asked for."""
    console.table("", ("ask for", "such as"), [[kind, ", ".join(words)] for kind, words in known.items()])
