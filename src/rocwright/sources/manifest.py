"""The manifest of PyTorch's sources, as TheRock's scripts have it: a lock with versions, by directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rocwright.errors import InvalidData, InvalidInput, UsageError
from rocwright.model.platforms import Platform
from rocwright.model.project import TORCH, CommitFilePin, Project, ProjectTable
from rocwright.model.version import with_suffix
from rocwright.sources.fetch import read_files
from rocwright.sources.lock import SCHEMA as LOCK_SCHEMA
from rocwright.sources.lock import LockedSource, SourceLock
from rocwright.sources.mirror import Mirrors
from rocwright.sources.pins import is_commit_id
from rocwright.sources.resolve import Request, requests_for, resolve

SCHEMA = 1
TOOL = "therock"
_BRANCH = "refs/heads/"
_VERSION = "version.txt"


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A repository at a commit; `version` is that of what is built of it."""

    repo: str
    commit: str
    branch: str = ""
    version: str = ""


def manifest_name(ref: str, platform: str) -> str:
    """The file of a ref in a directory of manifests."""
    return f"therock-manifest_torch_{platform}_{ref.replace('/', '-')}.json"


def projects_of(names: Sequence[str], table: ProjectTable, platform: Platform) -> tuple[str, ...]:
    """Projects by the names of their directories, or their own; all that the platform has, without any.

    Raises `UsageError` for an unknown one, and without torch, which pins the others.
    """
    by_directory = {row.directory: row.name for row in table.projects}
    rows = {row.name: row for row in table.projects}
    found = table.canonical(tuple(by_directory.get(name, name) for name in names) or ("all",))
    found = tuple(rows) if found == ("all",) else found
    here = tuple(name for name in found if not rows[name].optional(platform))
    if TORCH not in here:
        raise UsageError(
            "torch pins the other projects, so a manifest has it", next_step=f"add {rows[TORCH].directory}"
        )
    return here


def resolve_manifest(
    ref: str,
    names: Sequence[str],
    table: ProjectTable,
    platform: Platform,
    suffix: str,
    *,
    mirrors: Mirrors | None,
) -> dict[str, Row]:
    """What a branch of PyTorch and its pins mean now, by directory; nothing is checked out.

    A ref that no row of the table has is one of ROCm's fork, whose pins have to be complete. Raises as
    `resolve`, and `InvalidInput` for a project without a version.
    """
    line = next((one for one in table.lines if ref in (one.ref, one.name)), None)
    if line is not None:
        requests = requests_for(names, table, line=line.name, platform=platform)
    else:
        fork = next((one.origin for one in table.lines if one.pinned), None)
        requests = tuple(
            Request(name, origin=fork, ref=ref) if name == TORCH else Request(name) for name in names
        )
    lock = resolve(
        requests,
        projects=table,
        require_related_commit=line is None and len(requests) > 1,
        platform=platform,
        mirrors=mirrors,
    )
    torch = lock.get(TORCH)
    return {
        one.directory: Row(
            one.origin.removesuffix(".git"),
            one.commit,
            one.ref.removeprefix(_BRANCH) if one.ref.startswith(_BRANCH) else "",
            with_suffix(_own_version(one, torch, table.get(one.project).on(platform), mirrors), suffix),
        )
        for one in lock.sources
    }


def _own_version(one: LockedSource, torch: LockedSource, row: Project, mirrors: Mirrors | None) -> str:
    at, name = one, _VERSION
    if isinstance(row.pin, CommitFilePin) and row.pin.version_file is not None:
        at, name = torch, row.pin.version_file
    mirror = None if mirrors is None else mirrors.repository(at.origin)
    text = read_files(at.origin, at.commit, [name], mirror=mirror, ref=at.ref).get(name, "").strip()
    if not text:
        raise InvalidInput(
            f"{one.project} has no version: {name} is not in {at.commit[:12]}",
            where=at.origin,
            next_step="leave the project out with --projects",
        )
    return text


def manifest_text(rows: Mapping[str, Row]) -> str:
    """As it is written."""
    return json.dumps({"schema_version": SCHEMA, **msgspec.to_builtins(dict(rows))}, indent=2) + "\n"


def read_manifest(data: bytes, where: str) -> dict[str, Row]:
    """The rows of a manifest, by directory; raises `InvalidData` for another schema and what is no row."""
    try:
        values: dict[str, Any] = msgspec.json.decode(data, type=dict)
        schema = values.pop("schema_version", None)
        if schema != SCHEMA:
            raise msgspec.ValidationError(f"schema_version is {schema!r}, and this tool reads {SCHEMA}")
        rows = msgspec.convert(values, dict[str, Row])
        wrong = next((name for name, row in rows.items() if not is_commit_id(row.commit)), None)
        if wrong is not None:
            raise msgspec.ValidationError(f"the commit of {wrong} is not 40 hexadecimal digits")
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidData(
            f"the manifest cannot be read: {error}", where=where, next_step="write it again, or take another"
        ) from error
    return rows


def lock_of(
    rows: Mapping[str, Row], names: Sequence[str], table: ProjectTable, platform: Platform, where: str
) -> SourceLock:
    """The projects of a manifest as a lock; all of them, or those named, by directory.

    Raises `InvalidInput` for what is no project, `UsageError` for one that is named and not there.
    """
    projects = {row.directory: row for row in table.projects}
    unknown = [name for name in rows if name not in projects and name != TOOL]
    if unknown:
        raise InvalidInput(
            f"no project is checked out into {', '.join(unknown)}",
            where=where,
            next_step=f"projects: {' '.join(projects)}; others in the projects table of a rocwright.toml",
        )
    missing = [name for name in names if name not in rows or name == TOOL]
    if missing:
        raise UsageError(
            f"the manifest does not have {', '.join(missing)}",
            next_step=f"it has: {' '.join(name for name in rows if name != TOOL)}",
        )
    sources = tuple(
        _locked(row, projects[name].on(platform), Path(where).name)
        for name, row in rows.items()
        if name != TOOL and (not names or name in names)
    )
    return SourceLock(LOCK_SCHEMA, platform, sources).in_order()


def _locked(row: Row, project: Project, manifest: str) -> LockedSource:
    return LockedSource(
        project=project.name,
        origin=row.repo,
        ref=_BRANCH + row.branch if row.branch else row.commit,
        commit=row.commit,
        why="pin",
        directory=project.directory,
        hipify=project.hipify,
        submodules=project.submodules,
        pin=manifest,
        build_env=project.build_env,
    )
