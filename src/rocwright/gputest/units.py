"""The quick selection of PyTorch's own tests: which files, on which GPUs, with which skip entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path

import msgspec

from rocwright.errors import UsageError
from rocwright.gputest.environment import ONLY_ENTRIES
from rocwright.gputest.isolate.plan import Isolation, check_arguments
from rocwright.gputest.setting import Setting, environment_of
from rocwright.gputest.shards.durations import Durations
from rocwright.gputest.shards.pack import shards_of
from rocwright.gputest.shards.place import place_of
from rocwright.model.suites import SkipEntry, SuiteTable
from rocwright.model.testing import Ran

SUITE = "units"


class Units(msgspec.Struct, frozen=True):
    """What is asked of the unit tests.

    `files` are relative to the directory of the tests. `keyword` is an expression for pytest's `-k`, which
    takes the place of the skip entries; `debug` runs only what they are for. `workers` are the processes for
    each group of GPUs; `memory` the bytes that a process may grow to (None: decided from the machine).
    """

    files: tuple[str, ...]
    keyword: str = ""
    debug: bool = False
    cache: bool = True
    workers: int = 1
    reruns: int = 0
    test_s: float = 900
    memory: int | None = None
    shard: int = 1
    shards: int = 1
    durations: Durations | None = None
    pytest_args: tuple[str, ...] = ()


class UnitsRun(msgspec.Struct, frozen=True):
    """The run for one target: what it is called, what is isolated, and where its record goes."""

    ran: Ran
    isolation: Isolation
    directory: Path
    notes: tuple[str, ...] = ()


def unit_files(
    given: Sequence[str], more: Sequence[str], usual: Sequence[str], tests: Path
) -> tuple[str, ...]:
    """The test files, relative to the directory of the tests: those given, else the usual ones, and `more`.

    A name may leave `.py` out and may go on with `::Class::test`. Raises `UsageError` naming every file that
    is not there, with names that come near.
    """
    found: list[str] = []
    absent: list[str] = []
    for name in (*(given or usual), *more):
        file, separator, rest = name.replace("\\", "/").partition("::")
        for candidate in (file, f"{file}.py"):
            if (tests / candidate).is_file():
                found.append(Path(candidate).as_posix() + separator + rest)
                break
        else:
            absent.append(name)
    if absent:
        there = sorted(path.name for path in tests.glob("test_*.py"))
        near = dict.fromkeys(one for name in absent for one in get_close_matches(name, there, n=2))
        raise UsageError(
            f"{tests} has no {', no '.join(absent)}",
            where=tests,
            next_step=f"near: {' '.join(near)}" if near else "name files of this PyTorch with --suite-files",
        )
    return tuple(dict.fromkeys(found))


def require_sense(asked: Units) -> None:
    """Raise `UsageError` for options that contradict each other or have no meaning."""
    if not 1 <= asked.shard <= asked.shards:
        raise UsageError(
            f"there is no shard {asked.shard} of {asked.shards}", next_step="shards are counted from 1"
        )
    if asked.debug and asked.keyword:
        raise UsageError(
            "-k takes the place of the skip entries, --debug runs only what they skip",
            next_step="leave one of them out",
        )
    for what, number, least in (("--workers", asked.workers, 1), ("--reruns", asked.reruns, 0)):
        if number < least:
            raise UsageError(f"{what} {number} makes no sense", next_step=f"give {least} or more")
    if asked.test_s <= 0:
        raise UsageError(f"a test cannot end within {asked.test_s:g} seconds", next_step="give more than 0")
    check_arguments(asked.pytest_args)
    word = next(iter(asked.pytest_args), "-")
    if not word.startswith("-"):
        raise UsageError(
            f"{word!r} is not an option of pytest", next_step=f"name test files with --suite-files {word}"
        )


def plan_units(
    asked: Units,
    setting: Setting,
    entries: Sequence[SkipEntry],
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
    *,
    reports: Path,
    miopen_cache: Path,
    inherited: Mapping[str, str],
    today: date,
) -> tuple[UnitsRun, ...]:
    """A run for each target; nothing is run or written. `inherited` is the caller's environment."""
    environment = environment_of(setting, table, miopen_cache, inherited)
    if asked.debug:
        environment = environment.with_({ONLY_ENTRIES: "1"})
    arguments = [*(["-k", asked.keyword] if asked.keyword else [])]
    arguments += [] if asked.cache else ["-p", "no:cacheprovider"]
    runs = []
    for target in setting.by_target:
        ran = setting.ran(SUITE, target, shard=asked.shard, shards=asked.shards)
        hold, notes = setting.entries_for(() if asked.keyword else entries, target, families, today)
        directory = reports / ran.key
        isolation = Isolation(
            python=setting.python,
            root=setting.checkout.tests,
            files=asked.files,
            pytest_args=(*arguments, *asked.pytest_args),
            env=environment.set,
            drop_env=setting.removed(environment, inherited),
            workers=setting.workers(target, asked.workers),
            entries=hold,
            test_s=asked.test_s,
            collect_s=table.limits.collect_s,
            end_s=table.limits.end_s,
            memory=asked.memory,
            reruns=asked.reruns,
            log_dir=directory / "logs",
        )
        if asked.shards > 1:
            isolation, said = _sharded(isolation, asked, ran, table)
            notes += said
        runs.append(UnitsRun(ran, isolation, directory, notes))
    return tuple(runs)


def _sharded(
    isolation: Isolation, asked: Units, ran: Ran, table: SuiteTable
) -> tuple[Isolation, tuple[str, ...]]:
    """What this shard runs of it; every shard of a run is told the same and so finds the same cut."""
    sharded = shards_of(
        asked.files,
        asked.shards,
        place=place_of(ran),
        spread=table.shards.spread,
        durations=asked.durations,
    )
    shard = sharded.shards[asked.shard - 1]
    isolation = msgspec.structs.replace(isolation, files=shard.files, only=shard.only, leave=shard.leave)
    return isolation, sharded.said


def shown_run(run: UnitsRun) -> dict[str, object]:
    """A run as plain values, for `--dry-run`."""
    plan = run.isolation
    return {
        "run": run.ran.key,
        "python": str(plan.python),
        "directory": str(plan.root),
        "files": list(plan.files),
        "pytest arguments": list(plan.pytest_args),
        "environment": dict(plan.env),
        "removed": list(plan.drop_env),
        "workers": [dict(worker) for worker in plan.workers],
        "skip entries": [entry.id for entry in plan.entries],
        "limit of one test": plan.test_s,
        "reruns": plan.reruns,
        "only": None if plan.only is None else list(plan.only),
        "left to other shards": list(plan.leave),
        "notes": list(run.notes),
        "record": str(run.directory),
    }
