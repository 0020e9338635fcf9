"""`rocwright test plan`: what there is to run, as jobs that can be run alone."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.gputest_options import Several
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.gputest.shards.durations import load_durations
from rocwright.gputest.shards.matrix import config_names, parse_counts
from rocwright.gputest.shards.plan import ShardJob, ShardRequest, parse_places, parse_suites, plan_jobs
from rocwright.gputest.skips.entries import families_table, load_entries
from rocwright.gputest.units import unit_files
from rocwright.gputest.upstream.checkout import read_checkout
from rocwright.model.platforms import Platform
from rocwright.model.suites import SuiteTable
from rocwright.system import console
from rocwright.system.days import today

Words = Annotated[tuple[str, ...], Parameter(negative_iterable=(), consume_multiple=True, show_default=False)]
Files = Annotated[tuple[Path, ...], Parameter(negative_iterable=(), show_default=False)]
Text = Annotated[str, Parameter(show_default=False)]


@answers
def gputest_plan(
    *,
    targets: Words,
    torch: Annotated[str, Parameter(name=["--torch", "--pytorch-version"])],
    suites: Words = ("units",),
    test_configs: Words = (),
    suite_files: Several = (),
    shards: Several = (),
    durations: Files = (),
    pytorch_dir: Path | None = None,
    platform: Platform = "linux",
    python_version: Text = "",
    rocm: Text = "",
    skips: Files = (),
    config: Path | None = None,
) -> Answer:
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
        console.table("", ("job", "GPUs", "runs", "entries", "expected", "command"), rows, right=(3, 4))
        for note in plan.notes:
            console.say(note)

    return Answer(plan, show)


def _words(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for text in texts for word in re.split(r"[\s,;]+", text) if word)


def _row(job: ShardJob) -> tuple[str, ...]:
    runs = " ".join(job.files) if job.files else "what the suite selects"
    runs += " (in part)" if job.only is not None else ""
    seconds = "" if job.seconds is None else f"{job.seconds:.0f} s"
    return job.id, job.gpus, runs, str(len(job.entries)), seconds, shlex.join(job.command)
