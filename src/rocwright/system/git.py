"""The door to git: every call isolated from the user's configuration, every failure a named error.

Local commands read no configuration but the repository's own, so the same commit gives the same bytes
everywhere. Commands that talk to a server keep the user's configuration, because proxies and credentials
stand there; what could change bytes is overridden on the command line in both cases.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from rocwright.errors import (
    CommandFailed,
    InvalidInput,
    MissingTool,
    NoSpace,
    RocwrightError,
    Unreachable,
    UsageError,
)
from rocwright.system import process, remote
from rocwright.system.locks import exclusive as exclusive
from rocwright.system.remote import PAUSES_S
from rocwright.system.remote import is_local as is_local
from rocwright.system.remote import shown as shown
from rocwright.system.remote import without_login as without_login

T = TypeVar("T")

_ENV = {
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    # A commit is what its id says, whatever somebody has put in its place here.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_LITERAL_PATHSPECS": "1",
}
# Of the GIT_ variables of the caller only those survive that say how to reach a server.
_KEPT = re.compile(
    r"GIT_(SSH|ASKPASS|SSL|HTTP|PROXY|TRACE|CURL|EXEC_PATH|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)$)"
)
_CONFIG = (
    "advice.detachedHead=false", "core.autocrlf=false", "core.eol=lf", "core.hooksPath=" + os.devnull,
    "core.excludesFile=" + os.devnull, "core.attributesFile=" + os.devnull, "core.fsmonitor=false",
    "core.longpaths=true", "core.quotePath=false", "fetch.prune=false", "fetch.recurseSubmodules=false",
    # A pack is kept whole or not at all; loose objects of an interrupted fetch would look like a commit.
    "fetch.unpackLimit=1", "gc.auto=0", "i18n.commitEncoding=UTF-8", "i18n.logOutputEncoding=UTF-8",
    "maintenance.auto=false", "submodule.recurse=false",
)  # fmt: skip
# A connection over which nothing comes is dead; without these git waits for ever. Seconds are many because a
# server may be silent while it counts what to send.
_LOW_SPEED = {"GIT_HTTP_LOW_SPEED_LIMIT": "1", "GIT_HTTP_LOW_SPEED_TIME": "120"}
# GIT_CONFIG_GLOBAL came with it; an earlier git would follow the user's configuration.
_LEAST = (2, 32)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def _call(
    words: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    origin: str | None = None,
    log: Path | None = None,
    ok: Sequence[int] = (0,),
    note: Callable[[str], None] | None = None,
) -> str:
    _require_git(process.find_program("git", purpose="check out sources"))
    settings = [*_CONFIG]
    environment = {**_ENV, **(env or {})}
    if origin is None:
        environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    else:
        environment |= {name: value for name, value in _LOW_SPEED.items() if name not in os.environ}
        environment |= remote.login_environment(origin)
    if origin is not None and is_local(origin):
        # git refuses local submodules of a local repository unless told; a remote must not get this.
        settings.append("protocol.file.allow=always")
    options = [word for setting in settings for word in ("-c", setting)]

    def watch(line: str) -> None:
        step = remote.progress(line)
        if note is not None and step is not None:
            note(step)

    drop = [name for name in os.environ if name.startswith("GIT_") and not _KEPT.match(name)]
    try:
        done = process.run(
            ["git", *options, *words],
            cwd=cwd,
            env=environment,
            drop_env=drop,
            log=log,
            ok=ok,
            watch=None if note is None else watch,
        )
    except CommandFailed as error:
        if "No space left on device" in error.tail:
            raise NoSpace(
                "no space left while git was writing",
                where=cwd,
                next_step="free some space and run again; what is complete is kept",
            ) from error
        if "dubious ownership" in error.tail:
            raise RocwrightError(
                "git refuses a repository that belongs to another user",
                where=cwd,
                next_step="run as its owner, or change the owner of the directory",
            ) from error
        # The settings are the same in every call and would bury the message.
        error.args = (error.args[0].replace(process.show(options) + " ", ""),)
        error.what = error.args[0]
        raise
    return done.stdout


@lru_cache
def _require_git(program: Path) -> None:
    """Raise `MissingTool` for a git that would not hear what it is told here."""
    said = process.run([program, "version"]).stdout
    found = re.search(r"\d+\.\d+", said)
    if found is not None and tuple(int(part) for part in found[0].split(".")) < _LEAST:
        raise MissingTool(
            f"git {'.'.join(map(str, _LEAST))} or later is needed, {program} is {found[0]}",
            next_step="install a later one, and put it before the other on PATH",
        )


class Git(msgspec.Struct, frozen=True):
    """One repository: its git directory and its work tree, always named to git explicitly.

    A submodule directory that lost its `.git` would otherwise make git act on the repository around it.
    `index` names another index file than the repository's own, `objects` another place of its objects.
    """

    git_dir: Path
    work_tree: Path
    log: Path | None = None
    index: Path | None = None
    objects: Path | None = None

    def run(
        self,
        *words: str,
        ok: Sequence[int] = (0,),
        env: Mapping[str, str] | None = None,
        origin: str | None = None,
    ) -> str:
        """Standard output of `git words…`; `origin` marks a call that talks to that server.

        Raises `CommandFailed` (or its more telling kin) for an exit code not in `ok`.
        """
        environment = dict(env or {})
        if self.index is not None:
            environment["GIT_INDEX_FILE"] = str(self.index)
        if self.objects is not None:
            environment["GIT_OBJECT_DIRECTORY"] = str(self.objects)
            # Where their history was cut stands beside them; a commit without its parent is broken otherwise.
            environment["GIT_SHALLOW_FILE"] = str(self.objects.parent / "shallow")
        where = [f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}"]
        return _call(
            [*where, *words], cwd=self.work_tree, env=environment, origin=origin, log=self.log, ok=ok
        )

    def records(self, *words: str) -> list[str]:
        """The NUL-terminated records that a command with `-z` prints."""
        text = self.run(*words)
        if "\ufffd" in text:
            raise InvalidInput("a path of the repository is not UTF-8", where=self.work_tree)
        return [record for record in text.split("\0") if record]

    def resolve(self, name: str) -> str | None:
        """The commit a name means, `None` where it means nothing."""
        return self.run("rev-parse", "--verify", "-q", f"{name}^{{commit}}", ok=(0, 1, 128)).strip() or None

    def refs(self, *names: str) -> dict[str, str]:
        """The objects that complete ref names (and `HEAD`) stand for; absent names are left out.

        An annotated tag stands for what it tags.
        """
        found: dict[str, str] = {}
        for line in self.run("show-ref", "--head", "--dereference", *names, ok=(0, 1)).splitlines():
            oid, ref = line.split(" ", 1)
            if ref.removesuffix("^{}") in names:
                found[ref.removesuffix("^{}")] = oid
        return found

    def has_commit(self, commit: str) -> bool:
        """Whether the commit object is here (its history or tree may still be incomplete)."""
        return self.resolve(commit) is not None

    def set_ref(self, ref: str, commit: str) -> None:
        """Create or move a ref; a tag made so is lightweight and never signed."""
        self.run("update-ref", "--no-deref", ref, commit)

    def delete_ref(self, ref: str) -> None:
        """Delete a ref; absent is fine."""
        self.run("update-ref", "-d", ref)

    def fetch(
        self,
        origin: str,
        *refspecs: str,
        depth: int | None = None,
        blobs: bool = True,
        note: Callable[[str], None] | None = None,
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        """Fetch exactly `refspecs`, no tags, no submodules; without `blobs` no files, where the server can.

        `note` is told how far it is. A failure of the network is tried again after each of `pauses_s`.
        Raises `NotOffered` when the server answers without handing them out, else `Unreachable`.
        """
        words = ["fetch", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--force"]
        # Quiet silences one of the processes that count, even together with --progress.
        words.append("--quiet" if note is None else "--progress")
        words += [f"--depth={depth}"] if depth else []
        if not blobs:
            # With what is here as a base git would look for the files it does not have.
            words = ["-c", "fetch.negotiationAlgorithm=noop", *words, "--filter=blob:none"]
        words += ["--", without_login(origin), *refspecs]

        def attempt() -> None:
            where = [f"--git-dir={self.git_dir}", f"--work-tree={self.work_tree}"]
            _call([*where, *words], cwd=self.work_tree, origin=origin, log=self.log, note=note)

        _persistently(origin, attempt, pauses_s, note)


def is_repository(git_dir: Path) -> bool:
    """Whether `git init` came to its end there: it writes HEAD first, then its configuration, then objects.

    A linked work tree has the objects of another repository.
    """
    return (git_dir / "HEAD").is_file() and (
        (git_dir / "objects").is_dir() or (git_dir / "commondir").is_file()
    )


def init(git_dir: Path, work_tree: Path, *, log: Path | None = None) -> Git:
    """Create an empty repository (or complete it) without hooks or templates."""
    work_tree.mkdir(parents=True, exist_ok=True)
    git_dir.mkdir(parents=True, exist_ok=True)
    if not is_repository(git_dir):
        # Of an `init` that was killed; git takes them for another git at work.
        for name in ("HEAD.lock", "config.lock"):
            (git_dir / name).unlink(missing_ok=True)
    git = Git(git_dir, work_tree, log)
    git.run("init", "--quiet", "--template=", "--initial-branch=main")
    return git


def scratch(git_dir: Path, work_tree: Path, like: str, *, log: Path | None = None) -> Git:
    """An empty repository for the moment, with ids like `like` (a commit)."""
    made = init(git_dir, work_tree, log=log)
    if len(like) == 64:
        made.run("config", "core.repositoryformatversion", "1")
        made.run("config", "extensions.objectformat", "sha256")
    return made


def _persistently(
    origin: str, attempt: Callable[[], T], pauses_s: Sequence[float], note: Callable[[str], None] | None
) -> T:
    """The outcome of `attempt`, tried again after each pause when what stopped it may have passed."""
    tries = 1
    while True:
        try:
            return attempt()
        except CommandFailed as error:
            if tries > len(pauses_s) or not remote.may_pass(origin, error.tail):
                raise remote.failure(origin, error.tail, tries) from error
            if note is not None:
                note(f"{remote.reason(error.tail)}; trying again")
            process.pause(pauses_s[tries - 1])
            tries += 1


def list_remote(
    origin: str, *patterns: str, log: Path | None = None, pauses_s: Sequence[float] = PAUSES_S
) -> dict[str, str]:
    """Refs of a remote repository and the objects they name; an annotated tag also as `ref^{}`.

    Without patterns all branches and tags. A failure of the network is tried again after each of
    `pauses_s`. Raises `Unreachable` naming the address.
    """
    words = ["ls-remote", "--quiet", *([] if patterns else ["--heads", "--tags"])]
    words += ["--", without_login(origin), *patterns]
    text = _persistently(origin, lambda: _call(words, origin=origin, log=log), pauses_s, None)
    pairs = (line.split("\t", 1) for line in text.splitlines() if "\t" in line)
    return {name: commit for commit, name in pairs}


class RemoteRef(msgspec.Struct, frozen=True):
    """What a name means in a remote repository; `ref` is complete (`refs/heads/…`) except for a commit id."""

    kind: str
    ref: str
    commit: str


def resolve_remote(origin: str, name: str, *, log: Path | None = None) -> RemoteRef:
    """The commit that a branch, a tag (annotated or not), `HEAD` or a complete commit id means now.

    A commit id is taken as it is; fetching proves that it exists. Raises `Unreachable` with a few similar
    names for an unknown name, `UsageError` for a name that is both a branch and a tag of different commits.
    """
    if _COMMIT.fullmatch(name):
        return RemoteRef("commit", name, name)
    if not name or name.startswith("-") or re.search(r"[\s~^:?*\[\\]|\.\.", name):
        raise UsageError(
            f"{name!r} is not a name of a branch, tag or commit",
            next_step="write it like release/2.9, v2.9.1 or a commit's id",
        )
    candidates = (
        [name] if name.startswith("refs/") or name == "HEAD" else [f"refs/heads/{name}", f"refs/tags/{name}"]
    )
    found = list_remote(origin, *candidates, *(f"{ref}^{{}}" for ref in candidates), log=log)
    meant = {ref: found.get(f"{ref}^{{}}", found[ref]) for ref in candidates if ref in found}
    if len(set(meant.values())) > 1:
        raise UsageError(
            f"{name} is both a branch and a tag of {shown(origin)}",
            next_step=f"say which: {' or '.join(meant)}",
        )
    for ref, commit in meant.items():
        return RemoteRef("tag" if ref.startswith("refs/tags/") else "branch", ref, commit)
    short = [
        re.sub(r"^refs/(heads|tags)/", "", ref) for ref in list_remote(origin, log=log) if "^" not in ref
    ]
    near = difflib.get_close_matches(name, short, n=5, cutoff=0.4) or sorted(short)[:5]
    raise Unreachable(
        f"{shown(origin)} has no branch or tag {name!r}",
        where=shown(origin),
        next_step=f"similar names there: {', '.join(near) or 'none'}; a commit needs its complete id",
    )
