"""The compatibility page as Markdown, and as reStructuredText in the form of ROCm's documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rocwright.compat.claimed.facts import Facts
from rocwright.compat.claimed.markup import Markup
from rocwright.compat.claimed.sections import ON_PAGE, Block, Bullets, Section, Table, version_word

_UNDERLINES = "=-^~"
_WIDTH = 80


def markup_of(facts: Facts, rocm: str) -> Markup:
    """How texts of these facts become pages, with the versions of a release of ROCm, or `latest`."""
    page = facts.page
    release = facts.release(rocm)
    versions = {row.name: version_word(release, row.name) for row in facts.libraries.library}
    return Markup(page.addresses, page.labels, page.page.version_set, versions)


def as_markdown(section: Section, markup: Markup, *, level: int = 2, headed: bool = True) -> str:
    """A section as Markdown; its heading is left out where the page has one of its own."""
    parts = [f"{'#' * level} {section.title}"] if headed else []
    parts += [_markdown(block, markup) for block in section.blocks]
    below = level + 1 if headed else level
    parts += [as_markdown(one, markup, level=below).rstrip("\n") for one in section.inside]
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block, markup: Markup) -> str:
    if isinstance(block, Bullets):
        return "\n".join(f"* {markup.markdown(item)}" for item in block.items)
    if isinstance(block, Table):
        cells = [block.head, ("---",) * len(block.head), *(map(markup.markdown, row) for row in block.rows)]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)
    text = markup.markdown(block.text)
    return f":::{{note}}\n{text}\n:::" if block.note else text


def page_markdown(facts: Facts, markup: Markup) -> str:
    """The whole page as Markdown, with the versions of the release that the markup is for."""
    page = facts.page.page
    offers = "\n".join(f"* {markup.markdown(offer)}" for offer in page.offers)
    head = (f"# {page.title}", markup.markdown(page.about), f"It offers:\n\n{offers}")
    sections = (as_markdown(build(facts), markup).rstrip("\n") for build in ON_PAGE.values())
    return "\n\n".join([*head, *sections]) + "\n"


def page_rst(facts: Facts) -> str:
    """The whole page as reStructuredText. It names no version of a library: the version set does."""
    page = facts.page.page
    markup = markup_of(facts, "latest")
    bar = "*" * _WIDTH
    head = (
        ":orphan:",
        f".. meta::\n    :description: {page.description}\n    :keywords: {', '.join(page.keywords)}",
        f".. version-set:: {page.version_set} {page.version}",
        f"{bar}\n{page.title}\n{bar}",
        _wrapped(markup.rst(page.about)),
        "It offers:",
        _rst_list(page.offers, markup),
    )
    sections = (as_rst(build(facts), markup) for build in ON_PAGE.values())
    return "\n\n".join([*head, *(text.rstrip("\n") for text in sections)]) + "\n"


def as_rst(section: Section, markup: Markup, *, level: int = 0) -> str:
    """A section as reStructuredText."""
    parts = [f".. _{section.label}:"] if section.label else []
    parts.append(f"{markup.rst(section.title)}\n{_UNDERLINES[level] * _WIDTH}")
    parts += [_rst(block, markup) for block in section.blocks]
    parts += [as_rst(one, markup, level=level + 1).rstrip("\n") for one in section.inside]
    return "\n\n".join(parts) + "\n"


def _rst(block: Block, markup: Markup) -> str:
    if isinstance(block, Bullets):
        return _rst_list(block.items, markup)
    if isinstance(block, Table):
        return "\n".join(_list_table(block, markup))
    text = _wrapped(markup.rst(block.text))
    return ".. note::\n\n" + textwrap.indent(text, "    ") if block.note else text


def _rst_list(items: Iterable[str], markup: Markup) -> str:
    return "\n\n".join(_hanging("- ", markup.rst(item)) for item in items)


def _list_table(table: Table, markup: Markup) -> Iterator[str]:
    yield ".. list-table::\n    :header-rows: 1\n"
    for row in (table.head, *table.rows):
        yield from _list_row(row, markup)


def _list_row(row: Sequence[str], markup: Markup) -> Iterator[str]:
    for number, cell in enumerate(row):
        first = "    * - " if number == 0 else "      - "
        yield _hanging(first, markup.rst(cell)).rstrip()


def _hanging(first: str, text: str) -> str:
    """Text after a bullet, its further lines below its first word."""
    if not text:
        return first
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
