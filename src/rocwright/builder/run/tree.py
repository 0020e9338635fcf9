"""A source tree as a build meets it: whose it is at the moment, what it holds, what a build left in it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rocwright.builder.run import undo
from rocwright.errors import RocwrightError
from rocwright.system import files
from rocwright.system.git import Git
from rocwright.system.locks import turn, turn_in

# Directories that build systems make at the top of a tree, and this module's own for a tree without history.
_OUTPUTS = ("build", "dist")
_OWN = ".rocwright-build"
_NO_SOURCES = frozenset((_OWN, ".git", "__pycache__"))
# What of the files that git ignores may go into a wheel: somebody's generated or private sources.
_SOURCE_NAME = re.compile(
    r".*\.([chisS]|cc|cpp|cxx|cu|cuh|hh|hpp|hxx|hip|inc|inl|ipp|in|def|td|m|mm|pyi?|pyx|pxd|cmake|txt|toml|cfg)"
)
_MADE = "made.json"
_UNFINISHED = "unfinished.json"


class Content(msgspec.Struct, frozen=True):
    """What a tree holds: `head` is its commit, `files` the digests of what differs from that.

    Without history `head` is empty and `files` are all files. Outputs of builds are left out. `untracked` are
    the paths that are neither in the history nor ignored, `ignored` those of `files` that git ignores.
    """

    head: str
    files: dict[str, str]
    untracked: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    def digest(self, *, without: Collection[str] = ()) -> str:
        """Differs whenever the content does; `without` are files that a build made itself."""
        kept = sorted((path, digest) for path, digest in self.files.items() if path not in without)
        return hashlib.sha256(msgspec.json.encode([self.head, kept])).hexdigest()


class SourceTree(msgspec.Struct, frozen=True):
    """A checkout of a project, with its repository when it has one (or lies in one)."""

    directory: Path
    git: Git | None

    @property
    def own(self) -> Path:
        """A directory of this tool's beside the tree's history, so that every run on the tree meets it."""
        if self.git is None:
            return self.directory / _OWN
        name = hashlib.sha256(str(self.directory).encode()).hexdigest()[:16]
        return self.git.git_dir / "rocwright-build" / name

    @property
    def journal(self) -> Path:
        """Where the record of files lies that a build has replaced for its time."""
        return self.own / "undo"

    def content(self) -> Content:
        """What is in it now; raises `CommandFailed` when git cannot read the repository."""
        if self.git is None:
            found = {path: _digest(self.directory / path) for path in self._all()}
            return Content("", found, frozenset(found))
        # Of a directory in a larger repository, not every commit there is another content.
        name = f"HEAD:{self._below}" if self._below else "HEAD"
        head = self.git.run("rev-parse", "-q", "--verify", name, ok=(0, 1, 128)).strip()
        changed = dict(self._changed("--ignored=matching"))
        hidden = [path for path, state in changed.items() if state == "!!"]
        ignored = frozenset(self._ignored_sources(hidden)) - self._made()
        kept = {path for path, state in changed.items() if state != "!!"} - self.unfinished()
        digests = {path: _digest(self.directory / path) for path in sorted(kept | ignored)}
        untracked = frozenset(path for path, state in changed.items() if state == "??")
        return Content(head, digests, untracked, ignored)

    def settled(self, before: Content) -> Content:
        """The content of before a build without the ignored files that this has written.

        They are remembered as outputs: the next build, of another Python perhaps, will write them, too.
        """
        if self.git is None:
            return before
        now = self.content()
        seen = before.ignored | now.ignored
        made = {path for path in seen if before.files.get(path) != now.files.get(path)}
        if made:
            text = msgspec.json.encode(sorted(made | self._made())).decode()
            files.write_text(self.own / _MADE, text)
        kept = {path: digest for path, digest in before.files.items() if path not in made}
        return msgspec.structs.replace(before, files=kept, ignored=before.ignored - made)

    def _made(self) -> frozenset[str]:
        return self._remembered(_MADE)

    def _remembered(self, name: str) -> frozenset[str]:
        try:
            return msgspec.json.decode((self.own / name).read_bytes(), type=frozenset[str])
        except (OSError, msgspec.DecodeError):
            return frozenset()

    def begin(self, build: Path, before: Collection[str]) -> None:
        """Remember the directory in which a build compiles, if it is none of the user's.

        It stays where the build fails or is killed, and whichever goes on removes it when it works. `before`
        are the paths that were untracked.
        """
        path = (build.parent.resolve() / build.name).relative_to(self.directory).as_posix()
        if self.git is not None and (path not in before or path in self.unfinished()):
            text = msgspec.json.encode([path]).decode()
            files.write_text(self.own / _UNFINISHED, text)

    def unfinished(self) -> frozenset[str]:
        """Where a build began to compile that has not come to its end."""
        return self._remembered(_UNFINISHED)

    def end(self) -> None:
        """Forget what `begin` was told: nothing is left there."""
        (self.own / _UNFINISHED).unlink(missing_ok=True)

    def untracked(self) -> frozenset[str]:
        """Paths that are neither in its history nor ignored."""
        if self.git is None:
            return frozenset(self._all())
        return frozenset(path for path, state in self._changed() if state == "??")

    def having(self, suffix: str) -> list[str]:
        """Files whose names end so, without what git ignores or, where there is no history, builds make.

        Those that hipify makes are new to a history whose head stays upstream's.
        """
        if self.git is None:
            return [path for path in self._all() if path.endswith(suffix)]
        below = f"{self._below}/" if self._below else ""
        kinds = ("--cached", "--others", "--exclude-standard")
        found = self.git.records("ls-files", "-z", *kinds, "--", self._below or ".")
        return [path.removeprefix(below) for path in found if path.endswith(suffix)]

    @property
    def _below(self) -> str:
        assert self.git is not None
        below = self.directory.relative_to(self.git.work_tree).as_posix()
        return "" if below == "." else below

    def _all(self) -> Iterator[str]:
        for path in files.walk_files(self.directory):
            parts = path.relative_to(self.directory).parts
            if not _NO_SOURCES.intersection(parts) and not any(
                self._is_output(parts[: n + 1]) for n in range(len(parts))
            ):
                yield "/".join(parts)

    def _is_output(self, parts: tuple[str, ...]) -> bool:
        """Whether build systems make that: `build` at the top or beside a setup.py, not amid sources."""
        above = self.directory.joinpath(*parts[:-1])
        beside = len(parts) == 1 or (above / "setup.py").exists() or (above / "pyproject.toml").exists()
        return parts[-1].endswith(".egg-info") or (parts[-1] in _OUTPUTS and beside)

    def _ignored_sources(self, hidden: Iterable[str]) -> Iterator[str]:
        """Of what git ignores, what may be a source: nothing of environments, caches, outputs of builds."""
        for path in hidden:
            place = self.directory / path
            parts = tuple(path.split("/"))
            if any(part.startswith(".") or part in _NO_SOURCES for part in parts) or self._is_output(parts):
                continue
            if not os.access(place, os.R_OK):
                continue
            if place.is_dir() and not place.is_symlink():
                if not (place / "pyvenv.cfg").exists() and _git_dir(place) is None:
                    below = sorted(f"{path}/{entry.name}" for entry in place.iterdir())
                    yield from self._ignored_sources(below)
            elif _SOURCE_NAME.fullmatch(parts[-1]):
                yield path

    def _changed(self, *options: str) -> Iterator[tuple[str, str]]:
        """Path and state of everything that differs from the commit; a directory of new files is one path."""
        assert self.git is not None
        words = ["status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=none", *options]
        text = self.git.run(*words, "--", self._below or ".", env={"GIT_OPTIONAL_LOCKS": "0"})
        for record in filter(None, text.split("\0")):
            path = record[3:].rstrip("/").removeprefix(f"{self._below}/" if self._below else "")
            yield path, record[:2]


def source_tree(directory: Path) -> SourceTree:
    """The tree at `directory`, in the repository that has it, not one that merely lies around it."""
    directory = directory.resolve()
    for top in (directory, *directory.parents):
        git_dir = _git_dir(top)
        if git_dir is None:
            continue
        git = Git(git_dir, top)
        if top == directory or _has(git, directory.relative_to(top).as_posix()):
            return SourceTree(directory, git)
    return SourceTree(directory, None)


def _has(git: Git, below: str) -> bool:
    """Whether a repository has files in a directory; not if it cannot be asked, as that of somebody else."""
    try:
        return bool(git.run("ls-files", "-z", "--", below))
    except RocwrightError:
        return False


def _git_dir(top: Path) -> Path | None:
    marker = top / ".git"
    if marker.is_file():
        # A worktree or submodule: a line that says where.
        place = marker.read_text(encoding="utf-8", errors="surrogateescape").strip()
        found = top / place.removeprefix("gitdir:").strip()
        return found.resolve() if found.is_dir() else None
    return marker if (marker / "HEAD").is_file() else None


def _digest(path: Path) -> str:
    """Of content: a file's, a link's, a directory's; a repository's (a submodule that differs) by its own."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    if path.is_dir():
        if _git_dir(path) is not None:
            return source_tree(path).content().digest()
        return files.content_digest(path)
    return files.sha256_file(path) if path.exists() else "gone"


