"""Faults put into the demo's wheels by chance: what breaks for clients is found, or of a documented kind.

Fifty, by the date; `ROCWRIGHT_TEST_FAULTS=SEED` makes those from another seed on.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from real.fault_generator import base, trial
from real.fault_generator.limits import LIMITS, limit_of

pytestmark = pytest.mark.long
SAMPLES = 50
PAGE = Path(__file__).resolve().parents[2] / "docs/explanation/limits.md"


def test_whatever_breaks_is_found_or_a_documented_limit(demo, newcomer, tmp_path):
    seed = int(os.environ["ROCWRIGHT_TEST_FAULTS"])
    good = trial.good_set(demo.work / "dist/rocm", demo.work / "dist/pytorch")
    assert len(good) >= 9
    rows = list(
        trial.run(
            good,
            tmp_path,
            range(seed, seed + SAMPLES),
            # Each has environments of gigabytes, and beside this file others run.
            jobs=1,
            python=str(newcomer.clone / ".venv/bin/python"),
        )
    )
    broken = [row for row in rows if row["verdict"] == "breaks"]
    assert len(broken) >= SAMPLES // 4, "the clients take nearly everything: nothing was shown"
    open_ = [row for row in broken if trial.missed(row, "this") and limit_of(row) is None]
    again = 'make bench-faults BENCH_FAULTS_ARGS="--samples 1 --seed {seed}": {told}; {breaks}'
    assert not open_, "\n".join(again.format(**row) for row in open_)


def test_each_limit_is_documented():
    text = PAGE.read_text()
    assert [name for name in LIMITS if f"**{name}**" not in text] == []


def test_half_of_the_operators_were_thought_up_without_sight_of_the_checks():
    blind = [act for act in base.operators().values() if ".blind." in act.__module__]
    assert len(base.operators()) >= 15
    assert len(blind) * 2 >= len(base.operators())
