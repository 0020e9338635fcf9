"""The runs of PyTorch's own suite: a run for each target, with its environment and skip entries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from rocwright.gputest.devices import DeviceGroup, device_env
from rocwright.gputest.environment import (
    ONLY_ENTRIES,
    SKIPS_FILE,
    SKIPS_PLUGIN,
    ChildEnvironment,
    inside_directory,
)
from rocwright.gputest.setting import Setting, environment_of
from rocwright.gputest.upstream.calls import Calls, Full, call_environment
from rocwright.gputest.upstream.run import FullRun
from rocwright.model.skips import SkipEntry
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import Device, Ran

SUITE = "full"


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
        ran = Ran(
            suite=SUITE,
            config=asked.config,
            target=target,
            torch=setting.facts.version,
            rocm=setting.rocm,
            python=setting.facts.python,
            platform=setting.platform,
            shard=asked.shard,
            shards=asked.shards,
        )
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
        runs.append(replace(run, environment=environment))
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
