"""`rocwright test units`, also known as `run_pytorch_tests.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.gputest_options import (
    CHOICE,
    GPUS,
    OUTPUT,
    SOURCE,
    Choice,
    Gpus,
    Number,
    Output,
    Several,
    TestedTorch,
    gathered,
    require_both,
    skip_entries,
    wanted,
)
from rocwright.cli.numbers import Count, OptionalAmount
from rocwright.cli.show_gputest import end, records_answer, runs_answer
from rocwright.gputest.fresh import fresh_cache
from rocwright.gputest.run import run_recorded
from rocwright.gputest.shards.durations import load_durations
from rocwright.gputest.tell import Teller
from rocwright.gputest.units import (
    Units,
    plan_units,
    require_sense,
    shown_run,
    unit_files,
)
from rocwright.gputest.upstream.checkout import read_checkout
from rocwright.system import console
from rocwright.system.days import today


@answers(within="output")
def gputest_units(
    *pytest_args: str,
    tested: TestedTorch = SOURCE,
    gpus: Gpus = GPUS,
    choice: Choice = CHOICE,
    suite_files: Several = (),
    add_files: Several = (),
    workers: Count = 1,
    reruns: Annotated[Number, Parameter(env_var="PYTORCH_NUM_PYTEST_RERUNS")] = None,
    memory_gb: OptionalAmount = None,
    shard: Number = None,
    num_shards: Number = None,
    durations: Annotated[tuple[Path, ...], Parameter(negative_iterable=(), show_default=False)] = (),
    output: Output = OUTPUT,
) -> Iterator[Answer]:
    """Run the quick selection of PyTorch's own tests against the installed torch, each test at its own risk.

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
        What a worker with its children may use, in GB (default: decided from the machine).
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
            yield runs_answer([shown_run(run) for run in runs])
            return
        records = [
            run_recorded(
                run.ran, run.isolation, run.directory, Teller.of(console.say, pytest_args), notes=run.notes
            )
            for run in runs
        ]
    yield records_answer(records, output.reports_dir)
    end(records, output.reports_dir)
