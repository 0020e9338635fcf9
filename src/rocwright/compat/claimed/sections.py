"""The sections of the compatibility page, as headings, paragraphs, lists and tables; their text is markup.

One source for the page in every form: what a form does with headings and tables is its own affair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches

import msgspec
from packaging.version import Version

from rocwright.compat.claimed.facts import Facts, find_conflicts, in_words
from rocwright.errors import UsageError
from rocwright.model.compat import TorchRow
from rocwright.model.compat_releases import RocmRelease, Statement


class Text(msgspec.Struct, frozen=True):
    """A paragraph; a `note` stands out."""

    text: str
    note: bool = False


class Bullets(msgspec.Struct, frozen=True):
    """A list."""

    items: tuple[str, ...]


class Table(msgspec.Struct, frozen=True):
    """A table; every row has as many cells as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Text | Bullets | Table
_ISSUE = re.compile(r"https://github\.com/([^/]+/[^/]+)/(?:issues|pull)/([0-9]+)")


class Section(msgspec.Struct, frozen=True):
    """A heading, what stands below it, and sections inside; other pages refer to it by its `label`."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    inside: tuple[Section, ...] = ()
    label: str = ""


def overview(facts: Facts) -> Section:
    """What PyTorch on ROCm is, and where it is developed and released."""
    rows = {row.id: row.text for row in facts.page.overview}
    versions = rows.pop("version-support", "")
    inside = (Section("version-support", "Version support", (Text(versions),)),) if versions else ()
    return Section("overview", "Support overview", tuple(map(Text, rows.values())), inside)


def use_cases(facts: Facts) -> Section:
    """What it is used for."""
    items = tuple(f"[{row.name}]({row.address}): {row.text}" for row in facts.page.use_case)
    return Section(
        "use-cases", "Use cases and recommendations", (Bullets(items),), label="pytorch-recommendations"
    )


def docker(facts: Facts) -> Section:
    """Docker images."""
    text = Text(facts.page.docker.text)
    return Section("docker", "Docker image compatibility", (text,), label="pytorch-docker-compat")


def libraries(facts: Facts) -> Section:
    """The libraries with the versions of one set."""
    rows = tuple(
        (f"[{row.name}]({row.address})", f"[{row.name}](version:{row.name})", row.purpose, row.users)
        for row in facts.libraries.library
    )
    head = ("ROCm library", "Version", "Purpose", "Used in")
    return Section("libraries", "Key ROCm libraries for PyTorch", (Table(head, rows),))


def library_versions(facts: Facts) -> Section:
    """Which version is in which release: the last known of each line, and where that was read."""
    last: dict[tuple[int, ...], RocmRelease] = {}
    for row in facts.releases:
        if row.versions:
            last.setdefault(Version(row.rocm).release[:2], row)
    lines = tuple(last.values())
    # No more side by side than a terminal of 80 columns shows.
    grids = [_grid(lines[first : first + 6], facts) for first in range(0, len(lines), 6)]
    sources = Table(
        ("ROCm", "Of", "PyTorch", "GPUs", "Source"),
        tuple(
            (
                row.rocm,
                row.date,
                _torch_of(row),
                _named(row.targets),
                f"[{source_name(row.source)}]({row.source})",
            )
            for row in facts.releases
        ),
    )
    elsewhere = Table(
        ("ROCm", "On", "PyTorch", "GPUs", "Limit"),
        tuple(
            (row.rocm, _PLATFORM[name], ", ".join(lists.torch), _named(lists.targets), lists.text)
            for row in facts.releases
            for name, lists in row.elsewhere.items()
        ),
    )
    intro = Text(
        "The last release of each line whose versions are known. *none*: the library is not part of that "
        "release; an empty field: the source does not mention it."
    )
    blocks: tuple[Block, ...] = (
        intro,
        *grids,
        sources,
        Text("What they list for other platforms than Linux:"),
        elsewhere,
    )
    return Section("library-versions", "Versions by release of ROCm", blocks)


_PLATFORM = {"linux": "Linux", "windows": "Windows", "wsl": "WSL"}


def _named(targets: Iterable[str]) -> str:
    return " ".join(f"`{target}`" for target in targets)


def _torch_of(row: RocmRelease) -> str:
    """Versions of PyTorch, with the GPUs that one is for alone."""
    return ", ".join(
        f"{version} ({_named(row.torch_for[version])})" if version in row.torch_for else version
        for version in row.torch
    )


def _grid(releases: Sequence[RocmRelease], facts: Facts) -> Table:
    return Table(
        ("ROCm library", *(row.rocm for row in releases)),
        tuple(
            (library.name, *(version_word(row, library.name) for row in releases))
            for library in facts.libraries.library
        ),
    )


def version_word(release: RocmRelease, library: str) -> str:
    """The library's version in a release, `none` where it is not in it, empty where that is unknown."""
    return "none" if library in release.absent else release.versions.get(library, "")


