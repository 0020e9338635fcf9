"""Reads the pins a torch tree carries for its family: `related_commits`, triton's commit and version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rocwright.errors import InvalidPin

# The lines of this system serve every platform, Windows included.
PIN_OS = "ubuntu"
_FIELDS = ("os", "source", "project", "branch", "commit", "origin")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*\S*")


@dataclass(frozen=True)
class RelatedCommit:
    """One record of `related_commits`; `line` counts from 1."""

    os: str
    source: str
    project: str
    branch: str
    commit: str
    origin: str
    line: int


def is_commit_id(text: str) -> bool:
    """Whether `text` is a complete commit id (40 or 64 lower-case hex digits)."""
    return _COMMIT.fullmatch(text) is not None


def parse_related_commits(text: str, *, where: str) -> tuple[RelatedCommit, ...]:
    """All records of a `related_commits` file, in order.

    Six fields separated by `|`; spaces around a field, blank lines and lines starting with `#` do not
    count. Raises `InvalidPin` naming `where:line` for every malformed line at once, and for two lines that
    pin the same project on the same system differently.
    """
    records: list[RelatedCommit] = []
    problems: list[str] = []
    seen: dict[tuple[str, str], RelatedCommit] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|")]
        problem = _problem(fields)
        if problem is not None:
            problems.append(f"{where}:{number}: {problem}")
            continue
        system, source, project, branch, commit, origin = fields
        record = RelatedCommit(system, source, project, branch, commit, origin, number)
        earlier = seen.setdefault((record.os, record.project), record)
        if (earlier.branch, earlier.commit, earlier.origin) != (record.branch, record.commit, record.origin):
            problems.append(
                f"{where}:{number}: pins {record.project} on {record.os} differently from line {earlier.line}"
            )
            continue
        records.append(record)
    if problems:
        raise InvalidPin(
            "\n".join(problems),
            where=where,
            next_step=f"each line is {'|'.join(_FIELDS)}; correct it, or give origin and ref explicitly",
        )
    return tuple(records)


def _problem(fields: list[str]) -> str | None:
    if len(fields) != len(_FIELDS):
        return f"{len(fields)} fields instead of {len(_FIELDS)}"
    for name, value in zip(_FIELDS, fields, strict=True):
        if not value:
            return f"the field {name} is empty"
        # A value that starts with a dash would be taken for an option by git.
        if value.startswith("-") or any(char.isspace() for char in value):
            return f"the field {name} is {value!r}"
    if not is_commit_id(fields[4]):
        return f"{fields[4]!r} is no complete commit id"
    return None


def related_commit(records: tuple[RelatedCommit, ...], key: str) -> RelatedCommit | None:
    """The record that pins project `key`, or `None`."""
    return next((record for record in records if record.os == PIN_OS and record.project == key), None)


def read_related_commits(path: Path) -> tuple[RelatedCommit, ...]:
    """The records of the file at `path`; an absent file has none."""
    text = _read(path)
    return () if text is None else parse_related_commits(text, where=str(path))


def read_commit_file(path: Path) -> str | None:
    """The commit id that a pin file holds; `None` when there is no such file."""
    text = _read(path)
    if text is None:
        return None
    commit = text.strip()
    if not is_commit_id(commit):
        raise InvalidPin(f"{path}:1: {commit[:80]!r} is no complete commit id", where=path)
    return commit


def read_release_branch(path: Path, pattern: str) -> str:
    """`pattern` with the `{major}` and `{minor}` of the version that `path` holds."""
    text = _read(path)
    if text is None:
        raise InvalidPin(
            f"{path} does not exist, so the release branch is unknown",
            where=path,
            next_step="check torch out first (or name its directory), or give the ref explicitly",
        )
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise InvalidPin(f"{path}:1: {text.strip()[:80]!r} is no version", where=path)
    return pattern.format(major=match[1], minor=match[2])


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidPin(f"cannot read {path}: {error}", where=path) from error
