"""A desk with a real torch, and what a run of its tests leaves there."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_runs = count()


@dataclass
class Desk:
    """Somebody with a torch (`python`), PyTorch's sources (`checkout`), and a place for what comes out."""

    newcomer: Any
    root: Path
    python: Path
    checkout: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def tests(self) -> Path:
        return self.checkout / "test"

    def fresh(self) -> Path:
        """A directory's name that nobody has used."""
        return self.root / f"reports-{next(_runs)}"

    def units(self, *words: str | Path, reports: Path | None = None) -> Ran:
        """`rocwright test units` on the CPU, its record read from the reports."""
        reports = reports or self.fresh()
        where = ["--pytorch-dir", self.checkout, "--python", self.python, "--reports-dir", reports]
        done = self.rocwright("test", "units", "--cpu", "--no-cache", *where, *words)
        return Ran(done, reports)

    def rocwright(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return self.newcomer.rocwright(*words, ok=False, **self.env)

    def pytest(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Plain pytest over the same tests in the same torch: the oracle."""
        env = {**self.env, "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
        words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *words)
        return self.newcomer.run(self.python, *words, ok=False, cwd=self.tests, **env)


@dataclass
class Ran:
    """What a run left: how the command ended, and its records."""

    done: subprocess.CompletedProcess[str]
    reports: Path

    @property
    def record(self) -> dict:
        """The only record."""
        found = list(self.reports.rglob("results.json"))
        if len(found) != 1:
            pytest.fail(f"{len(found)} records\n{self.done.stdout[-2000:]}\n{self.done.stderr[-4000:]}")
        return json.loads(found[0].read_text())

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdicts by node id, each id once."""
        pairs = [(one["id"], one["verdict"]) for one in self.record["results"]]
        assert len(pairs) == len(dict(pairs))
        return dict(pairs)

    def result(self, name: str) -> dict:
        """The result of the only test that ends so."""
        (found,) = (one for one in self.record["results"] if one["id"].endswith(name))
        return found
