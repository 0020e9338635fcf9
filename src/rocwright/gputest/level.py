"""PyTorch's own tests as a level of a run asks for them: files in isolated workers, or its own run_test.py.

They run in a given environment, from the sources that its torch was built from; a run for each target.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import Interrupted
from rocwright.gputest.devices import Policy, Query
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.full import Full, plan_calls, plan_full, several_gpus
from rocwright.gputest.full_run import require_packages, run_full
from rocwright.gputest.isolate.run import Teller, run_recorded
from rocwright.gputest.record import write_record, writing_alone
from rocwright.gputest.setting import Setting, TestRequest, gather, read_checkout
from rocwright.gputest.shards.durations import Durations
from rocwright.gputest.shards.level import NONE_TO_RUN, ShardName
from rocwright.gputest.shards.place import minor_of, target_name
from rocwright.gputest.shards.upstream import upstream_times, write_upstream
from rocwright.gputest.skips.entries import families_table, load_entries
from rocwright.gputest.units import Units, plan_units, unit_files
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import RunRecord
from rocwright.system.days import today

Say = Callable[[str], None]


class Desk(msgspec.Struct, frozen=True):
    """Where a level's tests run.

    `python` has the torch that is tested, `checkout` is its source tree, at one of the commits `locked`.
    Without a `family` they run on the CPU, in `workers` processes; with one on all GPUs that it has here.
    `durations` are those that the shards of every machine are made by.
    """

    python: Path
    checkout: Path
    reports: Path
    family: str = ""
    locked: tuple[str, ...] = ()
    workers: int = 1
    durations: Durations | None = None
    overlay: Overlay | None = None

    @property
    def table(self) -> SuiteTable:
        """What is tested, and how."""
        return load_table("tests", SuiteTable, self.overlay)


def run_files(desk: Desk, files: Sequence[str], shard: ShardName, note: Say) -> tuple[RunRecord, ...]:
    """Test files, each test isolated from the others; one record for each target.

    Raises `UsageError` naming every file that the checkout does not have, and what `gather` raises.
    """
    table, families = desk.table, dict(families_table(desk.overlay))
    asked = Units(
        files=unit_files(files, (), (), read_checkout(desk.checkout).tests),
        cache=False,
        workers=1 if desk.family else desk.workers,
        test_s=table.limits.test_s,
        shard=shard.number,
        shards=shard.of,
        durations=desk.durations,
    )
    # A worker for each GPU.
    setting = _setting(desk, table, families, note, query="all", policy="single")
    with fresh_cache() as cache:
        runs = plan_units(
            asked,
            setting,
            load_entries(overlay=desk.overlay),
            table,
            families,
            reports=desk.reports,
            miopen_cache=Path(cache),
            inherited=os.environ,
            today=today(),
        )
        for text in dict.fromkeys(text for run in runs for text in run.notes):
            note(text)
        return tuple(
            run_recorded(run.ran, run.isolation, run.directory, Teller.of(note, ()), notes=run.notes)
            for run in runs
        )


def run_config(desk: Desk, shard: ShardName, note: Say) -> tuple[RunRecord, ...] | str:
    """A configuration of PyTorch's own run_test.py; one record for each target, or why there is none to run.

    Raises what `plan_calls`, `gather` and `run_full` raise.
    """
    table, families = desk.table, dict(families_table(desk.overlay))
    asked = Full(
        config=shard.config,
        shard=shard.number,
        shards=shard.of,
        cache=False,
        test_s=table.limits.test_s,
    )
    several = several_gpus(table, asked.config)
    calls = plan_calls(asked, table, read_checkout(desk.checkout).directory)
    query: Query = "all" if several else "unique"
    setting = _setting(desk, table, families, note, query=query, policy="all" if several else "single")
    gpus = sum(len(group.devices) for groups in setting.by_target.values() for group in groups)
    if several and gpus < 2:
        return (
            f"{NONE_TO_RUN}: {asked.config} needs several GPUs, and there {'is one' if gpus else 'is none'}"
        )
    _balance(desk, setting, table, families, note)
    with fresh_cache() as cache:
        runs = plan_full(
            asked,
            calls,
            setting,
            load_entries(overlay=desk.overlay),
            table,
            families,
            reports=desk.reports,
            miopen_cache=Path(cache),
            inherited=os.environ,
            today=today(),
        )
        require_packages(desk.python, table)
        records = []
        for run in runs:
            with writing_alone(run.directory):
                done = run_full(run, table, note=note)
                write_record(done.record, run.directory)
            if done.interrupted:
                raise Interrupted("stopped; the results until then are in the record", where=run.directory)
            records.append(done.record)
    return tuple(records)


def _setting(
    desk: Desk,
    table: SuiteTable,
    families: dict[str, tuple[str, ...]],
    note: Say,
    *,
    query: Query,
    policy: Policy,
) -> Setting:
    want = TestRequest(
        pytorch_dir=desk.checkout,
        python=desk.python,
        family=desk.family,
        locked=desk.locked,
        allow_mismatch=table.units.match == "any",
        cpu=not desk.family,
        query=query,
        policy=policy,
    )
    setting = gather(want, table, families, platform=this_platform(), note=note)
    for text in setting.notes:
        note(text)
    return setting


def _balance(
    desk: Desk, setting: Setting, table: SuiteTable, families: dict[str, tuple[str, ...]], note: Say
) -> None:
    """Have run_test.py deal its files out by these durations, where there are some of this GPU and torch."""
    torch = minor_of(setting.facts.version)
    for target in map(target_name, setting.by_target):
        held = () if desk.durations is None else desk.durations.timed
        if any((one.place.target, one.place.torch) == (target, torch) for one in held):
            assert desk.durations is not None
            write_upstream(upstream_times(desk.durations, target, torch, table, families), desk.checkout)
            note(f"durations: {target}, torch {torch}")
            return
