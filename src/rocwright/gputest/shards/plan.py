"""What there is to run, as a list of jobs: each with a readable id, and the command that runs it alone.

A workflow's matrix is less: a row for each shard of each configuration, and the machine that it runs on.
Nothing is asked of a GPU or of torch, so that a workflow can be made from it anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import PurePath
from typing import Literal, get_args

import msgspec

from rocwright.errors import UsageError
from rocwright.gputest.environment import ChildEnvironment, child_environment
from rocwright.gputest.full import Full, call_environment, find_config
from rocwright.gputest.shards.durations import Durations
from rocwright.gputest.shards.pack import shards_of
from rocwright.gputest.shards.place import TimingPlace, minor_of
from rocwright.gputest.skips.hold import FamilyMembers, near_names, state_of, targets_of
from rocwright.gputest.skips.hold import Place as Where
from rocwright.model.gpu import InvalidTarget, in_order
from rocwright.model.platforms import Platform
from rocwright.model.suites import ConfigRow, SkipEntry, SuiteTable
from rocwright.model.testing import Ran
from rocwright.model.version import InvalidVersion, parse_version

Suite = Literal["smoke", "units", "full"]
SUITES: tuple[Suite, ...] = get_args(Suite)
CPU = "cpu"
_ONE = ConfigRow("default", 1, "one")
_CUDA = re.compile(r"sm_[0-9]+[a-z]?")
# Made by each run for itself.
_OWN = ("MIOPEN_CUSTOM_CACHE_DIR", "PYTHONPATH")
_COUNT = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)=(?P<count>[0-9]{1,4})")


class ShardJob(msgspec.Struct, frozen=True):
    """One run of the matrix.

    `target` is empty for the CPU. `files` is empty where the suite chooses them itself; of them `only` runs
    (null: all) and not what is in `leave`. `entries` are the ids of the skip entries that hold,
    `environment` is set and `removed` taken away for the tests. `seconds` is what the tests are expected to
    take, null where nothing is known. `gpus` is what the machine needs.
    """

    id: str
    suite: str
    config: str
    target: str
    torch: str
    platform: Platform
    shard: int
    shards: int
    gpus: Literal["none", "one", "several"]
    files: tuple[str, ...]
    only: tuple[str, ...] | None
    leave: tuple[str, ...]
    entries: tuple[str, ...]
    environment: dict[str, str]
    removed: tuple[str, ...]
    seconds: float | None
    command: tuple[str, ...]


class SuitePlan(msgspec.Struct, frozen=True):
    """All jobs in order, and what is to be known of them: by what they were sharded, what is uneven."""

    jobs: tuple[ShardJob, ...]
    notes: tuple[str, ...]


class ShardRequest(msgspec.Struct, frozen=True):
    """What a plan is for.

    `targets` are targets, or `cpu`. `files` are those of unit tests, `usual` whether they are the table's.
    `counts` are numbers of shards by configuration. `durations`, `skips` and `pytorch_dir` are what the
    commands are told of them.
    """

    targets: tuple[str, ...]
    torch: str
    suites: tuple[Suite, ...] = ("units",)
    configs: tuple[str, ...] = ("default",)
    platform: Platform = "linux"
    python: str = ""
    rocm: str = ""
    files: tuple[str, ...] = ()
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    usual: bool = True
    durations: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    pytorch_dir: str = ""


def parse_suites(words: Sequence[str]) -> tuple[Suite, ...]:
    """Names of suites, in the order in which they are run; raises `UsageError` for any other."""
    for word in words:
        if word not in SUITES:
            raise UsageError(f"{word!r} is not a suite", next_step=f"suites: {' '.join(SUITES)}")
    return tuple(suite for suite in SUITES if suite in words)


def parse_places(words: Sequence[str], families: FamilyMembers) -> tuple[str, ...]:
    """Targets of targets and families, in the hardware's order; behind them CUDA's (`sm_90`), and `cpu` last.

    Raises `InvalidTarget` for another name and `UsageError` for none.
    """
    found: set[str] = set()
    cuda: list[str] = []
    for word in words:
        if word == CPU:
            continue
        if _CUDA.fullmatch(word):
            cuda.append(word)
            continue
        meant = targets_of((word.partition(":")[0],), families)
        if not meant:
            raise InvalidTarget(
                f"{word!r} is not a known family or target", next_step=near_names(word, families)
            )
        found |= meant
    targets = (*in_order(found), *dict.fromkeys(cuda), *([CPU] if CPU in words else []))
    if not targets:
        raise UsageError(
            "no target is named", next_step="name GPUs that tests run on: --targets gfx942,gfx1151"
        )
    return targets


def plan_jobs(
    asked: ShardRequest,
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
    entries: Sequence[SkipEntry],
    durations: Durations | None,
    today: date,
) -> SuitePlan:
    """The jobs for every suite, configuration and target; raises `UsageError` for what is none."""
    for name, version in (("torch", asked.torch), ("Python", asked.python), ("ROCm", asked.rocm)):
        _require_version(name, version)
    jobs: list[ShardJob] = []
    notes: list[str] = []
    for suite in asked.suites:
        names = asked.configs if suite == "full" else ("default",)
        for name in names:
            row = _ONE if suite == "smoke" else find_row(name, table.config, asked.counts)
            if suite == "full":
                find_config(table, name)
            for target in asked.targets:
                made, said = _jobs(suite, row, target, asked, table, families, durations)
                where = Where(
                    targets=() if target == CPU else (target,),
                    platform=asked.platform,
                    torch=asked.torch,
                    python=asked.python or None,
                    rocm=asked.rocm or None,
                )
                hold = tuple(one.id for one in entries if state_of(one, where, families, today) == "holds")
                jobs += [msgspec.structs.replace(job, entries=hold) for job in made]
                notes += [f"{suite}-{row.name}-{target}: {text}" for text in said]
    return SuitePlan(tuple(jobs), tuple(notes))


def _require_version(name: str, text: str) -> None:
    try:
        parse_version(text or "0")
    except InvalidVersion as error:
        raise InvalidVersion(
            f"{text!r} is not a version of {name}",
            next_step=f"write it like {'3.12' if name == 'Python' else '2.9'}",
        ) from error


def _jobs(
    suite: Suite,
    row: ConfigRow,
    target: str,
    asked: ShardRequest,
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
    durations: Durations | None,
) -> tuple[list[ShardJob], tuple[str, ...]]:
    """The shards of one suite, configuration and target, without entries, and notes about them."""
    place = TimingPlace(target, minor_of(asked.torch), asked.platform, row.name)
    environment = _environment(suite, row, target, asked, table, families)
    blank = ShardJob(
        id="",
        suite=suite if suite != "smoke" else "smoke-host" if target == CPU else "smoke-gpu",
        config=row.name,
        target="" if target == CPU else target,
        torch=asked.torch,
        platform=asked.platform,
        shard=1,
        shards=row.shards,
        gpus="none" if target == CPU else row.gpus,
        files=(),
        only=None,
        leave=(),
        entries=(),
        environment=environment.set,
        removed=environment.removed,
        seconds=None,
        command=(),
    )
    if suite == "units":
        sharded = shards_of(
            asked.files, row.shards, place=place, spread=table.shards.spread, durations=durations, fewer=True
        )
        made = [
            msgspec.structs.replace(
                blank,
                shard=shard.number,
                shards=shard.of,
                files=shard.files,
                only=shard.only,
                leave=shard.leave,
                seconds=sharded.seconds(shard),
            )
            for shard in sharded.shards
        ]
        said = sharded.said
    else:
        numbers = range(1, row.shards + 1)
        seconds, said = _whole(place, durations, row.shards) if suite == "full" else (None, ())
        made = [msgspec.structs.replace(blank, shard=number, seconds=seconds) for number in numbers]
    return [_named(job, suite, asked) for job in made], said


def _whole(
    place: TimingPlace, durations: Durations | None, shards: int
) -> tuple[float | None, tuple[str, ...]]:
    """What a shard takes where PyTorch deals its files out itself."""
    timed = durations.at(place) if durations is not None else None
    if timed is None:
        return None, ("PyTorch's run_test.py makes the shards; no durations",)
    seconds = round(sum(timed.seconds().values()) / shards, 3)
    return seconds, ("PyTorch's run_test.py makes the shards; each is expected to take its part",)


def _environment(
    suite: Suite,
    row: ConfigRow,
    target: str,
    asked: ShardRequest,
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
) -> ChildEnvironment:
    none = PurePath()
    base = child_environment(
        table,
        tests_dir=none,
        miopen_cache=none,
        platform=asked.platform,
        inherited={},
        device="cpu" if target == CPU else "cuda",
        rocm=target != CPU and not _CUDA.fullmatch(target),
    )
    if suite == "full":
        full = Full(config=row.name)
        base = call_environment(base, full, table, target="" if target == CPU else target, families=families)
    kept = {name: value for name, value in base.set.items() if name not in _OWN}
    return ChildEnvironment(kept, base.removed)


def _named(job: ShardJob, suite: Suite, asked: ShardRequest) -> ShardJob:
    """The job with its id and its command."""
    ran = Ran(job.suite, config=job.config, target=job.target, shard=job.shard, shards=job.shards)
    words = ["rocwright", "test", suite]
    if suite == "full":
        words += ["--test-config", job.config]
    words += ["--amdgpu-family", job.target] if job.target else ["--cpu"]
    if job.shards > 1:
        words += ["--shard", str(job.shard), "--num-shards", str(job.shards)]
    if suite != "smoke" and asked.pytorch_dir:
        words += ["--pytorch-dir", asked.pytorch_dir]
    if suite == "units":
        words += [] if asked.usual else [word for file in asked.files for word in ("--suite-files", file)]
        words += [word for path in asked.durations for word in ("--durations", path)]
    words += [word for path in asked.skips for word in ("--skips", path)]
    return msgspec.structs.replace(job, id=ran.key, command=tuple(words))


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
                f"--shards {text} is not a number of shards", next_step="write it like --shards default=4"
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
    """A configuration with the number of its shards; a number makes a configuration that is not in the table.

    Raises `UsageError` for a name that is in neither.
    """
    row = next((row for row in table if row.name == name), None)
    if row is None and name not in counts:
        known = [row.name for row in table]
        near = get_close_matches(name, known, n=1)
        perhaps = f"perhaps {near[0]}; " if near else ""
        raise UsageError(
            f"{name!r} is not a known test configuration (known: {', '.join(known)})",
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
