"""Tables of facts, as rows of a page: families, versions, projects, scripts, what the doctor looks at."""

from __future__ import annotations

from pathlib import Path

from blocks.text import code, table
from rocwright.builder.decide.extension import Extension, load_extensions
from rocwright.cli.documented import DOCUMENTED
from rocwright.compat.doctor.observations import EXAMINATIONS
from rocwright.data import load_table
from rocwright.model.gpu import Families
from rocwright.model.indexes import IndexTable
from rocwright.model.platforms import PLATFORMS
from rocwright.model.project import ProjectTable


def render_family_names() -> str:
    """The family table itself."""
    known = load_table("families", Families).families
    return table(
        ("Family", "Targets"), ((code(name), " ".join(map(code, members))) for name, members in known.items())
    )


def render_family_rows() -> str:
    """Where families are built and tested."""
    rows = []
    for row in load_table("families", Families).family:
        for platform in PLATFORMS:
            here = row.on(platform)
            if here is not None:
                runners = " ".join(code(pool.label) for pool in here.pools) or "none"
                excused = here.bypass.reason if here.bypass else ""
                rows.append((code(row.name), row.tier, platform, runners, excused))
    return table(("Family", "Tier", "Platform", "Runners", "Releases need not wait, because"), rows)


def render_versions() -> str:
    """The versions of PyTorch: where their sources come from, and how far each is looked after."""
    known = load_table("projects", ProjectTable)
    head = ("Version", "torch", "Other projects", "Linux", "Windows")
    rows = []
    for line in known.lines:
        branches: dict[str, list[str]] = {}
        for project, ref in line.refs.items():
            branches.setdefault(ref, []).append(project)
        named = [f"{code(ref)} for {' and '.join(projects)}" for ref, projects in branches.items()]
        others = "; ".join([*named, "the rest by its pins"]) if named else "by its pins"
        torch = f"{code(line.ref)} of {_repository(line.origin)}"
        rows.append((code(line.name), torch, others, line.linux, line.windows))
    return table(head, rows)


def render_projects() -> str:
    """The projects: where they come from by default, and what pins them."""
    rows = []
    for row in load_table("projects", ProjectTable).projects:
        names = " ".join(map(code, filter(None, (row.name, row.alias))))
        # The whole path stands above the tables; here it would push the last columns off the page.
        pin = "" if row.pin is None else code(Path(row.pin.file).name)
        windows = row.on("windows")
        other = f"{code(windows.ref or '')} of {_repository(windows.origin)}"
        elsewhere = other if (windows.origin, windows.ref) != (row.origin, row.ref) else "the same"
        optional = "; may be left out" if row.optional("windows") else ""
        default = "" if row.ref is None else code(row.ref)
        rows.append((names, code(row.directory), _repository(row.origin), pin, default, elsewhere + optional))
    return table(("Project", "Folder", "Repository", "Pinned in", "Without a pin", "On Windows"), rows)


def render_extensions() -> str:
    """What stands on torch: the state of each project, and what was found out of it."""
    rows = [
        (f"[{row.project}]({row.source})", row.version, row.state, row.date, _found(row))
        for row in load_extensions(None).extension
    ]
    return table(("Project", "Version", "State", "Read", "What was found out"), rows)


def _found(row: Extension) -> str:
    refused = f"{row.refused[:1].upper()}{row.refused[1:]}. " if row.refused else ""
    return refused + " ".join(row.found.split())


def _repository(origin: str) -> str:
    """A repository of GitHub by its short name, as a link; any other by its address."""
    address = origin.removesuffix(".git")
    name = address.removeprefix("https://github.com/")
    return address if name == address else f"[{name}]({address})"


def render_scripts() -> str:
    """The documented scripts and the commands that they are."""
    rows = [
        (code(name), code(f"rocwright {' '.join(entry.command)}"), _failure(entry.failure))
        for name, entry in DOCUMENTED.items()
    ]
    return table(("Script", "Command", "Exit code of a failure"), rows)


def _failure(said: int | None) -> str:
    return "the command's" if said is None else f"always {said}"


def render_doctor(section: str) -> str:
    """What the doctor looks at in a section, and what mends it."""
    rows = ((code(row.id), row.summary, row.next_step) for row in EXAMINATIONS if row.section == section)
    return table(("Finding", "What is looked at", "What mends it"), rows)


def render_index_rows() -> str:
    """Package indexes by name: what they have, and what took their place."""
    rows = []
    for row in load_table("indexes", IndexTable).index:
        gpus = "a directory for each family" if row.by_family else "an extra for each"
        rocm = code(row.rocm) if row.rocm else f"beside {row.beside}" if row.beside else ""
        ended = f"{row.ended}, {row.replaced_by}" if row.ended else ""
        rows.append((row.name, code(row.url), gpus, rocm, ended))
    return table(("Name", "Address", "GPUs", "ROCm", "Until, then"), rows)
