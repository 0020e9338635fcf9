"""How sections of the compatibility page and answers are printed."""

from __future__ import annotations

from rocwright.compat.claimed.judge import Answer
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
    """The answer on the first line, then what is needed, what is left open, and who says what."""
    console.out(answer.text if answer.text.startswith(answer.answer) else f"{answer.answer}: {answer.text}")
    if answer.needs:
        console.out(f"needs     {answer.needs}")
    if answer.open:
        console.out(f"say also  {', '.join(answer.open)}")
    for reason in answer.because:
        word = f"{reason.answer}, {reason.level}" if reason.level else reason.answer
        told = f"{word} ({reason.where}): " if word and reason.where else f"{word}: " if word else ""
        console.out(f"because   {told}{reason.text}")
        for source in reason.sources:
            console.out(f"          {source}")
