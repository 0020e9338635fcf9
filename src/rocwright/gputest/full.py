"""PyTorch's own suite as it is planned: the calls of its run_test.py, and a run of them for each target.

A run has its environment, its GPUs and its skip entries; nothing here is run or written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec

from rocwright.errors import UsageError
from rocwright.gputest.devices import DeviceGroup, device_env
from rocwright.gputest.environment import (
    ONLY_ENTRIES,
    SKIPS_FILE,
    SKIPS_PLUGIN,
    ChildEnvironment,
    inside_directory,
)
from rocwright.gputest.setting import Setting, environment_of
from rocwright.model.gpu import expand
from rocwright.model.suites import SkipEntry, SuiteTable, UpstreamCall
from rocwright.model.testing import Device, Ran

SUITE = "full"


class Full(msgspec.Struct, frozen=True):
    """What is asked of the full suite.

    `left_out` says of each optional exclusion whether it is wanted; `keyword` is an expression for pytest's
    `-k`; `debug` runs only what skip entries are for; `test_s` is the limit of one test in seconds.
    `listing` lists what would run and runs nothing.
    """

    config: str = "default"
    shard: int = 1
    shards: int = 1
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    left_out: Mapping[str, bool] = msgspec.field(default_factory=dict)
    keyword: str = ""
    debug: bool = False
    cache: bool = True
    test_s: float = 900
    pytest_args: tuple[str, ...] = ()
    listing: bool = False


class Call(msgspec.Struct, frozen=True):
    """One process: a name for people, and its words behind the interpreter."""

    name: str
    words: tuple[str, ...]


class Calls(msgspec.Struct, frozen=True):
    """The calls of a configuration in order, and what is odd about them."""

    calls: tuple[Call, ...]
    notes: tuple[str, ...] = ()


class FullRun(msgspec.Struct, frozen=True):
    """The calls for one target: what they are called, where they run and where their record goes."""

    ran: Ran
    python: Path
    checkout: Path
    calls: tuple[Call, ...]
    environment: ChildEnvironment
    directory: Path
    test_s: float
    entries: tuple[SkipEntry, ...] = ()
    notes: tuple[str, ...] = ()

    def log(self, number: int) -> Path:
        """The log of a call."""
        return self.directory / "logs" / f"{number + 1}.log"

    @property
    def given(self) -> Path:
        """Where the skip entries are handed over."""
        return self.directory / "logs" / "skips.json"


def find_config(table: SuiteTable, name: str) -> tuple[UpstreamCall, ...]:
    """The calls of a configuration; raises `UsageError` naming those that there are."""
    found = tuple(row for row in table.upstream.call if row.config == name)
    if not found:
        known = " ".join(dict.fromkeys(row.config for row in table.upstream.call))
        raise UsageError(f"{name!r} is not a test configuration", next_step=f"configurations: {known}")
    return found


def several_gpus(table: SuiteTable, config: str) -> bool:
    """Whether a configuration is for machines with several GPUs, all of which it then uses."""
    return any(row.name == config and row.gpus == "several" for row in table.config)


def plan_calls(asked: Full, table: SuiteTable, checkout: Path) -> Calls:
    """The calls for what is asked of this checkout.

    An option that its run_test.py does not know would be handed to every test file; an option that only
    leaves tests out is left out itself. Raises `UsageError` for a checkout without run_test.py, a
    configuration that it does not have, and modules that the configuration does not.
    """
    rows = find_config(table, asked.config)
    text = _script(checkout, table)
    notes: list[str] = []
    calls = []
    for row in rows:
        include = _include(row, asked)
        if include is None:
            continue
        words = [table.upstream.script, *table.upstream.arguments]
        for option in row.arguments:
            if not _knows(text, option):
                raise UsageError(
                    f"run_test.py of this PyTorch has no {option}, so it has no configuration {asked.config}",
                    where=checkout / table.upstream.script,
                    next_step="choose another: --config default",
                )
            words.append(option)
        for name, option in row.optional.items():
            if not asked.left_out.get(name, True):
                continue
            if _knows(text, option):
                words.append(option)
            else:
                notes.append(f"run_test.py of this PyTorch has no {option}")
        if asked.listing:
            words.append("--dry-run")
        if asked.shards > 1:
            words += ["--shard", str(asked.shard), str(asked.shards)]
        if include:
            words += ["--include", *include]
        exclude = _exclude(asked, table, checkout, include)
        if exclude:
            words += ["--exclude", *exclude]
        if asked.keyword:
            words += ["-k", asked.keyword]
        # Behind the dashes nothing is an option of run_test.py: its -x means --exclude, pytest's does not.
        words += ["--", f"--timeout={asked.test_s:g}"]
        words += [] if asked.cache else ["-p", "no:cacheprovider"]
        calls.append(Call(row.name or asked.config, (*words, *asked.pytest_args)))
    if not calls:
        has = " ".join(module for row in rows for module in row.include)
        raise UsageError(
            f"none of {' '.join(asked.include)} belongs to the configuration {asked.config}",
            next_step=f"it has {has}",
        )
    check = table.upstream.checks.get(asked.config)
    if check is not None and not asked.listing:
        if (checkout / check).is_file():
            calls.insert(0, Call(check, (check,)))
        else:
            notes.append(f"this PyTorch has no {check}")
    return Calls(tuple(calls), tuple(dict.fromkeys(notes)))


def _script(checkout: Path, table: SuiteTable) -> str:
    path = checkout / table.upstream.script
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{checkout} has no {table.upstream.script} that can be read",
            where=path,
            next_step="name the root of a PyTorch checkout with --pytorch-dir",
        ) from error


def _knows(text: str, option: str) -> bool:
    return re.search(rf"[\"']{re.escape(option)}[\"']", text) is not None


def _include(row: UpstreamCall, asked: Full) -> tuple[str, ...] | None:
    """The modules of a call; None where nothing of it is asked for."""
    wanted = tuple(name.removesuffix(".py") for name in asked.include)
    if not row.include or not wanted:
        return wanted or row.include
    return tuple(module for module in row.include if module in wanted) or None


def _exclude(asked: Full, table: SuiteTable, checkout: Path, include: tuple[str, ...]) -> tuple[str, ...]:
    """What breaks the run, where this checkout has it and nobody named it, and what is asked to be left out.

    run_test.py refuses modules that it does not have.
    """
    tests = (checkout / table.upstream.script).parent
    broken = [
        module
        for module in table.upstream.excluded
        if module not in include and (tests / f"{module}.py").is_file()
    ]
    return tuple(dict.fromkeys([*broken, *(name.removesuffix(".py") for name in asked.exclude)]))


def build_environment(target: str, table: SuiteTable, families: Mapping[str, tuple[str, ...]]) -> str:
    """The name by which upstream keeps the timings of this GPU, or of the nearest."""
    for family, name in table.upstream.build_environments.items():
        if target in expand([family], families):
            return name
    return table.upstream.build_environment


def call_environment(
    base: ChildEnvironment,
    asked: Full,
    table: SuiteTable,
    *,
    target: str,
    families: Mapping[str, tuple[str, ...]],
) -> ChildEnvironment:
    """What run_test.py gets besides the environment of all tests."""
    more = {
        **table.upstream.environment,
        **({} if several_gpus(table, asked.config) else table.upstream.serial),
        "BUILD_ENVIRONMENT": build_environment(target, table, families),
        "TEST_CONFIG": asked.config,
    }
    merged = base.with_(more)
    # Options say these already; some versions of run_test.py would read them a second time.
    removed = {*merged.removed, "TESTS_TO_INCLUDE", "SHARD_NUMBER", "NUM_TEST_SHARDS"}
    return ChildEnvironment(merged.set, tuple(sorted(removed)))


def plan_full(
    asked: Full,
    calls: Calls,
    setting: Setting,
    entries: Sequence[SkipEntry],
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
    *,
    reports: Path,
    miopen_cache: Path,
    inherited: Mapping[str, str],
    today: date,
) -> tuple[FullRun, ...]:
    """A run for each target; nothing is run or written. `inherited` is the caller's environment.

    run_test.py divides the GPUs that it sees among its processes itself, so it gets all of a target's.
    """
    base = environment_of(setting, table, miopen_cache, inherited)
    runs = []
    for target, groups in setting.by_target.items():
        ran = setting.ran(SUITE, target, config=asked.config, shard=asked.shard, shards=asked.shards)
        directory = reports / ran.key
        hold, said = setting.entries_for(() if asked.keyword else entries, target, families, today)
        environment = call_environment(base, asked, table, target=target, families=families)
        environment = environment.with_(_visible(setting, groups))
        run = FullRun(
            ran=ran,
            python=setting.python,
            checkout=setting.checkout.directory,
            calls=calls.calls,
            environment=environment,
            directory=directory,
            test_s=asked.test_s,
            entries=hold,
            notes=(*calls.notes, *said),
        )
        if hold or asked.debug:
            environment = _with_entries(environment, run.given, inherited, asked.debug)
        environment = ChildEnvironment(environment.set, setting.removed(environment, inherited))
        runs.append(msgspec.structs.replace(run, environment=environment))
    return tuple(runs)


def _visible(setting: Setting, groups: Sequence[DeviceGroup]) -> dict[str, str]:
    if not groups:
        return {setting.facts.variable: ""}
    devices: tuple[Device, ...] = tuple(device for group in groups for device in group.devices)
    return device_env(DeviceGroup(groups[0].target, devices), setting.facts)


def _with_entries(
    environment: ChildEnvironment, given: Path, inherited: Mapping[str, str], only: bool
) -> ChildEnvironment:
    """The plugin that applies skip entries, for every pytest that run_test.py starts."""
    more = {
        SKIPS_FILE: str(given),
        "PYTEST_ADDOPTS": " ".join(filter(None, (inherited.get("PYTEST_ADDOPTS"), f"-p {SKIPS_PLUGIN}"))),
        "PYTHONPATH": os.pathsep.join((environment.set["PYTHONPATH"], str(inside_directory()))),
        **({ONLY_ENTRIES: "1"} if only else {}),
    }
    return environment.with_(more)


def shown_full(run: FullRun) -> dict[str, object]:
    """A run as plain values, for `--dry-run`."""
    return {
        "run": run.ran.key,
        "directory": str(run.checkout),
        "calls": [[str(run.python), *call.words] for call in run.calls],
        "environment": dict(run.environment.set),
        "removed": list(run.environment.removed),
        "skip entries": [entry.id for entry in run.entries],
        "notes": list(run.notes),
        "record": str(run.directory),
    }
