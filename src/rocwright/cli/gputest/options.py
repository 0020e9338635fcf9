"""Options of the commands that run PyTorch's own tests, in groups."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter, Token

from rocwright.cli.options import Files, OptionalAmount, Place, tell_changes
from rocwright.cli.reply import Json
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.devices import Policy, Query
from rocwright.gputest.setting import Setting, TestRequest, gather, shown_facts
from rocwright.gputest.skips.entries import families_table, generic_targets, load_entries
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SkipEntry, SuiteTable
from rocwright.sources.lock import torch_commits
from rocwright.system import console
from rocwright.system.interpreters import find_python

_Flag = Annotated[bool, Parameter(negative=())]
_SOURCES, _GPUS, _TESTS, _OUTPUT = map(Group.create_ordered, ("Sources and torch", "GPUs", "Tests", "Output"))


def _number(_: object, tokens: Sequence[Token]) -> int | None:
    """A whole number; a variable that is set to nothing is none."""
    text = tokens[0].value.strip()
    if not text:
        return None
    if not text.isdigit():
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def of_environment(variable: str) -> Parameter:
    """A whole number that a variable may give."""
    return Parameter(env_var=variable, converter=_number)


Number = Annotated[int | None, Parameter(converter=_number)]


@Parameter(name="*", group=_SOURCES)
@dataclass(frozen=True)
class TestedTorch:
    """The torch under test, and the sources that its tests come from."""

    python: Place = None
    """The interpreter, or the environment, that torch is installed in (default: the one that runs this)."""

    pytorch_dir: Path = Path("pytorch")
    """The PyTorch checkout that torch was built from."""

    lock: Path | None = None
    """The sources.lock.json of torch's build: its commits are the checkout's and torch's."""

    allow_version_mismatch: bool = False
    """Run the tests even if their version or commit is not torch's."""

    pytorch_version: Annotated[str, Parameter(env_var="PYTORCH_VERSION", show_default=False)] = ""
    """The version that skip entries are chosen for: 2.9, or `all` (default: that of the installed torch)."""


@Parameter(name="*", group=_TESTS)
@dataclass(frozen=True)
class Choice:
    """Which tests run."""

    k: Annotated[str, Parameter(name=("-k",), show_default=False)] = ""
    """An expression for pytest's -k; it takes the place of the skip entries."""

    debug: bool = False
    """Run only the tests that skip entries are for."""

    skips: Files = ()
    """A TOML file with further skip entries; may be given several times."""

    cache: bool = True
    """Let pytest keep its cache in the checkout."""

    test_timeout: OptionalAmount = None
    """Seconds that one test may take (default: 900)."""


@Parameter(name="*", group=_GPUS)
@dataclass(frozen=True)
class Gpus:
    """The GPUs that are tested on."""

    amdgpu_family: Annotated[str, Parameter(env_var="AMDGPU_FAMILY", show_default=False)] = ""
    """Families or targets, separated by commas: gfx942, gfx94X, gfx110X-all (default: every GPU here)."""

    device_query: Query = "unique"
    """The first GPU of each target, or all of them."""

    gpu_policy: Policy = "single"
    """Whether a test process sees one GPU, or all chosen GPUs of its target."""

    cpu: _Flag = False
    """Test on the CPU, whatever GPUs there are."""


@Parameter(name="*", group=_GPUS)
@dataclass(frozen=True)
class GpusOfConfig:
    """The GPUs of a configuration: `auto` is one for most, all for distributed."""

    amdgpu_family: Annotated[str, Parameter(env_var="AMDGPU_FAMILY", show_default=False)] = ""
    """Families or targets, separated by commas: gfx942, gfx94X, gfx110X-all (default: every GPU here)."""

    device_query: Literal["auto", "unique", "all"] = "auto"
    """The first GPU of each target, or all of them; auto: all for configurations that need several."""

    gpu_policy: Literal["auto", "single", "all"] = "auto"
    """Whether tests see one GPU, or all chosen GPUs of a target; auto: all for such configurations."""

    cpu: _Flag = False
    """Test on the CPU, whatever GPUs there are."""

    def resolved(self, several: bool) -> Gpus:
        """With `auto` decided: `several` GPUs or one."""
        query: Query = ("all" if several else "unique") if self.device_query == "auto" else self.device_query
        policy: Policy = ("all" if several else "single") if self.gpu_policy == "auto" else self.gpu_policy
        return Gpus(self.amdgpu_family, query, policy, self.cpu)


@Parameter(name="*", group=_OUTPUT)
@dataclass(frozen=True)
class Output:
    """What is written and printed."""

    reports_dir: Path = Path("test-reports")
    """Where records, JUnit files and logs go."""

    dry_run: _Flag = False
    """Print what would run, and in which environment; run nothing."""

    config: Path | None = None
    """A rocwright.toml (default: that of the current directory, if there is one)."""

    json: Json = False
    """Print the result as JSON."""

    @property
    def reports(self) -> Path:
        """The whole path of the reports; links in it stay as they are named."""
        return Path(os.path.abspath(self.reports_dir))  # noqa: PTH100

    def table(self) -> SuiteTable:
        """The table of tests, with what the rocwright.toml adds; says what that changes of results."""
        overlay = read_overlay(self.config)
        tell_changes(overlay, "tests", "skips", "signatures")
        return load_table("tests", SuiteTable, overlay)

    def families(self) -> dict[str, tuple[str, ...]]:
        """The members of each family, with what the rocwright.toml adds."""
        return dict(families_table(read_overlay(self.config)))

    def generic(self) -> dict[str, tuple[str, ...]]:
        """The targets that code for generic ones runs on, with what the rocwright.toml adds."""
        return dict(generic_targets(read_overlay(self.config)))


SOURCE, CHOICE, GPUS, GPUS_OF_CONFIG, OUTPUT = TestedTorch(), Choice(), Gpus(), GpusOfConfig(), Output()


def wanted(tested: TestedTorch, gpus: Gpus) -> TestRequest:
    """What the options ask for; the interpreter by its path."""
    return TestRequest(
        pytorch_dir=Path(os.path.abspath(tested.pytorch_dir)),  # noqa: PTH100 - links stay as they are named
        python=find_python(tested.python, sys.executable),
        family=gpus.amdgpu_family,
        pytorch_version=tested.pytorch_version,
        locked=torch_commits(tested.lock) if tested.lock is not None else (),
        allow_mismatch=tested.allow_version_mismatch,
        cpu=gpus.cpu,
        query=gpus.device_query,
        policy=gpus.gpu_policy,
    )


def gathered(want: TestRequest, table: SuiteTable, families: dict[str, tuple[str, ...]]) -> Setting:
    """What the tests run with, said aloud; raises what `gather` raises."""
    setting = gather(want, table, families, platform=this_platform(), note=console.say)
    for text in (shown_facts(setting.facts), *setting.notes):
        console.say(text)
    return setting


def skip_entries(choice: Choice, output: Output) -> tuple[SkipEntry, ...]:
    """All entries; with -k none of them matters, and yet a file that is given must be right."""
    return load_entries(choice.skips, read_overlay(output.config))


def require_both(shard: int | None, shards: int | None) -> tuple[int, int]:
    """The shard and the number of shards; raises `UsageError` for one without the other."""
    # Workflows say 0 for "no shards".
    if not shard and not shards:
        return 1, 1
    if not shard or not shards:
        raise UsageError("--shard and --num-shards belong together", next_step="give both, or neither")
    if shard > shards:
        raise UsageError(
            f"there is no shard {shard} of {shards}", next_step=f"give --shard a number from 1 to {shards}"
        )
    return shard, shards
