"""Keeps what was fetched, so that a second checkout anywhere on this machine fetches nothing again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rocwright.errors import CommandFailed
from rocwright.sources.watch import NOBODY, Watch
from rocwright.system import git
from rocwright.system.git import Git


def default_root() -> Path:
    """Where mirrors live: $ROCWRIGHT_MIRRORS, else `rocwright/git` of the user's cache directory."""
    given = os.environ.get("ROCWRIGHT_MIRRORS")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "rocwright" / "git"


@dataclass(frozen=True)
class Mirrors:
    """The mirrors below one directory, one bare repository for each host and path."""

    root: Path

    def key(self, origin: str) -> PurePosixPath | None:
        """Where the mirror of `origin` lies below the root; `None` where there is none."""
        return None

    def repository(self, origin: str) -> Git | None:
        """The mirror of `origin`, `None` where there is none yet."""
        return None

    def fetch(
        self,
        origin: str,
        commit: str,
        *,
        ref: str | None = None,
        watch: Watch = NOBODY,
        name: str = "",
        log: Path | None = None,
    ) -> Git | None:
        """Bring a commit into the mirror of `origin`; `None` for an origin that is not mirrored."""
        return None

    def share(self, mirror: Git, into: Git, commit: str) -> None:
        """Give a commit of a mirror to a repository that will not depend on the mirror."""

    def keep(self, origin: str, commit: str, ref: str, source: Git) -> None:
        """Keep a commit of `source`, whose parent the mirror has, under `ref` in the mirror."""

    def find(self, origin: str, ref: str, into: Git) -> str | None:
        """The commit kept under `ref`, brought into a repository under the same ref."""
        return None


def read_files(
    origin: str,
    commit: str,
    names: Sequence[str],
    *,
    mirrors: Mirrors | None = None,
    ref: str | None = None,
    log: Path | None = None,
) -> dict[str, str]:
    """The text of some files of a commit that need not be checked out; absent ones are left out."""
    with tempfile.TemporaryDirectory() as area:
        repository = git.init(Path(area) / "git", Path(area) / "tree", log=log)
        repository.fetch(origin, commit, depth=1)
        found = {}
        for name in names:
            try:
                found[name] = repository.run("cat-file", "blob", f"{commit}:{name}")
            except CommandFailed:
                continue
        return found
