"""What tests run with: an interpreter that has torch, the PyTorch checkout that it was built from, and GPUs.

Tests of another commit fail for reasons that are not the wheel's (https://github.com/ROCm/TheRock/issues/5110).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec

from rocwright.errors import InvalidInput, UsageError
from rocwright.gputest.devices import (
    DeviceGroup,
    Policy,
    Query,
    device_env,
    kind_of,
    parse_wanted,
    probe,
    rocm_of,
    select,
)
from rocwright.gputest.environment import ChildEnvironment, child_environment, unwanted
from rocwright.gputest.skips.entries import generic_targets
from rocwright.gputest.skips.hold import Place, place_of, state_of
from rocwright.model.platforms import Platform
from rocwright.model.suites import Here, SkipEntry, SuiteTable
from rocwright.model.testing import Ran, TorchFacts
from rocwright.model.version import InvalidVersion, parse_version
from rocwright.system.git import Git

# The version that stands for the entries of every version.
ALL = "all"
TAGS = ("refs/tags/THEROCK_UPSTREAM_DIFFBASE", "refs/tags/THEROCK_HIPIFY_DIFFBASE", "HEAD")
# The directory of the tests, in a checkout.
TESTS = "test"
_ALLOW = "--allow-version-mismatch runs them all the same"


class TestRequest(msgspec.Struct, frozen=True):
    """What a user asks for: see the options of the same names.

    `locked` are the commits that a lock gives for torch. `cpu` is a run on no GPU at all.
    """

    pytorch_dir: Path
    python: Path
    family: str = ""
    pytorch_version: str = ""
    locked: tuple[str, ...] = ()
    allow_mismatch: bool = False
    cpu: bool = False
    query: Query = "unique"
    policy: Policy = "single"


class Setting(msgspec.Struct, frozen=True):
    """Where tests run.

    `by_target` are the groups of GPUs that one run of the tests may use, a run for each target; on a CPU the
    empty target has none.
    """

    python: Path
    facts: TorchFacts
    checkout: Checkout
    by_target: Mapping[str, tuple[DeviceGroup, ...]]
    platform: Platform
    pytorch_version: str = ""
    notes: tuple[str, ...] = msgspec.field(default=())

    @property
    def cpu(self) -> bool:
        """Whether no GPU is used."""
        return "" in self.by_target

    @property
    def rocm(self) -> str:
        """The ROCm that torch's wheel names in its version (`2.10.0+rocm7.10.0`); empty if it names none."""
        return rocm_of(self.facts.version)

    def ran(
        self, suite: str, target: str, *, config: str = "default", shard: int = 1, shards: int = 1
    ) -> Ran:
        """What a run of a suite is called here."""
        return Ran(
            suite=suite,
            config=config,
            target=target,
            torch=self.facts.version,
            rocm=self.rocm,
            python=self.facts.python,
            platform=self.platform,
            shard=shard,
            shards=shards,
        )

    def here(self, target: str) -> Here:
        """The place that skip entries are judged for."""
        return Here(target, self.platform, self.facts.version, self.facts.python, self.rocm)

    def entries_for(
        self,
        entries: Sequence[SkipEntry],
        target: str,
        families: Mapping[str, tuple[str, ...]],
        today: date,
    ) -> tuple[tuple[SkipEntry, ...], tuple[str, ...]]:
        """Those that hold for a target, and a sentence about each that held until its day passed.

        They are chosen for this torch, for the version that was named, or for `all`.
        """
        place = place_of(self.here(target))
        named = {"": place.torch, ALL: None}.get(self.pytorch_version, self.pytorch_version)
        place = Place(place.targets, place.platform, named, place.python, place.rocm)
        states = [(entry, state_of(entry, place, families, today)) for entry in entries]
        said = tuple(
            f"the skip entry {entry.id} expired on {entry.expires}; its tests run again"
            for entry, state in states
            if state == "expired"
        )
        return tuple(entry for entry, state in states if state == "holds"), said

    def workers(self, target: str, each: int) -> tuple[dict[str, str], ...]:
        """Variables of each worker process of a target: so many for each group of GPUs."""
        groups = self.by_target[target]
        if not groups:
            return tuple({self.facts.variable: ""} for _ in range(each))
        return tuple(device_env(group, self.facts) for group in groups for _ in range(each))

    def removed(self, environment: ChildEnvironment, inherited: Mapping[str, str]) -> tuple[str, ...]:
        """Variables that no test process may inherit: other names for the visible GPUs among them."""
        return tuple(sorted({*environment.removed, *unwanted(inherited, self.facts.variable)}))