def source_name(address: str) -> str:
    """What an address is called in a table: `ROCm/TheRock#2056`, or the name of the page."""
    if match := _ISSUE.fullmatch(address):
        return f"{match[1]}#{match[2]}"
    return address.split("#")[0].rstrip("/").rpartition("/")[2].removesuffix(".html")


def data_types(facts: Facts) -> Section:
    """The types of tensors."""
    notes = facts.page.data_types
    rows = tuple(
        (
            " or ".join(f"`{name}`" for name in (row.name, *row.aliases)),
            row.text + ("" if row.native else "; not natively supported in ROCm"),
        )
        for row in facts.page.data_type
    )
    note = Text(f"{notes.unsigned} {notes.hardware}", note=True)
    blocks = (Text(notes.intro), Table(("Data type", "Description"), rows), note)
    return Section("data-types", "Supported data types", blocks)


def modules(facts: Facts) -> Section:
    """The core modules."""
    core = "On ROCm, the core of PyTorch supports: " + ", ".join(facts.page.modules.core) + "."
    return Section("modules", "Supported modules", (Text(facts.page.modules.text), Text(core)))


def domain_libraries(facts: Facts) -> Section:
    """The domain libraries with their notes."""
    rows = tuple((f"[{row.name}]({row.address})", row.text, row.note) for row in facts.page.domain)
    table = Table(("Library", "Description", "Note"), rows)
    title = "Supported domain libraries"
    return Section("domain-libraries", title, (Text(facts.page.domains.intro), table))


def supported(facts: Facts) -> Section:
    """Data types, modules and domain libraries together."""
    inside = (data_types(facts), modules(facts), domain_libraries(facts))
    return Section("supported", "Supported modules and data types", (), inside)


def features(facts: Facts) -> Section:
    """The lists of features, newest first."""
    inside = tuple(
        Section(
            f"features-{found.id.replace('/', '-')}",
            f"Key features and enhancements for {in_words(found)}",
            (Bullets(tuple(row.text for row in facts.features.feature if row.list == found.id)),),
        )
        for found in facts.features.list
    )
    return Section("features", "Features by release", (), inside)


def issues(facts: Facts) -> Section:
    """What is known not to work, and which release ended it."""
    rows = tuple(
        (
            row.text + (f" {_linked(row.sources[:1])}" if row.sources else ""),
            (f"PyTorch {'/'.join(row.torch)} with " if row.torch else "")
            + f"ROCm {' and '.join(row.rocm)}"
            + (f", fixed in {row.fixed}" if row.fixed else ""),
        )
        for row in facts.page.issue
    )
    return Section("issues", "Known issues and notes", (Table(("Issue", "In"), rows),))


def status(facts: Facts) -> Section:
    """What is built for which platform, and the versions of PyTorch."""
    rows = tuple(
        (
            row.name,
            row.torch.replace(",", ", "),
            row.linux,
            row.windows,
            "; ".join(
                filter(None, (f"[issue]({row.issue})" if row.issue else "", _as_of(row.source, facts)))
            ),
        )
        for row in facts.page.status
    )
    versions = tuple((row.name, row.linux, row.windows, _made_of(row, facts)) for row in facts.page.torch)
    readme = facts.page.page.status_source
    source = Text(f"As of {facts.date(readme)}, by [TheRock's README]({readme}).")
    inside = (
        Section(
            "status-versions",
            "Versions of PyTorch",
            (Table(("PyTorch", "Linux", "Windows", "Sources"), versions),),
        ),
    )
    table = Table(("Project or feature", "PyTorch", "Linux", "Windows", "Issue"), rows)
    return Section("status", "What is built", (source, table), inside)


def _as_of(source: str, facts: Facts) -> str:
    return f"as of [{facts.date(source)}]({source})" if source else ""


def _made_of(row: TorchRow, facts: Facts) -> str:
    """The sources of a version of PyTorch, and of when the row is where it is of another day."""
    then = _as_of(row.source, facts)
    if not row.ref:
        return then
    name = "/".join(row.origin.split("/")[-2:])
    triton = f"triton, on Linux: {row.triton}" if row.triton else ""
    parts = (f"`{row.ref}` of [{name}]({row.origin})", triton, f"audio and vision: {row.others}", then)
    return "; ".join(filter(None, parts))


