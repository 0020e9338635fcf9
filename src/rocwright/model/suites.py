"""The tables `tests` and `skips`: what is tested, how, and which tests are not expected to pass."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

import msgspec

from rocwright.errors import InvalidInput
from rocwright.model.plan import TestLevel
from rocwright.model.platforms import Platform


class UnitFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The test files of the quick selection, relative to the directory of the tests.

    `packages` is what PyTorch's tests import. `match`: a run of the pipeline tests only sources that torch
    was built from, or any.
    """

    files: tuple[str, ...]
    packages: tuple[str, ...] = ()
    match: Literal["commit", "any"] = "commit"


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
    many times of one test are kept: their median counts. Where times are known, a run of the pipeline makes
    shards of `minutes`, and never more than `most`.
    """

    spread: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    kept: Annotated[int, msgspec.Meta(ge=1)]
    minutes: Annotated[float, msgspec.Meta(gt=0)]
    most: Annotated[int, msgspec.Meta(ge=1)]


class LevelRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run of the pipeline tests at a level, besides the smoke tests.

    `host` are PyTorch's test files on the CPU, `files` those on each GPU, `configs` configurations of its own
    run_test.py; `components`: ROCm's own tests.
    """

    name: TestLevel
    host: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    components: bool = False


class ComponentRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of ROCm with tests of its own: `directory` below bin/ is where ctest finds them.

    `name` is what a label calls it, `title` what people do. `gpus` is what the machine needs, `excluded` are
    families and targets that it is not for.
    """

    name: str
    title: str
    directory: str
    platforms: tuple[Platform, ...] = ("linux", "windows")
    gpus: Literal["one", "several"] = "one"
    excluded: tuple[str, ...] = ()


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
    level: tuple[LevelRow, ...]
    component: tuple[ComponentRow, ...]

    def at(self, level: str) -> LevelRow:
        """What a level runs; of rows of one name the last, which is a user's own.

        Raises `InvalidInput` naming the levels that there are.
        """
        found = [row for row in self.level if row.name == level]
        if not found:
            known = " ".join(dict.fromkeys(row.name for row in self.level))
            raise InvalidInput(f"there is no level of tests {level!r}", next_step=f"levels: {known}")
        return found[-1]

    def config_row(self, name: str) -> ConfigRow:
        """The last row of a name; raises `InvalidInput` naming the configurations that there are."""
        found = [row for row in self.config if row.name == name]
        if not found:
            known = " ".join(dict.fromkeys(row.name for row in self.config))
            raise InvalidInput(f"{name!r} is not a test configuration", next_step=f"configurations: {known}")
        return found[-1]


# `skip` is never run; `xfail` is run and has to fail; `flaky` may fail as long as it passes when run again;
# `hang` is never run but in an audit, which gives it a short time.
SkipKind = Literal["skip", "xfail", "flaky", "hang"]


class SkipWhere(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where an entry holds; every field that is given must fit, an empty one fits everywhere.

    `targets` are targets, families, or the beginning of targets with a star (`gfx94*`); `torch`, `rocm` and
    `python` are version specifiers. A bare `2.10` is that line, and nightlies count as what they become.
    """

    targets: tuple[str, ...] = ()
    platforms: tuple[Platform, ...] = ()
    torch: str = ""
    rocm: str = ""
    python: str = ""


class SkipEntry(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry. `tests` are exact node ids or patterns of the form `file::class::test`.

    A star in a part of a pattern stands for any characters of that part; parts are matched whole. `matches`
    is how many tests the patterns may match at most; without stars it is their number.
    """

    id: str
    tests: tuple[str, ...]
    kind: SkipKind
    reason: str
    added: date
    where: SkipWhere = msgspec.field(default_factory=SkipWhere)
    issue: str = ""
    expires: date | None = None
    matches: int | None = None


class SkipTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `skips`: its entries, in order."""

    entry: tuple[SkipEntry, ...] = ()


class Here(msgspec.Struct, frozen=True):
    """The place that entries are judged for; versions as their wheels give them, empty where unknown."""

    target: str
    platform: Platform
    torch: str
    python: str
    rocm: str = ""
