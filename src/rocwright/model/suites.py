"""The table `tests`: what is tested, and how."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class UnitFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The test files of the quick selection, relative to the directory of the tests."""

    files: tuple[str, ...]


class ChildVariables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Environment of test processes: variables that are `set`, and names that are `removed`."""

    set: dict[str, str]
    removed: tuple[str, ...]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds: one test, collecting one file, what a process may take to end when it is told to, asking torch
    for its GPUs, one smoke test."""

    test_s: float
    collect_s: float
    end_s: float
    probe_s: float
    smoke_s: float


class ConfigRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A configuration of PyTorch's own suite: its shards, and the GPUs that a machine needs for it."""

    name: str
    shards: int
    gpus: Literal["one", "several"]


class ShardRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tests are dealt out to shards.

    `spread` is how far apart the expected times of the shards may be, as a share of the longest, `kept` how
    many times of one test are kept: their median counts.
    """

    spread: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    kept: Annotated[int, msgspec.Meta(ge=1)]


class UpstreamCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One call of PyTorch's own run_test.py.

    `config` is the configuration that it is a part of and `name` tells its calls apart. `arguments` are
    options of run_test.py, `include` the modules that it runs (none: those that run_test.py selects). Of
    `optional` each is an option that people can leave out, by the name of their own option.
    """

    config: str
    name: str = ""
    arguments: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    optional: dict[str, str] = {}


class Upstream(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PyTorch's own test/run_test.py, paths relative to the checkout.

    `packages` are what it needs to start, `arguments` what every call gets, `checks` scripts that run before
    the calls of a configuration. `excluded` are modules that break the run rather than fail: each is left
    out where the checkout has it. `environment` is set besides that of all tests, `serial` where a machine
    has one GPU for all processes. `build_environments` are the names by which upstream keeps timings, by
    family or target, `build_environment` that of all others. `done` is the beginning of the line that
    run_test.py prints when its tests are over, `end_s` the seconds that it may take to end after it,
    `silent_tests` how many times the limit of one test it may do nothing that can be seen.
    """

    script: str
    reports: str
    packages: tuple[str, ...]
    arguments: tuple[str, ...]
    excluded: tuple[str, ...]
    environment: dict[str, str]
    serial: dict[str, str]
    checks: dict[str, str]
    build_environment: str
    build_environments: dict[str, str]
    done: str
    end_s: float
    silent_tests: float
    call: tuple[UpstreamCall, ...]


class SuiteTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    units: UnitFiles
    environment: ChildVariables
    limits: Limits
    config: tuple[ConfigRow, ...]
    shards: ShardRules
    upstream: Upstream
