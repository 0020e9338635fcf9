"""Parses the pins a torch tree carries for its family: `related_commits`, triton's commit and version."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rocwright.errors import InvalidPin
from rocwright.model.project import origin_problem, ref_problem

# The lines of this system serve every platform, Windows included.
PIN_OS = "ubuntu"
_FIELDS = ("os", "source", "project", "branch", "commit", "origin")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)(?:\.[0-9]+)*(?:[-+.]?[A-Za-z][0-9A-Za-z.+-]*)?")
_SHOWN = 60


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
    for number, line in _lines(text):
        if line.startswith("#"):
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


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines that are not blank, stripped, with the number an editor gives them."""
    # str.splitlines also splits at form feeds and the like, which editors do not count.
    lines = enumerate(re.split(r"\r\n|\n|\r", text), 1)
    return [(number, line.strip(" \t")) for number, line in lines if line.strip(" \t")]


def _problem(fields: list[str]) -> str | None:
    if len(fields) != len(_FIELDS):
        return f"{len(fields)} fields instead of {len(_FIELDS)}"
    for name, value in zip(_FIELDS, fields, strict=True):
        if not value:
            return f"the field {name} is empty"
        # A value that starts with a dash would be taken for an option by git.
        if name != "origin" and (value.startswith("-") or not value.isprintable() or " " in value):
            return f"the field {name} is {_shown(value)}"
    system, _, _, branch, commit, origin = fields
    if system != system.lower():
        # It would never be looked up, and the project would silently come from somewhere else.
        return f"the field os is {_shown(system)}; systems are written in small letters"
    if ref_problem(branch) is not None:
        return f"the field branch {_shown(branch)} {ref_problem(branch)}"
    if not is_commit_id(commit):
        return f"{_shown(commit)} is no complete commit id"
    problem = "holds spaces" if " " in origin else origin_problem(origin)
    return None if problem is None else f"the field origin {problem}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def related_commit(records: tuple[RelatedCommit, ...], key: str) -> RelatedCommit | None:
    """The record that pins project `key`, or `None`."""
    return next((record for record in records if record.os == PIN_OS and record.project == key), None)


def parse_commit(text: str, *, where: str) -> tuple[str, int]:
    """The commit id that a pin file holds, and its line; raises `InvalidPin` for anything else in it."""
    number, word = _only_line(text, where=where, what="a commit id")
    if not is_commit_id(word):
        raise InvalidPin(f"{where}:{number}: {_shown(word)} is no complete commit id", where=where)
    return word, number


def parse_release_branch(text: str, pattern: str, *, where: str) -> tuple[str, int]:
    """`pattern` with the `{major}` and `{minor}` of the version that a file holds, and the version's line."""
    number, word = _only_line(text, where=where, what="a version")
    match = _VERSION.fullmatch(word)
    if match is None:
        raise InvalidPin(f"{where}:{number}: {_shown(word)} is no version", where=where)
    return pattern.format(major=match[1], minor=match[2]), number


def _only_line(text: str, *, where: str, what: str) -> tuple[int, str]:
    lines = _lines(text)
    if not lines:
        raise InvalidPin(f"{where}:1: {what} is missing: the file is blank", where=where)
    if len(lines) > 1:
        raise InvalidPin(f"{where}:{lines[1][0]}: a second line, where {what} stands alone", where=where)
    return lines[0]
