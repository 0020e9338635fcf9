"""Running tests of entries as if there were no entries: each isolated, those that hang with a short time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocwright.errors import Interrupted
from rocwright.gputest.environment import ChildEnvironment
from rocwright.gputest.inside.rocwright_patterns import parts
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.run import run_isolated
from rocwright.gputest.report.merge import worst
from rocwright.gputest.setting import Setting
from rocwright.gputest.skips.collected import Collected, collect, files_named
from rocwright.gputest.skips.entries import families_table
from rocwright.gputest.skips.hold import FamilyMembers
from rocwright.model.skips import SkipEntry
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import CaseResult


@dataclass(frozen=True)
class Bench:
    """Where tests are rerun: the setting, one of its targets (empty: the CPU), its processes' environment.

    `test_s` and `hang_s` are the seconds for a test, and for one that an entry says hangs; `times` is how
    often each runs.
    """

    setting: Setting
    target: str
    table: SuiteTable
    environment: ChildEnvironment
    work_dir: Path
    test_s: float
    hang_s: float
    times: int = 1
    families: FamilyMembers = field(default_factory=families_table)

    def collected(self, entries: Sequence[SkipEntry]) -> Collected:
        """The tests of the files that entries name, as this torch and GPU make them."""
        return collect(
            self.setting.python,
            self.setting.checkout.tests,
            files_named(entries, self.setting.checkout.tests),
            limit_s=self.table.limits.collect_s,
            env={**self.environment.set, **self.setting.workers(self.target, 1)[0]},
            drop_env=self.setting.removed(self.environment, os.environ),
        )

    def rerun(
        self,
        tests: Sequence[str],
        hanging: Sequence[str],
        tell: Callable[[CaseResult], None] | None = None,
    ) -> dict[str, CaseResult]:
        """What each test shows, the worst of all times. Raises `Interrupted`."""
        found: dict[str, CaseResult] = {}
        for number in range(self.times):
            for name, chosen, seconds in (("tests", tests, self.test_s), ("hanging", hanging, self.hang_s)):
                if not chosen:
                    continue
                plan = self._plan(chosen, seconds, self.work_dir / f"{name}-{number + 1}")
                done = run_isolated(plan, tell=tell)
                for result in done.results:
                    held = found.get(result.id)
                    found[result.id] = result if held is None else worst((held, result))
                if done.interrupted:
                    raise Interrupted("stopped while tests were run again", next_step="run again")
        return found

    def _plan(self, tests: Sequence[str], seconds: float, log_dir: Path) -> Isolation:
        return Isolation(
            python=self.setting.python,
            root=self.setting.checkout.tests,
            files=tuple(dict.fromkeys(parts(test)[0] for test in tests)),
            pytest_args=("-p", "no:cacheprovider"),
            env=self.environment.set,
            drop_env=self.setting.removed(self.environment, os.environ),
            workers=self.setting.workers(self.target, 1),
            only=tuple(tests),
            test_s=seconds,
            collect_s=self.table.limits.collect_s,
            end_s=self.table.limits.end_s,
            log_dir=log_dir,
        )
