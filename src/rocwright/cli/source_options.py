"""Options that several doors to the sources share: the command, the documented scripts, `sources lock`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from rocwright.cli.help import family_words
from rocwright.cli.options import Count, OptionalCount
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.model.project import ProjectTable
from rocwright.sources.aside import Work
from rocwright.sources.lock import SourceLock
from rocwright.sources.mirror import Mirrors, default_root
from rocwright.sources.resolve import Request


@Parameter(name="*")
@dataclass(frozen=True)
class What:
    """Which commit, and what it shall become; a lock holds the answers."""

    repo_hashtag: str | None = None
    """Branch, tag or commit (default: torch's pin of the project, else its default branch)."""

    gitrepo_origin: str | None = None
    """Repository to fetch from."""

    submodules: bool | None = None
    """Populate submodules (default: yes)."""

    hipify: Annotated[
        bool | None,
        Parameter(help=f"Run the project's own hipify script (default: for {family_words()['hipified']})."),
    ] = None

    hip_clang: bool = False
    """Let the hipify script write kernel launches for hip-clang."""

    def fixed(self) -> tuple[str, ...]:
        """The options given that a lock has answered already; less of the same commit may be asked for."""
        given = {
            "--repo-hashtag": self.repo_hashtag is not None,
            "--gitrepo-origin": self.gitrepo_origin is not None,
            "--submodules": self.submodules is True,
            "--hipify": self.hipify is True,
            "--hip-clang": self.hip_clang,
        }
        return tuple(name for name, is_given in given.items() if is_given)

    def less(self, lock: SourceLock) -> SourceLock:
        """The lock without what `--no-hipify` and `--no-submodules` leave out: tests need the bare commit."""
        return lock.bare(hipify=self.hipify is not False, submodules=self.submodules is not False)

    def of(self, request: Request, *, release: bool = False) -> Request:
        """The request with these options; what is not given stays. Raises `UsageError` for empty ones."""
        for name, value in (("--repo-hashtag", self.repo_hashtag), ("--gitrepo-origin", self.gitrepo_origin)):
            if value is not None and not value.strip():
                # A script's variable was empty; the default is hardly what was meant.
                raise UsageError(f"{name} is empty", next_step="give it a value, or leave it out")
        return msgspec.structs.replace(
            request,
            ref=self.repo_hashtag or request.ref,
            origin=self.gitrepo_origin or request.origin,
            submodules=request.submodules if self.submodules is None else self.submodules,
            hipify=request.hipify if self.hipify is None else self.hipify,
            hip_clang=self.hip_clang or request.hip_clang,
            release=release,
        )


@Parameter(name="*")
@dataclass(frozen=True)
class Cache:
    """Where fetched commits are kept for all checkouts of this machine."""

    mirror_dir: Path | None = None
    """Directory of the mirrors (default: $ROCWRIGHT_MIRRORS, else ~/.cache/rocwright/git)."""

    mirror: bool = True
    """Keep what is fetched in mirrors, for other checkouts."""

    def mirrors(self) -> Mirrors | None:
        """The mirrors, or None where none are wanted; raises `UsageError` for both options at once."""
        if not self.mirror:
            if self.mirror_dir is not None:
                raise UsageError(
                    "--mirror-dir and --no-mirror contradict each other", next_step="leave one of them out"
                )
            return None
        return Mirrors(self.mirror_dir.expanduser().resolve() if self.mirror_dir else default_root())


@Parameter(name="*")
@dataclass(frozen=True)
class Leave:
    """What becomes of work that lies in a checkout; without either nothing is touched."""

    keep_branch: str | None = None
    """Put your changes and commits on this new branch first, in every repository that has some."""

    discard: bool = False
    """Throw your changes and commits away."""

    def work(self) -> Work:
        """The decision; raises `UsageError` for both at once."""
        return Work(keep_branch=self.keep_branch, discard=self.discard)


@Parameter(name="*")
@dataclass(frozen=True)
class Head:
    """At which commit HEAD stands in a hipified tree."""

    head_stays_upstream: bool = False
    """Leave HEAD at the upstream commit, with the hipified files checked out: `torch.version.git_version`
    then names a published commit."""

    commit_hipify: Annotated[bool, Parameter(show_default=False)] = True
    """Put HEAD at the hipify commit."""

    def stays(self) -> Literal["tip", "upstream"]:
        """`upstream` where one of the two spellings asks for it."""
        return "upstream" if self.head_stays_upstream or not self.commit_hipify else "tip"


@Parameter(name="*")
@dataclass(frozen=True)
class How:
    """How checkouts are brought about."""

    depth: OptionalCount = None
    """How many commits of history to fetch (default: all)."""

    jobs: Count = 10
    """Repositories at once."""

    patches: Path | None = None
    """Apply the patches in this directory, as `sources save-patches` wrote them (default: none)."""

    dry_run: bool = False
    """Only say what would be done; nothing is written, here or in mirrors."""

    def require_sense(self) -> None:
        """Raise `UsageError` for patches that are not there."""
        if self.patches is not None and not self.patches.is_dir():
            raise UsageError(
                f"there is no directory {self.patches} to take patches from",
                next_step="write them with `rocwright sources save-patches DIR`",
            )


def project_table(config: Path | None = None) -> ProjectTable:
    """The projects with those of a `rocwright.toml`: the given one, else the one in the current directory."""
    return load_table("projects", ProjectTable, read_overlay(config))
