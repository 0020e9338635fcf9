"""The variables that the guide lists are those that rendered workflows read."""

from __future__ import annotations

import re
from pathlib import Path

from rocwright.data import load_table
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import profiles
from rocwright.pipeline.doctor.variables import described, variables_read
from unit.pipeline.doctor.visits import FILES

ROOT = Path(__file__).resolve().parents[4]
GUIDE = ROOT / "docs/how-to/github-day-one.md"


def test_every_variable_that_a_workflow_reads_is_described() -> None:
    about = described(load_table("workflows", WorkflowTable), profiles().profile)
    read = variables_read(FILES)
    assert [name for name in read if name not in about] == []
    assert {"ROCWRIGHT_STORE", "ROCWRIGHT_CI_ROLE", "ROCWRIGHT_LINUX_RUNNER"} <= set(read)
    assert "ci.yml" in read["ROCWRIGHT_CI_ROLE"]
    assert all(row.about and row.unset for row in about.values())


def test_every_variable_that_the_guide_names_is_one() -> None:
    about = described(load_table("workflows", WorkflowTable), profiles().profile)
    named = set(re.findall(r"\bROCWRIGHT_[A-Z_]+", GUIDE.read_text(encoding="utf-8")))
    assert named <= set(about)
