"""Where pin files are read from: the torch tree on disk, or a commit of torch that was not checked out."""

from __future__ import annotations

import codecs
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Protocol

from rocwright.errors import CommandFailed, InvalidInput, InvalidPin
from rocwright.sources.tree import repos
from rocwright.sources.tree import state as states
from rocwright.system.git import Git, shown

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
                kind = "a directory" if stat.S_ISDIR(facts.st_mode) else "no regular file"
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


_NEXT = "restore the file of the torch tree, or give origin and ref explicitly"


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
        raise InvalidPin(f"{where}:{line}: it is no UTF-8", where=where, next_step=_NEXT) from error


def _checked(text: str, *, where: str) -> str:
    if len(text) > _MOST_BYTES:
        raise InvalidPin(
            f"{where} is larger than {_MOST_BYTES >> 20} MiB, which no pin file is",
            where=where,
            next_step=_NEXT,
        )
    # What is read through git has this mark where bytes were no UTF-8.
    for character, what in (("\0", "a NUL character; the file is no text"), ("\ufffd", "it is no UTF-8")):
        if character in text:
            line = text[: text.index(character)].count("\n") + 1
            raise InvalidPin(f"{where}:{line}: {what}", where=where, next_step=_NEXT)
    return text.removeprefix("\ufeff")
