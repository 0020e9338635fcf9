"""Whether a PyTorch checkout is the one that the installed wheel was built from.

Tests of another commit fail for reasons that are not the wheel's (https://github.com/ROCm/TheRock/issues/5110).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.errors import InvalidInput, UsageError
from rocwright.model.testing import TorchFacts
from rocwright.model.version import InvalidVersion, parse_version
from rocwright.system.git import Git

TAGS = ("refs/tags/THEROCK_UPSTREAM_DIFFBASE", "refs/tags/THEROCK_HIPIFY_DIFFBASE", "HEAD")
# The directory of the tests, in a checkout.
TESTS = "test"
_ALLOW = "--allow-version-mismatch runs them all the same"


@dataclass(frozen=True)
class Checkout:
    """A PyTorch source tree.

    `version` is what its version.txt says (empty without one), `commits` what it is known to be: the
    commits of the tags that a checkout here sets, and HEAD; empty without a repository.
    """

    directory: Path
    version: str = ""
    commits: tuple[str, ...] = ()

    @property
    def tests(self) -> Path:
        """The directory of the tests."""
        return self.directory / TESTS


def read_checkout(directory: Path) -> Checkout:
    """Look at a PyTorch source tree.

    Raises `UsageError` for a directory that is not there or has no tests, `InvalidInput` for a version.txt
    that cannot be read.
    """
    if not directory.is_dir():
        state = "is no directory" if directory.exists() else "does not exist"
        raise UsageError(
            f"the PyTorch checkout {directory} {state}",
            next_step="name it with --pytorch-dir, or make it: rocwright checkout torch",
        )
    if not (directory / TESTS).is_dir():
        raise UsageError(
            f"{directory} has no directory test, so it is no PyTorch checkout",
            where=directory,
            next_step="name the root of the checkout with --pytorch-dir",
        )
    path = directory / "version.txt"
    try:
        version = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        version = ""
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise InvalidInput(f"{path} cannot be read: {why}", where=path) from error
    return Checkout(directory, version, _commits(directory))


def _commits(directory: Path) -> tuple[str, ...]:
    git_dir = _git_dir(directory)
    if git_dir is None:
        return ()
    found = Git(git_dir, directory).refs(*TAGS)
    return tuple(dict.fromkeys(found[name] for name in TAGS if name in found))


def _git_dir(directory: Path) -> Path | None:
    marker = directory / ".git"
    if marker.is_file():
        # A work tree or submodule: a line that says where.
        place = marker.read_text(encoding="utf-8", errors="surrogateescape").strip()
        found = directory / place.removeprefix("gitdir:").strip()
        return found.resolve() if found.is_dir() else None
    return marker if (marker / "HEAD").is_file() else None


def require_match(
    checkout: Checkout, facts: TorchFacts, *, locked: Sequence[str] = (), allow: bool = False
) -> str:
    """Raise `UsageError` where the checkout is not the installed torch's own; else say what was compared.

    The versions must agree in major.minor. Where both name commits, torch's must be one of the checkout's;
    `locked` are the commits that a lock of the build gives for torch (upstream, hipified, last patch): one of
    them must be the checkout's and one torch's. A release without a repository is judged by its version.
    With `allow` a mismatch is said only.
    """
    problem = _version_problem(checkout, facts) or _commit_problem(checkout, facts, locked)
    if problem is None:
        if not checkout.commits:
            return (
                f"{checkout.directory} is {checkout.version}, as torch {facts.version}; it has no repository"
            )
        return f"{checkout.directory} is the checkout that torch {facts.version} was built from"
    if allow:
        return f"{problem.what}; allowed"
    raise problem


def _version_problem(checkout: Checkout, facts: TorchFacts) -> UsageError | None:
    where = checkout.directory / "version.txt"
    try:
        source = parse_version(checkout.version) if checkout.version else None
        wheel = parse_version(facts.version)
    except InvalidVersion as error:
        return UsageError(f"the versions cannot be compared: {error.what}", where=where, next_step=_ALLOW)
    if source is None:
        return UsageError(
            f"{checkout.directory} has no version.txt, so it cannot be told whether its tests are for torch "
            f"{facts.version}",
            where=where,
            next_step=f"name the root of the checkout with --pytorch-dir; {_ALLOW}",
        )
    if source.release[:2] != wheel.release[:2]:
        return UsageError(
            f"the checkout is PyTorch {checkout.version}, the installed torch is {facts.version}",
            where=where,
            next_step=f"check out the sources of {facts.version}, or install their torch; {_ALLOW}",
        )
    return None


def _commit_problem(checkout: Checkout, facts: TorchFacts, locked: Sequence[str]) -> UsageError | None:
    # "Unknown" where torch was built outside of git.
    built = facts.git_version if _is_commit(facts.git_version) else ""
    if locked and checkout.commits and not set(locked) & set(checkout.commits):
        return UsageError(
            f"the checkout is at {checkout.commits[0][:12]}, the lock says {locked[0][:12]}",
            where=checkout.directory,
            next_step=f"bring it there: rocwright checkout --lock sources.lock.json torch; {_ALLOW}",
        )
    known = set(locked) | set(checkout.commits)
    if built and known and built not in known:
        at = f"the checkout is at {checkout.commits[0][:12]}" if checkout.commits else "the lock has another"
        return UsageError(
            f"the installed torch was built from commit {built[:12]}, {at}",
            where=checkout.directory,
            next_step=f"check out {built}; where no repository has it (hipified where the wheel was built), "
            f"give the lock of the build with --lock; {_ALLOW}",
        )
    return None


def _is_commit(text: str) -> bool:
    return len(text) in (40, 64) and all(letter in "0123456789abcdef" for letter in text)
