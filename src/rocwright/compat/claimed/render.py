"""The compatibility facts as they are shown: Markdown, reStructuredText of ROCm's documentation, JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rocwright.compat.claimed.facts import Conflict, Facts, find_conflicts
from rocwright.compat.claimed.markup import Markup
from rocwright.compat.claimed.sections import ON_PAGE, Block, Bullets, Section, Table, section, version_word
from rocwright.model.compat import (
    DataType,
    DataTypeNotes,
    Docker,
    Domain,
    Hardware,
    Issue,
    Modules,
    OtherType,
    Page,
    Passage,
    PythonRow,
    StatusRow,
    TorchRow,
    UseCase,
)
from rocwright.model.compat_releases import (
    Distributions,
    Feature,
    FeatureList,
    Library,
    Products,
    RocmRelease,
    Statement,
    Topic,
)

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


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `rocwright compat show --json` prints: the rows of each section, or of the one that is named.

    `versions` is the release whose versions of libraries are shown; texts are marked up
    as in `compat.toml`.
    """

    page: Page | None = None
    overview: tuple[Passage, ...] | None = None
    use_cases: tuple[UseCase, ...] | None = None
    docker: Docker | None = None
    versions: RocmRelease | None = None
    libraries: tuple[Library, ...] | None = None
    data_type_notes: DataTypeNotes | None = None
    data_types: tuple[DataType, ...] | None = None
    modules: Modules | None = None
    domain_libraries: tuple[Domain, ...] | None = None
    lists: tuple[FeatureList, ...] | None = None
    features: tuple[Feature, ...] | None = None
    issues: tuple[Issue, ...] | None = None
    releases: tuple[RocmRelease, ...] | None = None
    products: tuple[Products, ...] | None = None
    distributions: tuple[Distributions, ...] | None = None
    other_types: tuple[OtherType, ...] | None = None
    hardware: tuple[Hardware, ...] | None = None
    pythons: tuple[PythonRow, ...] | None = None
    status: tuple[StatusRow, ...] | None = None
    torch: tuple[TorchRow, ...] | None = None
    topics: tuple[Topic, ...] | None = None
    statements: tuple[Statement, ...] | None = None
    conflicts: tuple[Conflict, ...] | None = None


def exported(facts: Facts, name: str, rocm: str) -> Shown:
    """All facts, or those of one section; raises `UsageError` for a section that does not exist."""
    if not name:
        return Shown(**{key: value for rows in _ROWS.values() for key, value in rows(facts, rocm).items()})
    section(facts, name)
    return Shown(**_ROWS[name](facts, rocm))


def _data_types(facts: Facts, rocm: str) -> dict[str, Any]:
    return {"data_type_notes": facts.page.data_types, "data_types": facts.page.data_type}


def _modules(facts: Facts, rocm: str) -> dict[str, Any]:
    return {"modules": facts.page.modules}


def _domains(facts: Facts, rocm: str) -> dict[str, Any]:
    return {"domain_libraries": facts.page.domain}


_ROWS: Mapping[str, Callable[[Facts, str], Mapping[str, Any]]] = {
    "overview": lambda facts, rocm: {"page": facts.page.page, "overview": facts.page.overview},
    "use-cases": lambda facts, rocm: {"use_cases": facts.page.use_case},
    "docker": lambda facts, rocm: {"docker": facts.page.docker},
    "libraries": lambda facts, rocm: {
        "versions": facts.release(rocm),
        "libraries": facts.libraries.library,
    },
    "supported": lambda facts, rocm: {
        **_data_types(facts, rocm),
        **_modules(facts, rocm),
        **_domains(facts, rocm),
    },
    "data-types": _data_types,
    "modules": _modules,
    "domain-libraries": _domains,
    "features": lambda facts, rocm: {"lists": facts.features.list, "features": facts.features.feature},
    "issues": lambda facts, rocm: {"issues": facts.page.issue},
    "library-versions": lambda facts, rocm: {"releases": facts.releases},
    "machines": lambda facts, rocm: {
        "products": facts.libraries.products,
        "distributions": facts.libraries.distributions,
        "other_types": facts.page.other_type,
        "hardware": facts.page.hardware,
        "pythons": facts.page.python,
    },
    "status": lambda facts, rocm: {"status": facts.page.status, "torch": facts.page.torch},
    "statements": lambda facts, rocm: {
        "topics": facts.features.topic,
        "statements": facts.statements,
    },
    "conflicts": lambda facts, rocm: {"conflicts": find_conflicts(facts)},
}