def gather(
    wanted: TestRequest,
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
    *,
    platform: Platform,
    log: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Setting:
    """Look at the checkout, ask torch, compare the two and choose the GPUs; nothing is tested yet.

    Raises `UsageError` (checkout, version, family), `MissingTool` and `InvalidInput` (interpreter and
    torch), `NoGpu`.
    """
    checkout = read_checkout(wanted.pytorch_dir)
    parse_wanted(wanted.family, families)
    _require_version(wanted.pytorch_version)
    facts = probe(wanted.python, drop_env=table.environment.removed, log=log, note=note)
    said = require_match(checkout, facts, locked=wanted.locked, allow=wanted.allow_mismatch)
    if wanted.cpu:
        return Setting(wanted.python, facts, checkout, {"": ()}, platform, wanted.pytorch_version, (said,))
    by_target: dict[str, tuple[DeviceGroup, ...]] = {}
    for group in _select(wanted, facts, families):
        by_target[group.target] = (*by_target.get(group.target, ()), group)
    return Setting(wanted.python, facts, checkout, by_target, platform, wanted.pytorch_version, (said,))


def _select(
    wanted: TestRequest, facts: TorchFacts, families: Mapping[str, tuple[str, ...]]
) -> tuple[DeviceGroup, ...]:
    return select(
        facts, wanted.family, families, query=wanted.query, policy=wanted.policy, generic=generic_targets()
    )


def _require_version(text: str) -> None:
    if text in ("", ALL):
        return
    try:
        parse_version(text)
    except InvalidVersion as error:
        raise InvalidVersion(
            f"{text!r} is not a version of PyTorch", next_step=f"write 2.9, or {ALL} for every version"
        ) from error


def shown_facts(facts: TorchFacts) -> str:
    """Torch and its ROCm in a few words."""
    return f"torch {facts.version} ({kind_of(facts)}), Python {facts.python}"


def environment_of(
    setting: Setting, table: SuiteTable, miopen_cache: Path, inherited: Mapping[str, str]
) -> ChildEnvironment:
    """What the tests get; `inherited` is the caller's environment, `miopen_cache` a directory for kernels."""
    return child_environment(
        table,
        tests_dir=setting.checkout.tests,
        miopen_cache=miopen_cache,
        platform=setting.platform,
        inherited=inherited,
        device="cpu" if setting.cpu else "cuda",
        rocm=bool(setting.facts.hip),
    )


class Checkout(msgspec.Struct, frozen=True):
    """A PyTorch source tree.

    `version` is what its version.txt says (empty without that file), `commits` what it is known to be: the
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
        state = "is not a directory" if directory.exists() else "does not exist"
        raise UsageError(
            f"the PyTorch checkout {directory} {state}",
            next_step="name it with --pytorch-dir, or make it: rocwright checkout torch",
        )
    if not (directory / TESTS).is_dir():
        raise UsageError(
            f"{directory} has no directory test, so it is not a PyTorch checkout",
            where=directory,
            next_step="name the root of the checkout with --pytorch-dir",
        )
    path = directory / "version.txt"
    try:
        version = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        version = ""
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
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
    With `allow` a mismatch is only told.
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
            next_step=f"check that commit out: rocwright checkout --lock sources.lock.json torch; {_ALLOW}",
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
