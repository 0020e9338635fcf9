"""`rocwright test durations`: how long tests take, from the reports of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.shards.durations import (
    Durations,
    load_durations,
    minor_of,
    target_name,
    write_durations,
)
from rocwright.gputest.shards.runs import PlaceFacts, take
from rocwright.gputest.shards.summary import Summary, summaries
from rocwright.gputest.shards.upstream import upstream_times, write_upstream
from rocwright.gputest.skips.entries import families_table
from rocwright.model.platforms import Platform
from rocwright.model.suites import SuiteTable
from rocwright.system import console

Text = Annotated[str, Parameter(show_default=False)]


@answers
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
) -> Answer:
    """Record how long each test takes, by GPU and version of torch; shards are made by it.

    Of each test the median of its newest times counts. A run that was taken before is not taken twice.

    Parameters
    ----------
    reports
        Directories of reports, results.json, JUnit files, or durations files.
    output
        The durations file to write; the runs are added to what it holds.
    anew
        Do not take what the file holds.
    target
        The GPU that JUnit files are from; they do not say it. cpu for none.
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
        rows = [_row(one) for one in found]
        columns = ("place", "files", "tests", "all", "longest test", "takes")
        console.table("", columns, rows, right=(1, 2, 3, 5))

    return Answer(found, show)


def _row(one: Summary) -> tuple[str, ...]:
    longest = f"{one.longest_s:.1f} s"
    return str(one.place), str(one.files), str(one.tests), f"{one.seconds:.1f} s", one.longest, longest
