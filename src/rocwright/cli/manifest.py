"""`rocwright sources manifest | checkout-manifest`: PyTorch's sources as TheRock's scripts hand them on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.cli import show_sources
from rocwright.cli.checkout import Places, Run
from rocwright.cli.options import Text
from rocwright.cli.reply import Reply, replies
from rocwright.cli.source_options import Cache, Head, How, Leave, project_table
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.platforms import Platform, this_platform
from rocwright.model.version import rocm_suffix
from rocwright.sources.manifest import (
    TOOL,
    Row,
    lock_of,
    manifest_name,
    manifest_text,
    projects_of,
    read_manifest,
    resolve_manifest,
)
from rocwright.store.runs.artifacts import words
from rocwright.system import console
from rocwright.system.files import write_text
from rocwright.system.http import Web

_HOW, _HEAD, _LEAVE, _CACHE = How(), Head(), Leave(), Cache()
_MOST = 1 << 20


@replies
def sources_manifest(
    *,
    rocm_version: str,
    version_suffix: str | None = None,
    platform: Platform | None = None,
    output: Path | None = None,
    manifest_dir: Path | None = None,
    pytorch_git_refs: Text = "",
    projects: Text = "",
    therock_commit: str | None = None,
    therock_repo: str = "https://github.com/ROCm/TheRock",
    therock_branch: str = "",
    cache: Cache = _CACHE,
    config: Path | None = None,
) -> Reply:
    """Write which commits PyTorch's branches and their pins mean now, with the versions of their wheels.

    Nothing is checked out; `rocwright sources checkout-manifest` does that, on any machine.

    Parameters
    ----------
    rocm_version
        The ROCm that is built against, such as 7.13.0a20260501.
    version_suffix
        The local version of what is built (default: from ROCm's version).
    platform
        linux or windows (default: this machine's).
    output
        The manifest of one branch.
    manifest_dir
        A directory for one of each branch.
    pytorch_git_refs
        Branches, separated by spaces, commas or semicolons (default: all that are supported on the platform).
    projects
        Directories of projects: pytorch pytorch_audio … (default: all that the platform has).
    therock_commit
        The commit of the build's own repository, which is then named in the manifest.
    therock_repo
        That repository.
    therock_branch
        Its branch.
    config
        A rocwright.toml with projects of your own.
    json
        Print the manifests as JSON.
    """
    table, where = project_table(config), platform or this_platform()
    refs = words([pytorch_git_refs])
    refs = refs or tuple(line.ref for line in table.lines if line.on(where) == "supported")
    if (output is None) == (manifest_dir is None):
        raise UsageError(
            "a manifest goes to a file or to a directory", next_step="give one of --output and --manifest-dir"
        )
    if output is not None and len(refs) > 1:
        raise UsageError(
            f"--output takes one manifest, and there are {len(refs)} branches",
            next_step="name one with --pytorch-git-refs, or give --manifest-dir",
        )
    names = projects_of(words([projects]), table, where)
    suffix = version_suffix or rocm_suffix(rocm_version)
    done: dict[str, dict[str, Row]] = {}
    for ref in refs:
        rows = resolve_manifest(ref, names, table, where, suffix, mirrors=cache.mirrors())
        if therock_commit is not None:
            rows[TOOL] = Row(therock_repo, therock_commit, therock_branch, rocm_version)
        path = output or (manifest_dir or Path()) / manifest_name(ref, where)
        write_text(path, manifest_text(rows))
        console.say(f"{ref}: {', '.join(f'{name} {row.version}' for name, row in rows.items())}")
        done[str(path)] = rows
    return Reply(msgspec.to_builtins(done), lambda: console.out("\n".join(done)))


@replies
def sources_checkout_manifest(
    *,
    checkout_root: Path,
    manifest: Path | None = None,
    manifest_url: str | None = None,
    projects: Text = "",
    expected_pytorch_git_ref: str = "",
    hipify: Annotated[bool, Parameter(negative="--no-hipify")] = True,
    submodules: Annotated[bool, Parameter(negative="--no-submodules")] = True,
    how: How = _HOW,
    head: Head = _HEAD,
    leave: Leave = _LEAVE,
    cache: Cache = _CACHE,
    platform: Platform | None = None,
    config: Path | None = None,
) -> Reply:
    """Check out exactly the commits of a manifest, and hipify them, as `rocwright checkout` does.

    Parameters
    ----------
    checkout_root
        Where the checkouts go, each into its own directory, and their lock.
    manifest
        The manifest.
    manifest_url
        Its address.
    projects
        Only these directories of it: pytorch pytorch_audio …
    expected_pytorch_git_ref
        The branch that torch has to be of.
    hipify
        Run the projects' own hipify scripts.
    submodules
        Populate submodules.
    platform
        linux or windows (default: this machine's).
    config
        A rocwright.toml with projects of your own.
    json
        Print the result as JSON.
    """
    how.require_sense()
    if (manifest is None) == (manifest_url is None):
        raise UsageError(
            "nothing or too much says which manifest", next_step="give one of --manifest and --manifest-url"
        )
    table, place = project_table(config), str(manifest or manifest_url)
    rows = read_manifest(_content(manifest, manifest_url), place)
    lock = lock_of(rows, words([projects]), table, platform or this_platform(), place)
    torch = rows.get(table.get("torch").directory)
    if expected_pytorch_git_ref and (torch is None or torch.branch != expected_pytorch_git_ref):
        raise InvalidInput(
            f"the manifest is of {torch.branch if torch else 'no torch'}, not of {expected_pytorch_git_ref}",
            where=place,
            next_step="take the manifest of that branch",
        )
    run = Run(Places(checkout_root), how, head, leave.work(), cache.mirrors())
    run.places.require_outside()
    lock = lock.bare(hipify=hipify, submodules=submodules)
    if how.dry_run:
        return run.plan(lock)
    show_sources.say_lock(lock)
    return run.act(lock, record=True)


def _content(path: Path | None, url: str | None) -> bytes:
    if path is None:
        with Web() as web:
            return web.get(url or "", limit=_MOST).body
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the manifest cannot be read: {error.strerror}",
            where=path,
            next_step="name a file that is there",
        ) from error
