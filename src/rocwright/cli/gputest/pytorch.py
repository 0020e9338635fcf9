"""`rocwright test units | full`: PyTorch's own tests, the quick selection and the whole suite.

Also known as `run_pytorch_tests.py` and `run_pytorch_tests_full.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.gputest.options import (
    CHOICE,
    GPUS,
    GPUS_OF_CONFIG,
    OUTPUT,
    SOURCE,
    Choice,
    Gpus,
    GpusOfConfig,
    Number,
    Output,
    TestedTorch,
    gathered,
    of_environment,
    require_both,
    skip_entries,
    wanted,
)
from rocwright.cli.gputest.show import end, records_reply, runs_reply
from rocwright.cli.options import Count, Files, OptionalAmount, Words
from rocwright.cli.reply import Reply, replies
from rocwright.errors import Interrupted
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.full import Full, FullRun, plan_calls, plan_full, several_gpus, shown_full
from rocwright.gputest.full_run import require_packages, run_full
from rocwright.gputest.isolate.run import Teller, run_recorded
from rocwright.gputest.record import write_record, writing_alone
from rocwright.gputest.setting import read_checkout
from rocwright.gputest.shards.durations import load_durations
from rocwright.gputest.units import Units, plan_units, require_sense, shown_run, unit_files
from rocwright.system import console
from rocwright.system.days import today


@replies(within="output")
def gputest_units(
    *pytest_args: str,
    tested: TestedTorch = SOURCE,
    gpus: Gpus = GPUS,
    choice: Choice = CHOICE,
    suite_files: Words = (),
    add_files: Words = (),
    workers: Count = 1,
    reruns: Annotated[Number, Parameter(env_var="PYTORCH_NUM_PYTEST_RERUNS")] = None,
    memory_gb: OptionalAmount = None,
    shard: Number = None,
    num_shards: Number = None,
    durations: Files = (),
    output: Output = OUTPUT,
) -> Iterator[Reply]:
    """Run the quick selection of PyTorch's own tests against the installed torch, isolated from each other.

    Tests run in worker processes: a crash or a hang costs the test in which it happens. Ends as pytest does:
    0 passed, 1 failed, 2 a mistake in the options or stopped before the end, 5 nothing ran.

    Parameters
    ----------
    pytest_args
        Options for pytest, behind `--`: `-- -v --import-mode=importlib`.
    suite_files
        Run these test files instead, by their path in the directory test; one or several.
    add_files
        Run these, too; one or several.
    workers
        Test processes for each GPU, or for the CPU.
    reruns
        How many times a test that failed is run again; one that passes then is flaky (default: 0).
    memory_gb
        Memory that a worker with its children may use, in GB (default: decided from the machine).
    shard
        Which shard to run, from 1; needs --num-shards.
    num_shards
        How many shards there are.
    durations
        Recorded durations that shards are made by; may be given several times.
    """
    number, of = require_both(shard, num_shards)
    table = output.table()
    want = wanted(tested, gpus)
    asked = Units(
        unit_files(suite_files, add_files, table.units.files, read_checkout(want.pytorch_dir).tests),
        keyword=choice.k,
        debug=choice.debug,
        cache=choice.cache,
        workers=workers,
        reruns=reruns or 0,
        test_s=table.limits.test_s if choice.test_timeout is None else choice.test_timeout,
        memory=None if memory_gb is None else int(memory_gb * 10**9),
        shard=number,
        shards=of,
        durations=load_durations(durations, kept=table.shards.kept) if durations else None,
        pytest_args=pytest_args,
    )
    require_sense(asked)
    entries = skip_entries(choice, output)
    setting = gathered(want, table, output.families())
    with fresh_cache() as cache:
        runs = plan_units(
            asked,
            setting,
            entries,
            table,
            output.families(),
            reports=output.reports,
            miopen_cache=Path(cache),
            inherited=os.environ,
            today=today(),
        )
        if output.dry_run:
            yield runs_reply([shown_run(run) for run in runs])
            return
        records = [
            run_recorded(
                run.ran, run.isolation, run.directory, Teller.of(console.say, pytest_args), notes=run.notes
            )
            for run in runs
        ]
    yield records_reply(records, output.reports_dir)
    end(records, output.reports_dir)


_Modules = Annotated[
    tuple[str, ...], Parameter(negative_iterable=(), show_default=False, consume_multiple=True)
]
_Included = Annotated[
    tuple[str, ...],
    Parameter(negative_iterable=(), show_default=False, consume_multiple=True, env_var="TESTS_TO_INCLUDE"),
]


@replies(within="output")
def gputest_full(
    *pytest_args: str,
    tested: TestedTorch = SOURCE,
    gpus: GpusOfConfig = GPUS_OF_CONFIG,
    choice: Choice = CHOICE,
    test_config: Annotated[str, Parameter(env_var="TEST_CONFIG")] = "default",
    shard: Annotated[Number, of_environment("SHARD_NUMBER")] = None,
    num_shards: Annotated[Number, of_environment("NUM_TEST_SHARDS")] = None,
    include: _Included = (),
    exclude: _Modules = (),
    exclude_jit_executor: bool = True,
    exclude_distributed: bool = True,
    exclude_quantization: bool = True,
    list_only: Annotated[bool, Parameter(name="--list", negative=())] = False,
    output: Output = OUTPUT,
) -> Iterator[Reply]:
    """Run PyTorch's own suite, test/run_test.py of the checkout, and judge it by its reports.

    It is stopped when it does not exit after its last test, or does nothing for a long time. A module that
    leaves no report and a process that fails without one count as failed.

    Parameters
    ----------
    pytest_args
        Options for pytest, behind `--`.
    test_config
        The configuration: default, distributed, inductor.
    shard
        Which shard to run, from 1; needs --num-shards.
    num_shards
        How many shards there are.
    include
        Run only these modules: test_nn inductor/test_torchinductor.
    exclude
        Leave these modules out.
    exclude_jit_executor
        Leave out the tests of the JIT's executors.
    exclude_distributed
        Leave out the distributed tests; they are a configuration of their own.
    exclude_quantization
        Leave out the quantization tests.
    list_only
        Let run_test.py list what would run.
    """
    number, of = require_both(shard, num_shards)
    table = output.table()
    asked = Full(
        config=test_config or "default",
        shard=number,
        shards=of,
        include=include,
        exclude=exclude,
        left_out={
            "exclude-jit-executor": exclude_jit_executor,
            "exclude-distributed": exclude_distributed,
            "exclude-quantization": exclude_quantization,
        },
        keyword=choice.k,
        debug=choice.debug,
        cache=choice.cache,
        test_s=table.limits.test_s if choice.test_timeout is None else choice.test_timeout,
        pytest_args=pytest_args,
        listing=list_only,
    )
    want = wanted(tested, gpus.resolved(several_gpus(table, asked.config)))
    calls = plan_calls(asked, table, read_checkout(want.pytorch_dir).directory)
    entries = skip_entries(choice, output)
    setting = gathered(want, table, output.families())
    with fresh_cache() as cache:
        runs = plan_full(
            asked,
            calls,
            setting,
            entries,
            table,
            output.families(),
            reports=output.reports,
            miopen_cache=Path(cache),
            inherited=os.environ,
            today=today(),
        )
        if output.dry_run:
            yield runs_reply([shown_full(run) for run in runs])
            return
        require_packages(want.python, table)
        records = []
        for run in runs:
            with writing_alone(run.directory):
                done = run_full(run, table, note=console.say)
                records.append(done.record)
                if list_only:
                    _show_listing(run)
                else:
                    write_record(done.record, run.directory)
            if done.interrupted:
                raise Interrupted("stopped; the results until then are in the record", where=run.directory)
    if list_only and not any(record.bad for record in records):
        return
    yield records_reply(records, output.reports_dir)
    end(records, output.reports_dir)


def _show_listing(run: FullRun) -> None:
    """What run_test.py printed, without the command itself."""
    for number, _ in enumerate(run.calls):
        for line in run.log(number).read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
            console.out(line)
