"""The matrix of a workflow's jobs: a row for each shard of each configuration, and the machine it runs on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import msgspec

from rocwright.errors import UsageError
from rocwright.model.suites import ConfigRow

_COUNT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)=(?P<count>[0-9]{1,4})")


class MatrixRow(msgspec.Struct, frozen=True):
    """One job; `shard` counts from 1, `runs_on` is the label of a runner."""

    test_config: str
    shard: int
    num_shards: int
    runs_on: str


def config_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Names of configurations, separated by spaces or commas, each once; raises `UsageError` for none."""
    names = tuple(dict.fromkeys(word for text in texts for word in re.split(r"[\s,]+", text) if word))
    if not names:
        raise UsageError(
            "no configuration is named", next_step='name some: --test-configs "default inductor"'
        )
    return names


def parse_counts(texts: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    """Numbers of shards that replace the table's, written `default=4`; `names` are those that may be given.

    Raises `UsageError` for other text, a number below 1, a name twice, and a name that nobody asked for.
    """
    counts: dict[str, int] = {}
    for text in texts:
        match = _COUNT.fullmatch(text.strip())
        if match is None or int(match["count"]) < 1:
            raise UsageError(
                f"--shards {text} is no number of shards", next_step="write it like --shards default=4"
            )
        name = match["name"]
        if name in counts:
            raise UsageError(f"--shards gives {name} twice", next_step="give each number once")
        if name not in names:
            near = get_close_matches(name, names, n=1)
            raise UsageError(
                f"--shards {text}: nothing of that name is asked for",
                next_step=f"perhaps {near[0]}={match['count']}" if near else f"asked for: {' '.join(names)}",
            )
        counts[name] = int(match["count"])
    return counts


def find_row(name: str, table: Sequence[ConfigRow], counts: Mapping[str, int]) -> ConfigRow:
    """A configuration with the number of its shards; a number makes one that the table does not know.

    Raises `UsageError` for a name that is in neither.
    """
    row = next((row for row in table if row.name == name), None)
    if row is None and name not in counts:
        known = [row.name for row in table]
        near = get_close_matches(name, known, n=1)
        perhaps = f"perhaps {near[0]}; " if near else ""
        raise UsageError(
            f"{name!r} is no known test configuration (known: {', '.join(known)})",
            next_step=f"{perhaps}for one of your own say how many shards it has: --shards {name}=2",
        )
    if row is None:
        return ConfigRow(name, counts[name], "one")
    return ConfigRow(row.name, counts.get(name, row.shards), row.gpus)


def sharding_matrix(
    rows: Sequence[ConfigRow], *, default_runner: str, multi_gpu_runner: str
) -> tuple[MatrixRow, ...]:
    """The jobs of the configurations, in order.

    Raises `UsageError` where a configuration needs a machine that has no label.
    """
    found: list[MatrixRow] = []
    for row in rows:
        several = row.gpus == "several"
        label = (multi_gpu_runner if several else default_runner).strip()
        if not label:
            option = "--multi-gpu-runner" if several else "--default-runner"
            raise UsageError(
                f"the configuration {row.name} has no machine to run on",
                next_step=f"give the label of one with {option}, or leave {row.name} out",
            )
        found += [MatrixRow(row.name, number, row.shards, label) for number in range(1, row.shards + 1)]
    return tuple(found)


def matrix_line(rows: Sequence[MatrixRow]) -> str:
    """`matrix={…}` as a workflow reads it: one line."""
    return f"matrix={msgspec.json.encode({'include': rows}).decode()}"