def statements(facts: Facts) -> Section:
    """What is known of each topic, by GPU, version and platform."""
    head = ("GPUs", "For", "Answer", "Because")
    inside = tuple(
        Section(
            f"statements-{topic.id}",
            topic.name[:1].upper() + topic.name[1:],
            (Table(head, tuple(_row(row) for row in facts.statements if row.topic == topic.id)),),
        )
        for topic in facts.features.topic
    )
    return Section("statements", "Features by GPU, version and platform", (), inside)


def _row(row: Statement) -> tuple[str, ...]:
    needs = f" Needs `{row.needs}`." if row.needs else ""
    versions = (f"{name} {text}" for name, text in (("PyTorch", row.torch), ("ROCm", row.rocm)) if text)
    return (
        " ".join(f"`{target}`" for target in row.targets) or "all",
        "; ".join((*versions, *(name.capitalize() for name in row.platforms))) or "all",
        f"{row.answer}, {row.level}" if row.level else row.answer,
        f"{row.text}{needs} {_linked(row.sources)}",
    )


def conflicts(facts: Facts) -> Section:
    """Where sources contradict each other, version by version."""
    rows = tuple(
        (found.topic, found.torch, found.platform.capitalize(), *_row(said)[2:])
        for found in find_conflicts(facts)
        for said in found.statements
    )
    head = ("Topic", "PyTorch", "On", "Answer", "Because")
    intro = Text(
        "For these versions some sources say yes and others no. Both are listed; the answer depends."
    )
    return Section("conflicts", "Where sources contradict each other", (intro, Table(head, rows)))


def machines(facts: Facts) -> Section:
    """What AMD lists by name, what hardware has, and which Python wheels are built for."""
    products = tuple(
        (row.rocm, ", ".join(row.names), _linked(row.sources)) for row in facts.libraries.products
    )
    systems = tuple(
        (
            f"{row.rocm} to {row.through}" if row.through else row.rocm,
            _systems(row.whole),
            _systems(row.limited),
            _linked((row.source,)),
        )
        for row in facts.libraries.distributions
    )
    types = tuple(
        (
            row.name,
            " ".join(f"`{target}`" for target in row.targets),
            "; ".join((*row.types, *(f"{name} {limit}" for name, limit in row.limited.items())))
            + (f" {_linked((row.source,))}" if row.source else ""),
        )
        for row in facts.page.hardware
    )
    pythons = tuple(
        (
            " ".join(row.versions) or f"not {' '.join(row.missing)}",
            "; ".join((row.torch, *(_PLATFORM[name] for name in row.platforms))),
            f"{row.text} {_linked(row.sources)}",
        )
        for row in facts.page.python
    )
    everywhere = ", ".join(facts.page.data_types.everywhere)
    page = _linked((facts.page.data_types.hardware_source,))
    inside = (
        Section("products", "GPUs by name", (Table(("Since ROCm", "GPUs", "Source"), products),)),
        Section(
            "distributions",
            "Distributions of Linux",
            (Table(("Since ROCm", "For all GPUs", "For some", "Source"), systems),),
        ),
        Section(
            "hardware",
            "Data types by architecture",
            (
                Text(f"All but those with a source of their own have {everywhere} {page}."),
                Table(("Architecture", "GPUs", "Besides"), types),
            ),
        ),
        Section("pythons", "Python", (Table(("Python", "PyTorch", "Because"), pythons),)),
    )
    return Section("machines", "Machines", (), inside)


def _systems(rows: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{name} {' '.join(versions)}" for name, versions in rows.items())


def _linked(sources: Iterable[str]) -> str:
    return "(" + ", ".join(f"[{source_name(source)}]({source})" for source in sources) + ")"


# In the order in which they are shown. Those of the page in ROCm's form come first.
ON_PAGE: Mapping[str, Callable[[Facts], Section]] = {
    "overview": overview,
    "use-cases": use_cases,
    "docker": docker,
    "libraries": libraries,
    "supported": supported,
    "features": features,
    "issues": issues,
}
SECTIONS: Mapping[str, Callable[[Facts], Section]] = {
    **ON_PAGE,
    "data-types": data_types,
    "modules": modules,
    "domain-libraries": domain_libraries,
    "library-versions": library_versions,
    "machines": machines,
    "status": status,
    "statements": statements,
    "conflicts": conflicts,
}


def section(facts: Facts, name: str) -> Section:
    """A section by its name; raises `UsageError` for one that does not exist, with the nearest."""
    if name in SECTIONS:
        return SECTIONS[name](facts)
    near = get_close_matches(name, SECTIONS, n=1)
    raise UsageError(
        f"there is no section {name!r}; sections: {', '.join(SECTIONS)}",
        next_step=f"perhaps {near[0]}" if near else "name one of these, or none for all",
    )
