"""A PyTorch tree and an environment with torch: what collecting and running tests there needs."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.gputest.environment import ChildEnvironment, child_environment
from rocwright.gputest.skips.collected import Collected, collect, files_named
from rocwright.model.platforms import this_platform
from rocwright.model.skips import SkipEntry
from rocwright.model.suites import SuiteTable

# Would leave out the tests of all other devices, and entries may name them.
_ONLY_FOR = "PYTORCH_TESTING_DEVICE_ONLY_FOR"


@dataclass(frozen=True)
class TestTree:
    """The interpreter, the directory of the tests, and the environment of its processes."""

    python: Path
    root: Path
    table: SuiteTable
    environment: ChildEnvironment

    @classmethod
    def opened(
        cls, pytorch_dir: Path, python: Path | None = None, *, rocm: bool = True, scratch: Path | None = None
    ) -> TestTree:
        """A checkout, or any directory with tests. Raises `UsageError` for one that is not there.

        Tests for all devices that torch sees are collected, the CPU among them. `scratch` is where MIOpen
        keeps what it compiles; `rocm` whether torch is built for it.
        """
        root = pytorch_dir / "test" if (pytorch_dir / "test").is_dir() else pytorch_dir
        if not root.is_dir():
            raise UsageError(
                f"{pytorch_dir} is no directory", next_step="name a PyTorch checkout: --pytorch-dir DIR"
            )
        table = load_table("tests", SuiteTable)
        given = child_environment(
            table,
            tests_dir=root.resolve(),
            miopen_cache=(scratch or Path(tempfile.gettempdir())).resolve() / "rocwright-miopen",
            platform=this_platform(),
            inherited=os.environ,
            rocm=rocm,
        )
        variables = {name: value for name, value in given.set.items() if name != _ONLY_FOR}
        environment = ChildEnvironment(variables, (*given.removed, _ONLY_FOR))
        return cls(python or Path(sys.executable), root.resolve(), table, environment)

    def collected(self, entries: Sequence[SkipEntry]) -> Collected:
        """The tests of the files that entries name."""
        return collect(
            self.python,
            self.root,
            files_named(entries, self.root),
            limit_s=self.table.limits.collect_s,
            env=self.environment.set,
            drop_env=self.environment.removed,
        )
