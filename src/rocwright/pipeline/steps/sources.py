"""Steps from source repositories to hipified checkouts at locked commits."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import msgspec

from rocwright.builder.decide.recipe import load_recipes
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.model.project import TORCH, Project, ProjectTable
from rocwright.pipeline.options import RunOptions
from rocwright.sources.lock import LOCK_NAME, SCHEMA, LockedSource, SourceLock, write_lock
from rocwright.sources.prepare import prepare_family
from rocwright.sources.resolve import Request, resolve
from rocwright.system import process
from rocwright.system.files import content_digest, shipped_directory


class Origins(msgspec.Struct, frozen=True):
    """Repositories made from the miniature: name to commit of their branches' tip."""

    directory: str
    commits: dict[str, str]


class LockedSources(msgspec.Struct, frozen=True):
    """The lock of the run: its file, and what it says."""

    path: str
    lock: SourceLock


class SourceTree(msgspec.Struct, frozen=True):
    """A checked-out project: what was locked and what it became; `committed` is in seconds since 1970."""

    directory: str
    locked: LockedSource
    changed_files: int
    submodules: int
    committed: int


def family_projects(options: RunOptions) -> tuple[str, ...]:
    """The projects that the run builds, in build order; those of a rocwright.toml count, too."""
    known = tuple(recipe.project for recipe in load_recipes(options.overlay).recipe)
    return tuple(name for name in known if name in (options.projects or known))


def own_facts(options: RunOptions, *tables: str) -> dict[str, object]:
    """Facts of a rocwright.toml that a step depends on; none where it adds nothing."""
    return {"own": own} if (own := options.overlaid(*tables)) else {}


def origin_steps(options: RunOptions) -> list[Step]:
    """`origins`, where the miniature family is built: it has no public repositories."""
    return [_origins(options)] if options.sources == "miniature" else []


def _origins(options: RunOptions) -> Step:
    workspace = options.workspace

    def act(_: Inputs, note: Note) -> Origins:
        script = shipped_directory("examples") / "mini-pytorch" / "make_origins.py"
        process.find_program("git", purpose="make and check out source repositories", package="git")
        done = process.run(
            # An address that does not depend on the machine, so that its commits do not; nobody asks there.
            [sys.executable, str(script), str(workspace.origins), "--url-prefix", _ADDRESS],
            log=workspace.log("origins"),
        )
        return Origins(str(workspace.origins), msgspec.json.decode(done.stdout, type=dict[str, str]))

    return Step(
        id="origins",
        result=Origins,
        act=act,
        facts=lambda: {"miniature": content_digest(shipped_directory("examples") / "mini-pytorch")},
        outputs=lambda value: (Path(value.directory),),
        summary=lambda value: f"{len(value.commits)} git repositories of the miniature family",
    )


_ADDRESS = "https://miniature.example.invalid"


def lock_sources_step(options: RunOptions, needs: tuple[str, ...] = ()) -> Step:
    """`lock-sources`: which commit of each project is meant."""
    workspace = options.workspace
    table = options.table("projects", ProjectTable)
    names = (TORCH, *(name for name in family_projects(options) if name != TORCH))
    mini = options.sources == "miniature"

    def act(inputs: Inputs, note: Note) -> LockedSources:
        origins = inputs.get("origins", Origins) if mini else None
        lock = resolve(
            [request_for(project, options, table, origins) for project in names],
            projects=table,
            # torch by itself pins nothing.
            require_related_commit=mini and len(names) > 1,
            platform=options.platform,
            log=workspace.log("lock-sources"),
        )
        path = workspace.sources / LOCK_NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        write_lock(lock, path)
        return LockedSources(str(path), lock)

    def summary(value: LockedSources) -> str:
        return ", ".join(f"{source.project} {source.commit[:12]}" for source in value.lock.sources)

    return Step(
        id="lock-sources",
        result=LockedSources,
        act=act,
        needs=(*needs, "origins") if mini else needs,
        rooms=("sources", "data/projects.toml"),
        facts=lambda: (
            {"torch": options.torch_ref, "platform": options.platform, "projects": names}
            | own_facts(options, "projects", "recipes")
        ),
        outputs=lambda value: (Path(value.path),),
        summary=summary,
    )


def request_for(
    project: str, options: RunOptions, table: ProjectTable, origins: Origins | None = None
) -> Request:
    """What is asked for of a project: torch by its branch, the others by the pins in torch's tree.

    The branch of a known line brings that line's repository, and its branches of other projects.
    """
    ref = options.torch_ref
    if origins is not None:
        return Request(project, _origin_of(table.get(project), origins), ref if project == TORCH else None)
    line = next((each.name for each in table.lines if each.ref == ref), None)
    if line is not None:
        return Request(project, line=line)
    return Request(project, ref=ref if project == TORCH else None)


def _origin_of(project: Project, origins: Origins) -> str:
    """The miniature's repository: it has the name of what it stands for."""
    return (Path(origins.directory) / PurePosixPath(project.origin).name.removesuffix(".git")).as_uri()


def checkout_step(options: RunOptions, project: str) -> Step:
    """`checkout-…`: the project at its locked commit, hipified where its row says so."""
    workspace = options.workspace
    mini = options.sources == "miniature"

    def act(inputs: Inputs, note: Note) -> SourceTree:
        locked = inputs.get("lock-sources", LockedSources).lock.get(project)
        if mini:
            # The lock may be another machine's; the same commits are here.
            row = options.table("projects", ProjectTable).get(project)
            origin = _origin_of(row, inputs.get("origins", Origins))
            locked = msgspec.structs.replace(locked, origin=origin)
        lock = SourceLock(SCHEMA, options.platform, (locked,))
        done, prepared = prepare_family(
            lock,
            {project: workspace.sources / locked.directory},
            jobs=options.jobs,
            log=workspace.log(f"checkout-{project}"),
        )
        tree = prepared[project]
        directory = Path(tree.checkout.directory)
        return SourceTree(
            directory=str(directory),
            locked=done.get(project),
            changed_files=len(tree.hipified.changed_files) if tree.hipified else 0,
            submodules=len(tree.checkout.submodules),
            committed=_commit_time(directory, locked.commit),
        )

    def summary(value: SourceTree) -> str:
        outcome = value.locked.outcome
        text = f"{value.locked.commit[:12]} ({value.locked.why} {value.locked.ref})"
        hipified = outcome.hipify_commit if outcome else None
        return f"{text}, hipify {hipified[:12]}" if hipified else text

    return Step(
        id=f"checkout-{project}",
        result=SourceTree,
        act=act,
        needs=("lock-sources", "origins") if mini else ("lock-sources",),
        rooms=("sources", "data/projects.toml"),
        facts=lambda: own_facts(options, "projects"),
        outputs=lambda value: (Path(value.directory) / ".git" / "HEAD",),
        summary=summary,
    )


def _commit_time(directory: Path, commit: str) -> int:
    """Seconds since 1970 of the commit: the build's date, so that equal sources give equal wheels."""
    done = process.run(["git", "log", "-1", "--format=%ct", commit], cwd=directory)
    return int(done.stdout)
