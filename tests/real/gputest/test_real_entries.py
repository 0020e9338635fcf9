"""Skip entries, durations and shards, by the node ids that PyTorch's own classes and devices make."""

from __future__ import annotations

import json

import pytest

FLIP = "test_shape_ops.py::TestShapeOpsCPU::test_flip_cpu_*"
FAILS = "test_autograd.py::TestAutograd::test_multi_grad_all_hooks"
PASSES = "test_shape_ops.py::TestShapeOpsCPU::test_unbind_cpu"
ENTRIES = f"""\
[[entry]]
id = "no-headers"
tests = ["{FAILS}"]
kind = "xfail"
reason = "it compiles against headers that the package does not hold"
added = 2026-01-05

[[entry]]
id = "flip-of-every-type"
tests = ["{FLIP}"]
kind = "skip"
reason = "for this test"
added = 2026-01-05
matches = 12

[[entry]]
id = "it-passes"
tests = ["{PASSES}"]
kind = "xfail"
reason = "for this test"
added = 2026-01-05

[[entry]]
id = "elsewhere"
tests = ["test_shape_ops.py::TestShapeOpsCPU::test_diag_cpu_float32"]
kind = "skip"
reason = "for this test"
added = 2026-01-05
where = {{ torch = ">=2.7" }}

[[entry]]
id = "renamed"
tests = ["test_shape_ops.py::TestShapeOpsCPU::test_flip_cuda_float32"]
kind = "skip"
reason = "for this test"
added = 2026-01-05
"""


@pytest.fixture(scope="module")
def file(desk):
    path = desk.root / "entries.toml"
    path.write_text(ENTRIES)
    return path


@pytest.fixture(scope="module")
def ran(desk, file):
    return desk.units("--suite-files", "test_shape_ops.py", "--suite-files", FAILS, "--skips", file)


def test_entries_act_on_exact_tests_and_an_unexpected_pass_fails(ran):
    by_entry = {}
    for one in ran.record["results"]:
        by_entry.setdefault(one.get("entry", ""), []).append((one["id"], one["verdict"]))
    assert by_entry.pop("no-headers") == [(FAILS, "xfailed")]
    assert by_entry.pop("it-passes") == [(PASSES, "xpassed")]
    flips = by_entry.pop("flip-of-every-type")
    assert len(flips) == 12 and {verdict for _, verdict in flips} == {"skipped"}
    (others,) = by_entry.values()
    assert {verdict for _, verdict in others} == {"passed", "skipped"}, "those of elsewhere run as usual"
    assert len(others) == 96 - 14
    assert ran.done.returncode == 1 and PASSES in ran.done.stdout


def test_lint_finds_what_no_longer_matches_by_the_record_of_the_run(desk, file, ran):
    (record,) = ran.reports.rglob("results.json")
    ours = [f"--entry={name}" for name in ("no-headers", "flip-of-every-type", "it-passes", "renamed")]
    words = ["--skips", file, "--collected", record, *ours]
    done = desk.rocwright("test", "skips", "lint", *words, "--json")
    found = json.loads(done.stdout)["findings"]
    assert [(one["entry"], one["rule"]) for one in found if one["severity"] == "error"] == [
        ("renamed", "nothing")
    ]
    assert done.returncode == 9


def test_shards_by_real_durations_run_every_test_once(desk, ran):
    """Each shard of two is given part of one file; what it expects of its time is close to the other's."""
    durations = desk.fresh()
    done = desk.rocwright("test", "durations", ran.reports, "--output", durations, "--json")
    assert done.returncode == 0, done.stderr
    words = ["--suite-files", "test_shape_ops.py", "--durations", durations, "--num-shards", "2", "--shard"]
    shards = [desk.units(*words, number) for number in ("1", "2")]
    ids = [name for shard in shards for name in shard.verdicts]
    assert len(ids) == len(set(ids)), "no test runs twice"
    assert set(ids) == {name for name in ran.verdicts if name != FAILS}
    assert all(shard.done.returncode == 0 and shard.verdicts for shard in shards)
    reports = [word for shard in shards for word in ("--reports-dir", shard.reports)]
    both = json.loads(desk.rocwright("test", "report", *reports, "--json").stdout)
    assert both["state"] == "passed"
    one = json.loads(desk.rocwright("test", "report", *reports[:2], "--json").stdout)
    states = {row["name"]: row["state"] for row in one["report"]["shards"]}
    assert states == {"units-default-cpu-1of2": "passed", "units-default-cpu-2of2": "no report"}
