"""`rocwright test plan | matrix | durations`: what there is to run as jobs, and how long tests take.

`matrix` is also known as `generate_test_sharding_matrix.py`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Files, Repeated, Text, Words
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.setting import read_checkout
from rocwright.gputest.shards.durations import (
    Durations,
    PlaceFacts,
    Summary,
    load_durations,
    summaries,
    take,
    write_durations,
)
from rocwright.gputest.shards.place import minor_of, target_name
from rocwright.gputest.shards.plan import (
    ShardJob,
    ShardRequest,
    config_names,
    find_row,
    matrix_line,
    parse_counts,
    parse_places,
    parse_suites,
    plan_jobs,
    sharding_matrix,
)
from rocwright.gputest.shards.upstream import upstream_times, write_upstream
from rocwright.gputest.skips.entries import families_table, load_entries
from rocwright.gputest.units import unit_files
from rocwright.model.platforms import Platform
from rocwright.model.suites import SuiteTable
from rocwright.system import console
from rocwright.system.days import today
from rocwright.system.workflow import tell_workflow


@replies
def gputest_plan(
    *,
    targets: Words,
    torch: Annotated[str, Parameter(name=["--torch", "--pytorch-version"])],
    suites: Words = ("units",),
    test_configs: Words = (),
    suite_files: Words = (),
    shards: Words = (),
    durations: Files = (),
    pytorch_dir: Path | None = None,
    platform: Platform = "linux",
    python_version: Text = "",
    rocm: Text = "",
    skips: Files = (),
    config: Path | None = None,
) -> Reply:
    """List the jobs that test a set of wheels: their shards, skip entries, variables and commands.

    Neither torch nor a GPU is needed. The JSON is what `rocwright test report --expect` takes.

    Parameters
    ----------
    targets
        GPU targets or families, with commas: gfx942,gfx110X-all; cpu for no GPU.
    torch
        The version of torch: 2.9, or that of a wheel.
    suites
        smoke, units or full, or several of them.
    test_configs
        Configurations of the full suite (default: all of the table).
    suite_files
        Other test files than those of the quick selection; one or several.
    shards
        Another number of shards of a configuration: default=4; one or several.
    durations
        Recorded durations that shards are made by; may be given several times.
    pytorch_dir
        A PyTorch checkout, to see that it has the files.
    python_version
        The version of Python, such as 3.12; without one, entries for some versions count.
    rocm
        The version of ROCm, in the same way.
    skips
        A TOML file with further skip entries; may be given several times.
    config
        A rocwright.toml (default: that of the current directory, if there is one).
    json
        Print the plan as JSON.
    """
    overlay = read_overlay(config)
    table = load_table("tests", SuiteTable, overlay)
    families = dict(families_table(overlay))
    known = tuple(row.name for row in table.config)
    names = config_names(test_configs) if test_configs else known
    files = suite_files or table.units.files
    if pytorch_dir is not None:
        files = unit_files(suite_files, (), table.units.files, read_checkout(pytorch_dir).tests)
    asked = ShardRequest(
        targets=parse_places(_words(targets), families),
        torch=torch,
        suites=parse_suites(_words(suites)),
        configs=names,
        platform=platform,
        python=python_version,
        rocm=rocm,
        files=files,
        counts=parse_counts(shards, tuple(dict.fromkeys(("default", *names)))),
        usual=not suite_files,
        durations=tuple(map(str, durations)),
        skips=tuple(map(str, skips)),
        pytorch_dir="" if pytorch_dir is None else str(pytorch_dir),
    )
    entries = load_entries(skips, overlay)
    recorded = load_durations(durations) if durations else None
    plan = plan_jobs(asked, table, families, entries, recorded, today())

    def show() -> None:
        rows = [_row(job) for job in plan.jobs]
        console.table("", ("job", "GPUs", "runs", "entries", "expected"), rows, right=(3, 4))
        # Not in the table: a command is copied as a whole.
        console.out("")
        for job in plan.jobs:
            console.out(f"{job.id}: {shlex.join(job.command)}")
        for note in plan.notes:
            console.say(note)

    return Reply(plan, show)


def _words(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for text in texts for word in re.split(r"[\s,;]+", text) if word)


def _row(job: ShardJob) -> tuple[str, ...]:
    runs = " ".join(job.files) if job.files else "what the suite selects"
    runs += " (in part)" if job.only is not None else ""
    seconds = "" if job.seconds is None else f"{job.seconds:.0f} s"
    return job.id, job.gpus, runs, str(len(job.entries)), seconds


@replies
def gputest_matrix(
    *,
    test_configs: Annotated[
        tuple[str, ...], Parameter(negative_iterable=(), consume_multiple=True, show_default=False)
    ],
    default_runner: Text = "",
    multi_gpu_runner: Text = "",
    shards: Repeated = (),
    config: Path | None = None,
) -> Reply:
    """Write the matrix of a workflow: a job for each shard of each configuration, and its machine.

    The line matrix={"include": […]} is appended to $GITHUB_OUTPUT, or printed where that is not set.

    Parameters
    ----------
    test_configs
        Configurations of PyTorch's own suite: "default distributed inductor".
    default_runner
        The label of the machines with one GPU.
    multi_gpu_runner
        The label of those with several.
    shards
        Another number of shards, or that of a configuration of your own: default=4; may be given several
        times.
    config
        A rocwright.toml (default: that of the current directory, if there is one).
    json
        Print the matrix as JSON.
    """
    table = load_table("tests", SuiteTable, read_overlay(config))
    names = config_names(test_configs)
    counts = parse_counts(shards, names)
    rows = sharding_matrix(
        [find_row(name, table.config, counts) for name in names],
        default_runner=default_runner,
        multi_gpu_runner=multi_gpu_runner,
    )
    line = matrix_line(rows)
    told = tell_workflow([line])

    def show() -> None:
        if told:
            console.say(f"{len(rows)} jobs written to $GITHUB_OUTPUT")
        else:
            console.out(line)

    return Reply({"include": rows}, show)


@replies
def gputest_durations(
    *reports: Path,
    output: Path | None = None,
    anew: Annotated[bool, Parameter(negative=())] = False,
    target: Text = "",
    torch: Annotated[str, Parameter(name=["--torch", "--pytorch-version"], show_default=False)] = "",
    test_config: str = "default",
    platform: Platform = "linux",
    upstream: Path | None = None,
    config: Path | None = None,
) -> Reply:
    """Record how long each test takes, by GPU and version of torch; shards are made by it.

    Of each test the median of its newest times counts. A run that was added before is not added again.

    Parameters
    ----------
    reports
        Directories of reports, results.json, JUnit files, or durations files.
    output
        The durations file to write; the runs are added to what it contains.
    anew
        Start anew: ignore what the file contains.
    target
        The GPU that JUnit files are from, which they do not record; cpu for none.
    torch
        The version of torch that they are from.
    test_config
        The configuration that they are from.
    platform
        The platform that they are from.
    upstream
        Write the times of --target and --torch into this PyTorch checkout, too, for its run_test.py.
    config
        A rocwright.toml (default: that of the current directory, if there is one).
    json
        Print what there is as JSON.
    """
    table = load_table("tests", SuiteTable, read_overlay(config))
    held = load_durations([output]) if output is not None and output.exists() and not anew else Durations()
    if not reports and not held.timed:
        raise UsageError("there is nothing to take durations from", next_step="name a directory of reports")
    if upstream is not None and not (target and torch):
        raise UsageError(
            "--upstream writes the times of one GPU and torch", next_step="say which: --target, --torch"
        )
    if reports:
        taken = take(held, reports, PlaceFacts(target, torch, test_config, platform), kept=table.shards.kept)
        for line in taken.unread:
            console.say(f"not read: {line}")
        held = taken.durations
    if output is not None:
        write_durations(held, output)
    if upstream is not None:
        families = dict(families_table(read_overlay(config)))
        times = upstream_times(held, target_name(target), minor_of(torch), table, families)
        for path in write_upstream(times, upstream):
            console.say(f"written: {path}")
    found = summaries(held)

    def show() -> None:
        rows = [_summary_row(one) for one in found]
        columns = ("place", "files", "tests", "all", "longest test", "takes")
        console.table("", columns, rows, right=(1, 2, 3, 5))

    return Reply(found, show)


def _summary_row(one: Summary) -> tuple[str, ...]:
    longest = f"{one.longest_s:.1f} s"
    return str(one.place), str(one.files), str(one.tests), f"{one.seconds:.1f} s", one.longest, longest
