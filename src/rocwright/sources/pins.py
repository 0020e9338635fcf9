"""The pins that a torch tree carries for its family: parses them, and reads them from a tree or a commit.

`related_commits` pins most projects, a file of its own triton's commit and version.
"""

from __future__ import annotations

import codecs
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Protocol

import msgspec

from rocwright.errors import CommandFailed, InvalidInput, InvalidPin
from rocwright.model.project import CommitFilePin, RelatedCommitsPin, origin_problem, ref_problem
from rocwright.sources.tree import repos
from rocwright.sources.tree import state as states
from rocwright.system.git import Git, shown

# The lines of this system serve every platform, Windows included.
PIN_OS = "ubuntu"
_FIELDS = ("os", "source", "project", "branch", "commit", "origin")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VERSION = re.compile(r"([0-9]+)\.([0-9]+)(?:\.[0-9]+)*(?:[-+.]?[A-Za-z][0-9A-Za-z.+-]*)?")
_SHOWN = 60


class RelatedCommit(msgspec.Struct, frozen=True):
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
            next_step=f"each line is {'|'.join(_FIELDS)}; "
            "correct it, or give --gitrepo-origin and --repo-hashtag",
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
        return f"the field os is {_shown(system)}; systems are written in lower case"
    if ref_problem(branch) is not None:
        return f"the field branch {_shown(branch)} {ref_problem(branch)}"
    if not is_commit_id(commit):
        return f"{_shown(commit)} is not a complete commit id"
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
        raise InvalidPin(f"{where}:{number}: {_shown(word)} is not a complete commit id", where=where)
    return word, number


def parse_release_branch(text: str, pattern: str, *, where: str) -> tuple[str, int]:
    """`pattern` with the `{major}` and `{minor}` of the version that a file holds, and the version's line."""
    number, word = _only_line(text, where=where, what="a version")
    match = _VERSION.fullmatch(word)
    if match is None:
        raise InvalidPin(f"{where}:{number}: {_shown(word)} is not a version", where=where)
    return pattern.format(major=match[1], minor=match[2]), number


def _only_line(text: str, *, where: str, what: str) -> tuple[int, str]:
    lines = _lines(text)
    if not lines:
        raise InvalidPin(f"{where}:1: {what} is missing: the file is blank", where=where)
    if len(lines) > 1:
        raise InvalidPin(f"{where}:{lines[1][0]}: a second line, where only {what} is allowed", where=where)
    return lines[0]


# -- where pin files are read: the torch tree on disk, or a commit of torch that was not checked out

# The real files hold some lines; whoever meets more took hold of something else.
_MOST_BYTES = 1 << 20


class Pins(Protocol):
    """The files of one torch tree."""

    def text(self, name: str) -> str | None:
        """Content of a file of the torch tree, `None` when it is absent; raises `InvalidPin`."""

    def said(self, name: str, line: int | None) -> str:
        """`<file>:<line> @ <torch commit>`, as a lock records where a pin stands."""

    def where(self, name: str) -> str:
        """The file as messages name it."""


