"""Steps from source repositories to hipified checkouts at locked commits."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from rocwright.build.decide.recipe import recipes
from rocwright.data import load_table
from rocwright.model.project import ProjectTable
from rocwright.pipeline.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.sources.decide.resolve import Request, resolve
from rocwright.sources.lock import LOCK_NAME, SCHEMA, LockedSource, SourceLock, write_lock
from rocwright.sources.prepare import prepare_family
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


def projects() -> tuple[str, ...]:
    """The projects of the family, in build order."""
    return tuple(recipe.project for recipe in recipes().recipe)


def source_steps(options: RunOptions) -> list[Step]:
    """`origins` (the miniature as git repositories), `lock-sources`, and one `checkout-…` per project."""
    return [
        _origins(options),
        _lock(options),
        *(_checkout(options, project) for project in ("torch", *_others())),
    ]


def _others() -> tuple[str, ...]:
    return tuple(project for project in projects() if project != "torch")


def _origins(options: RunOptions) -> Step:
    workspace = options.workspace

    def act(_: Inputs, note: Note) -> Origins:
        script = shipped_directory("examples") / "mini-pytorch" / "make_origins.py"
        process.find_program("git", purpose="make and check out source repositories", package="git")
        done = process.run(
            [sys.executable, str(script), str(workspace.origins)], log=workspace.log("origins")
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


# Repository names of the miniature that differ from the project's.
_REPOSITORY = {"torch": "pytorch", "torchaudio": "audio", "torchvision": "vision"}


def _lock(options: RunOptions) -> Step:
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> LockedSources:
        directory = Path(inputs.get("origins", Origins).directory)

        def request(project: str) -> Request:
            repository = directory / _REPOSITORY.get(project, project)
            # torch is asked for by branch; the others come from the pins in its tree, as in a real release.
            ref = options.torch_ref if project == "torch" else None
            return Request(project=project, origin=repository.as_uri(), ref=ref)

        lock = resolve(
            [request(project) for project in ("torch", *_others())],
            projects=load_table("projects", ProjectTable),
            require_related_commit=True,
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
        needs=("origins",),
        rooms=("sources", "data/projects.toml"),
        facts=lambda: {"torch": options.torch_ref, "platform": options.platform},
        outputs=lambda value: (Path(value.path),),
        summary=summary,
    )


def _checkout(options: RunOptions, project: str) -> Step:
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> SourceTree:
        locked = inputs.get("lock-sources", LockedSources).lock.get(project)
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
        needs=("lock-sources",),
        rooms=("sources", "data/projects.toml"),
        outputs=lambda value: (Path(value.directory) / ".git" / "HEAD",),
        summary=summary,
    )


def _commit_time(directory: Path, commit: str) -> int:
    """Seconds since 1970 of the commit: the build's date, so that equal sources give equal wheels."""
    done = process.run(["git", "log", "-1", "--format=%ct", commit], cwd=directory)
    return int(done.stdout)
