"""`rocwright test matrix`, also known as `generate_test_sharding_matrix.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.gputest.shards.matrix import (
    config_names,
    find_row,
    matrix_line,
    parse_counts,
    sharding_matrix,
)
from rocwright.model.suites import SuiteTable
from rocwright.system import console
from rocwright.system.workflow import tell_workflow

Several = Annotated[tuple[str, ...], Parameter(negative_iterable=(), show_default=False)]
Text = Annotated[str, Parameter(show_default=False)]


@answers
def gputest_matrix(
    *,
    test_configs: Annotated[
        tuple[str, ...], Parameter(negative_iterable=(), consume_multiple=True, show_default=False)
    ],
    default_runner: Text = "",
    multi_gpu_runner: Text = "",
    shards: Several = (),
    config: Path | None = None,
) -> Answer:
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

    return Answer({"include": rows}, show)
