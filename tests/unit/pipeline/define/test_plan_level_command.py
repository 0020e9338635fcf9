"""`rocwright pipeline plan --test-level`: what is asked for, and what earlier runs in the store took."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rocwright.model.plan import Plan
from rocwright.model.testing import CaseResult, Ran, RunRecord
from rocwright.pipeline.records import read_plan
from rocwright.pipeline.reports import report_of, write_report
from rocwright.store.objects.local import LocalStore

WHAT = ("--profile", "dev", "--sources", "upstream", "--families", "gfx94X-dcgpu", "--store", "store")
PLACE = "linux/cp312/release-2.13/gfx94X-dcgpu"


@pytest.fixture
def plan(rocwright: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    return lambda *words: rocwright("pipeline", "plan", *WHAT, *words)


def shards(plan: Plan, kind: str = "test-units") -> list[str]:
    return [cell.shard for cell in plan.cells if cell.kind == kind]


def record_times(store: LocalStore, run: str, hours: float) -> str:
    test = CaseResult("test_view_ops.py::TestViews::test_x", "passed", hours * 3600)
    record = RunRecord(Ran("units", torch="2.13.0+rocm7", python="3.12"), (test,))
    return write_report(store, run, report_of(record, "quick", {"torch.whl": "ab" * 32}, kept=5))


def test_a_level_is_asked_for_by_name(plan: Callable[..., tuple[int, str, str]]) -> None:
    _, quick, _ = plan("--ids")
    _, full, _ = plan("--ids", "--test-level", "full")
    more = sorted(set(full.split()) - set(quick.split()))
    assert len(more) == 11
    assert more[0] == f"test-pytorch/{PLACE}/default-1of6"
    assert more[-1] == f"test-pytorch/{PLACE}/inductor-2of2"
    code, _, said = plan("--test-level", "fast")
    assert code == 2
    assert "fast" in said and "comprehensive" in said


def test_a_recorded_plan_goes_by_times_in_the_store_and_is_kept(
    plan: Callable[..., tuple[int, str, str]],
) -> None:
    """On a host three hours are three shards; what the run itself then takes changes nothing of it."""
    store = LocalStore(Path("store"))
    record_times(store, "41", 2.5)
    assert plan("--run-id", "50", "--record")[0] == 0
    first = read_plan(store, "50")
    assert shards(first) == ["1of3", "2of3", "3of3"]
    cell = first.cell(f"test-units/{PLACE}/2of3")
    assert cell.settings["durations"] == "41"
    record_times(store, "50", 9)
    record_times(store, "51", 9)
    code, _, said = plan("--run-id", "50", "--record")
    assert code == 0, said
    assert read_plan(store, "50") == first
    # Looking reads nothing.
    looked = msgspec.json.decode(plan("--run-id", "52", "--json")[1], type=Plan)
    assert shards(looked) == [""]


def test_damaged_times_are_told_and_leave_the_usual_shards(plan: Callable[..., tuple[int, str, str]]) -> None:
    store = LocalStore(Path("store"))
    path = store.root / record_times(store, "41", 2.5)
    path.chmod(0o644)
    path.write_text("{")
    code, _, said = plan("--run-id", "50", "--record")
    assert code == 0
    assert "warning: the report _pipeline/reports/41/units-default-cpu-1of1-" in said
    assert shards(read_plan(store, "50")) == [""]