class TreePins:
    """The files that lie in `torch_dir`, a checkout or a plain directory; edits of the user count."""

    def __init__(self, torch_dir: Path) -> None:
        self.torch_dir = torch_dir

    def text(self, name: str) -> str | None:
        """Content of a file; `None` when it (or the whole tree) is absent."""
        path = self.torch_dir / name
        try:
            facts = path.stat()
            if not stat.S_ISREG(facts.st_mode):
                kind = "a directory" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
                raise InvalidPin(f"cannot read {path}: it is {kind}", where=path, next_step=_NEXT)
            with path.open("rb") as stream:
                content = stream.read(_MOST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise InvalidPin(f"cannot read {path}: {error.strerror}", where=path, next_step=_NEXT) from error
        return _decoded(content, where=str(path))

    def said(self, name: str, line: int | None) -> str:
        """As `Pins.said`; `, edited` when the file is not as the commit has it, no commit outside git."""
        position = name if line is None else f"{name}:{line}"
        if self._repository is None or self._commit is None:
            return position
        committed = self._repository.run("cat-file", "blob", f"{self._commit}:{name}", ok=(0, 128))
        # A checkout may have other line ends than the commit.
        same = committed.removeprefix("\ufeff").splitlines() == (self.text(name) or "").splitlines()
        return f"{position} @ {self._commit}" + ("" if same else ", edited")

    def where(self, name: str) -> str:
        """The path of the file."""
        return str(self.torch_dir / name)

    @cached_property
    def _repository(self) -> Git | None:
        # git is started in the work tree, where a relative path means something else.
        work_tree = self.torch_dir.resolve()
        git_dir = repos.git_dir_of(work_tree)
        return None if git_dir is None else Git(git_dir, work_tree)

    @cached_property
    def _commit(self) -> str | None:
        """A pin is only sound for the torch commit it was read at."""
        if self._repository is None:
            return None
        refs = self._repository.refs("HEAD", states.UPSTREAM_TAG, states.HIPIFY_TAG)
        head, upstream = refs.get("HEAD"), refs.get(states.UPSTREAM_TAG)
        if upstream is None or head in (None, upstream, refs.get(states.HIPIFY_TAG)):
            # Hipify adds a commit of our own on top, which nobody else knows.
            return upstream or head
        # The tag stays where it was when someone moves to another branch by hand.
        base = self._repository.run("merge-base", upstream, head or "", ok=(0, 1)).strip()
        return upstream if base == upstream else head


class CommitPins:
    """The files of a torch commit that was not checked out.

    `read` fetches files of a commit; it is asked once, for all of `names`, when the first is needed.
    """

    def __init__(
        self,
        origin: str,
        commit: str,
        read: Callable[[str, str, Sequence[str]], Mapping[str, str]],
        names: Sequence[str],
    ) -> None:
        self.origin, self.commit, self.read, self.names = origin, commit, read, tuple(names)
        self._texts: Mapping[str, str] | None = None
        self._reading = Lock()

    def text(self, name: str) -> str | None:
        """Content of one of the named files, `None` when the commit does not have it."""
        with self._reading:
            if self._texts is None:
                self._texts = self.read(self.origin, self.commit, self.names)
        text = self._texts.get(name)
        return None if text is None else _checked(text, where=self.where(name))

    def said(self, name: str, line: int | None) -> str:
        """As `Pins.said`."""
        return f"{name if line is None else f'{name}:{line}'} @ {self.commit}"

    def where(self, name: str) -> str:
        """The file, its repository and the commit."""
        return f"{name} of {shown(self.origin)} @ {self.commit[:12]}"


def read_checkout(torch_dir: Path, commit: str, names: Sequence[str]) -> dict[str, str] | None:
    """Files of a commit from the checkout that this tool made of it; `None` when there is no such checkout.

    Read are the objects of the commit, so that edits do not count; nothing is asked of a server.
    """
    work_tree = torch_dir.resolve()
    git_dir = repos.git_dir_of(work_tree)
    if git_dir is None:
        return None
    repository = Git(git_dir, work_tree)
    try:
        # Only what was checked out completely has every object of its commit.
        if states.load(repository).upstream != commit:
            return None
        listing = repository.records("ls-tree", "-z", "--full-tree", commit, "--", *names)
        blobs = [line.split("\t", 1) for line in listing if line.startswith("100")]
        return {name: repository.run("cat-file", "blob", facts.split()[2]) for facts, name in blobs}
    except (CommandFailed, InvalidInput):
        return None


_NEXT = "restore the file of the torch tree, or give --gitrepo-origin and --repo-hashtag"


def _decoded(content: bytes, *, where: str) -> str:
    if len(content) > _MOST_BYTES:
        raise InvalidPin(
            f"{where} is larger than {_MOST_BYTES >> 20} MiB, which no pin file is",
            where=where,
            next_step=_NEXT,
        )
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return _checked(content.decode("utf-8"), where=where)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidPin(f"{where}:{line}: it is not UTF-8", where=where, next_step=_NEXT) from error


def _checked(text: str, *, where: str) -> str:
    if len(text) > _MOST_BYTES:
        raise InvalidPin(
            f"{where} is larger than {_MOST_BYTES >> 20} MiB, which no pin file is",
            where=where,
            next_step=_NEXT,
        )
    # What is read through git has this mark where bytes were no UTF-8.
    for character, what in (("\0", "a NUL character; the file is not text"), ("\ufffd", "it is not UTF-8")):
        if character in text:
            line = text[: text.index(character)].count("\n") + 1
            raise InvalidPin(f"{where}:{line}: {what}", where=where, next_step=_NEXT)
    return text.removeprefix("\ufeff")


# -- what they say about one project

# Every door to this has the option.
TORCH_FIRST = "check torch out first, or name its checkout with --torch-dir, or give the ref explicitly"


class Pinned(msgspec.Struct, frozen=True):
    """What a pin says; without a commit `ref` has to be asked for."""

    origin: str | None
    ref: str
    commit: str | None
    said: str


def read_pin(pin: RelatedCommitsPin | CommitFilePin, tree: Pins, *, release: bool) -> Pinned | None:
    """What a torch tree says about a project, `None` where it says nothing.

    With `release` the release branch of the version that the tree names. Raises `InvalidPin`.
    """
    if isinstance(pin, CommitFilePin) and release and pin.version_file and pin.release_ref:
        text, where = tree.text(pin.version_file), tree.where(pin.version_file)
        if text is None:
            raise InvalidPin(
                f"{where} does not exist, so the release branch is unknown",
                where=where,
                next_step=TORCH_FIRST,
            )
        ref, line = parse_release_branch(text, pin.release_ref, where=where)
        return Pinned(None, ref, None, tree.said(pin.version_file, line))
    text, where = tree.text(pin.file), tree.where(pin.file)
    if text is None:
        return None
    if isinstance(pin, CommitFilePin):
        commit, line = parse_commit(text, where=where)
        return Pinned(None, commit, commit, tree.said(pin.file, line))
    record = related_commit(parse_related_commits(text, where=where), pin.key)
    if record is None:
        return None
    said = tree.said(pin.file, record.line)
    return Pinned(record.origin, f"refs/heads/{record.branch}", record.commit, said)
