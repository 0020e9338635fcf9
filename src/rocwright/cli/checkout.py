"""`rocwright checkout`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.data import load_table
from rocwright.model.project import ProjectTable
from rocwright.sources import checkout as checkouts
from rocwright.sources.hipify import HipifiedTree, hipify
from rocwright.sources.lock import LockedSource
from rocwright.sources.resolve import Request, resolve
from rocwright.system import console


class CheckedOut(msgspec.Struct, frozen=True):
    """A project as locked, checked out and (where asked) hipified."""

    locked: LockedSource
    checkout: checkouts.Checkout
    hipified: HipifiedTree | None


def checkout(
    project: str,
    /,
    *,
    checkout_dir: Path | None = None,
    repo_hashtag: str | None = None,
    gitrepo_origin: str | None = None,
    torch_dir: Path | None = None,
    require_related_commit: bool = False,
    depth: int | None = None,
    jobs: int = 10,
    submodules: bool = True,
    run_hipify: Annotated[bool | None, Parameter(name="--hipify")] = None,
    commit_hipify: bool = True,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Check out a project at an exact commit, submodules included, and hipify it.

    Parameters
    ----------
    project
        torch, torchaudio, torchvision, triton or apex.
    checkout_dir
        Where to; by default the project's own directory name here.
    repo_hashtag
        Branch, tag or commit; by default torch's pin of the project, else its default branch.
    gitrepo_origin
        Repository to fetch from.
    torch_dir
        The torch checkout whose pins are read.
    require_related_commit
        Fail where torch pins no commit of the project.
    depth
        How much history to fetch.
    jobs
        Submodules at once.
    submodules
        Populate submodules.
    run_hipify
        Run the project's own hipify script.
    commit_hipify
        Commit what hipify changed.
    json
        Print the result as JSON.
    """
    lock = resolve(
        [
            Request(
                project=project,
                origin=gitrepo_origin,
                ref=repo_hashtag,
                hipify=run_hipify,
                submodules=submodules,
            )
        ],
        projects=load_table("projects", ProjectTable),
        torch_dir=torch_dir or Path.cwd() / "pytorch",
        require_related_commit=require_related_commit,
    )
    locked = lock.sources[0]
    console.say(f"{project} {locked.ref} is {locked.commit} ({locked.why})")
    tree = checkouts.checkout(
        locked, checkout_dir or Path(locked.directory), jobs=jobs, depth=depth, submodules=submodules
    )
    hipified = hipify(tree, commit=commit_hipify) if locked.hipify else None
    if json:
        console.out_json(CheckedOut(locked, tree, hipified))
        return
    console.out(f"{tree.directory}: {tree.commit}, {len(tree.submodules)} submodules")
    if hipified is not None and hipified.script is None:
        console.out("no hipify script in this project")
    elif hipified is not None:
        console.out(f"hipified {len(hipified.changed_files)} files, commit {hipified.hipify_commit}")
