"""Options of the commands that run the tests of skip entries again, and where they run them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from rocwright.cli.gputest_options import Gpus, TestedTorch, wanted
from rocwright.cli.numbers import Amount, Count, OptionalAmount
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.setting import environment_of, gather
from rocwright.gputest.skips.audit import Bench
from rocwright.gputest.skips.entries import families_table
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SuiteTable
from rocwright.system import console


@Parameter(name="*")
@dataclass(frozen=True)
class RerunOptions:
    """How tests are run again."""

    test_timeout: OptionalAmount = None
    """Seconds that one test may take (default: 900)."""

    hang_timeout: Amount = 60
    """Seconds for a test that an entry says hangs."""

    times: Count = 1
    """How often each test runs; it passes when it passes every time."""

    log_dir: Path = Path("skips-logs")
    """Where the workers' logs go."""


@contextmanager
def opened_bench(tested: TestedTorch, gpus: Gpus, rerun: RerunOptions) -> Iterator[Bench]:
    """The place to run tests again in. Raises `UsageError`, `MissingTool`, `NoGpu` as `test units`."""
    overlay = read_overlay()
    table, families = load_table("tests", SuiteTable, overlay), families_table(overlay)
    setting = gather(wanted(tested, gpus), table, families, platform=this_platform(), note=console.say)
    targets = tuple(setting.by_target)
    if len(targets) > 1:
        raise UsageError(
            f"there are GPUs of several targets: {', '.join(targets)}",
            next_step=f"choose one: --amdgpu-family {targets[0]}",
        )
    with fresh_cache() as cache:
        yield Bench(
            setting=setting,
            target=targets[0],
            table=table,
            environment=environment_of(setting, table, Path(cache), os.environ),
            work_dir=rerun.log_dir,
            test_s=rerun.test_timeout or table.limits.test_s,
            hang_s=rerun.hang_timeout,
            times=rerun.times,
            families=families,
        )