@contextmanager
def held_tree(directory: Path, note: Callable[[str], None]) -> Iterator[SourceTree]:
    """The tree for a build of its own: two at once would share `build` and `dist`.

    What a build that was killed had replaced in it is put back first.
    """
    tree = source_tree(directory)

    def waiting() -> None:
        note(f"waiting for another build in {tree.directory}")

    # A lock file stays, so it must not be one in the tree.
    taken = turn_in(tree.directory) if tree.git is None else turn(tree.own / "lock", waiting)
    with taken:
        if undo.restore(tree.journal):
            note(f"put {tree.directory} back as it was before a build that was killed")
        yield tree


def clean_up(
    tree: SourceTree, before: frozenset[str], note: Callable[[str], None], *, failed: bool = False
) -> tuple[str, ...]:
    """Take away what a build left in a tree that does not ignore it; returns new files that stay.

    Only what build systems make goes: `dist`, `build`, `*.egg-info`. Anything else may be somebody's who
    works in the tree meanwhile, so it is named and left. `before` is what was untracked before it. Where one
    that `failed` has compiled, that stays until one works.
    """
    if tree.git is None:
        return tuple(sorted(tree.untracked() - before))
    left, unfinished = [], tree.unfinished()
    for path in sorted(tree.untracked() - (before - unfinished)):
        if failed and path in unfinished:
            continue
        if path.rpartition("/")[2] in _OUTPUTS or path.endswith(".egg-info"):
            files.remove_tree(tree.directory / path)
        else:
            left.append(path)
    if not (failed and any((tree.directory / path).exists() for path in unfinished)):
        tree.end()
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        note(f"new in {tree.directory}, not ignored by git, and left there: {shown}")
    return tuple(left)


def state_digest(values: Mapping[str, object]) -> str:
    """sha256 of values in canonical JSON: what a finished build was made from."""
    return hashlib.sha256(msgspec.json.encode(values, order="deterministic")).hexdigest()
