"""The plan and the matrix: readable ids, exact commands, and no machine or shard that nobody asked for."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.gputest.report.values import parse_expected
from rocwright.gputest.shards.durations import Durations, merge
from rocwright.gputest.shards.place import TimingPlace
from rocwright.gputest.shards.plan import (
    ShardRequest,
    SuitePlan,
    config_names,
    find_row,
    matrix_line,
    parse_counts,
    parse_places,
    parse_suites,
    plan_jobs,
    sharding_matrix,
)
from rocwright.model.gpu import Families, InvalidTarget
from rocwright.model.suites import ConfigRow, SkipEntry, SkipWhere, SuiteTable
from rocwright.model.testing import CaseResult, Ran
from rocwright.model.version import InvalidVersion
from rocwright.system import console

TABLE = load_table("tests", SuiteTable)
FAMILIES = load_table("families", Families).families
TODAY = date(2026, 11, 22)
FILES = ("test_nn.py", "test_torch.py")


def entry(name: str, **where: object) -> SkipEntry:
    day = date(2026, 1, 1)
    return SkipEntry(name, ("test_nn.py::TestNN::x",), "skip", "broken", day, SkipWhere(**where))


def planned(asked: ShardRequest, *entries: SkipEntry, durations: Durations | None = None) -> SuitePlan:
    return plan_jobs(asked, TABLE, FAMILIES, entries, durations, TODAY)


def ids(plan: SuitePlan) -> list[str]:
    return [job.id for job in plan.jobs]


# ---- the plan ----


def test_each_job_has_the_id_of_the_run_that_it_is() -> None:
    plan = planned(ShardRequest(("gfx942", "cpu"), "2.9", files=FILES, counts={"default": 2}))
    assert ids(plan) == [
        "units-default-gfx942-1of2",
        "units-default-gfx942-2of2",
        "units-default-cpu-1of2",
        "units-default-cpu-2of2",
    ]
    job = plan.jobs[1]
    assert job.id == Ran("units", target="gfx942", torch="2.9", shard=2, shards=2).key
    assert job.files == ("test_torch.py",)
    assert (job.gpus, plan.jobs[2].gpus) == ("one", "none")
    words = "rocwright test units --amdgpu-family gfx942 --shard 2 --num-shards 2"
    assert " ".join(job.command) == words
    assert plan.jobs[2].command[3] == "--cpu"
    assert plan.notes[0] == "units-default-gfx942: durations: none given, so shards go by the number of files"


def test_variables_are_those_of_the_child_and_paths_of_the_run_are_left_to_it() -> None:
    gpu, cpu = planned(ShardRequest(("gfx942", "cpu"), "2.9", files=FILES, counts={"default": 1})).jobs
    assert gpu.environment == {
        "PYTORCH_TEST_WITH_ROCM": "1",
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cuda",
        "PYTORCH_PRINT_REPRO_ON_FAILURE": "0",
    }
    assert "GPU_DEVICE_ORDINAL" in gpu.removed
    assert cpu.environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "cpu"


def test_entries_are_those_that_hold_for_the_target_and_torch() -> None:
    entries = (
        entry("everywhere"),
        entry("mi300", targets=("gfx94X-dcgpu",)),
        entry("old", torch="<2.9"),
        entry("windows", platforms=("windows",)),
    )
    asked = ShardRequest(("gfx942", "gfx1151"), "2.9", files=FILES, counts={"default": 1})
    plan = planned(asked, *entries)
    assert [job.entries for job in plan.jobs] == [("everywhere", "mi300"), ("everywhere",)]


def test_shards_are_made_by_the_times_of_each_gpu() -> None:
    times = {"test_nn.py::A::t": 30.0, "test_nn.py::B::t": 30.0, "test_torch.py::C::t": 3.0}
    results = [CaseResult(test, "passed", seconds) for test, seconds in times.items()]
    durations = merge(Durations(), TimingPlace("gfx942", "2.9"), results, kept=5)
    asked = ShardRequest(
        ("gfx942", "gfx1151"), "2.9.1", files=FILES, counts={"default": 2}, durations=("d.json",)
    )
    plan = planned(asked, durations=durations)
    known, unknown = plan.jobs[:2], plan.jobs[2:]
    assert [job.seconds for job in known] == [33.0, 30.0]
    assert [job.files for job in known] == [FILES, ("test_nn.py",)]
    assert [(job.seconds, job.files) for job in unknown] == [(None, FILES[:1]), (None, FILES[1:])]
    assert known[0].command[-2:] == ("--durations", "d.json")
    assert plan.notes == (
        "units-default-gfx942: durations: gfx942, torch 2.9",
        "units-default-gfx1151: durations: none for gfx1151, torch 2.9, so shards go by the number of files"
        " (the file has gfx942)",
    )


def test_no_job_has_nothing_to_run() -> None:
    plan = planned(ShardRequest(("gfx942",), "2.9", files=FILES))
    assert ids(plan) == ["units-default-gfx942-1of2", "units-default-gfx942-2of2"]
    assert "6 shards asked for, 2 made" in plan.notes[1]


def test_the_full_suite_has_its_configurations_and_their_machines() -> None:
    asked = ShardRequest(
        ("gfx942",),
        "2.9",
        suites=("smoke", "full"),
        configs=("distributed", "inductor"),
        counts={"inductor": 1},
        pytorch_dir="pytorch",
        skips=("mine.toml",),
    )
    plan = planned(asked)
    assert ids(plan) == [
        "smoke-gpu-default-gfx942-1of1",
        "full-distributed-gfx942-1of3",
        "full-distributed-gfx942-2of3",
        "full-distributed-gfx942-3of3",
        "full-inductor-gfx942-1of1",
    ]
    smoke, full, inductor = plan.jobs[0], plan.jobs[2], plan.jobs[-1]
    assert " ".join(smoke.command) == "rocwright test smoke --amdgpu-family gfx942 --skips mine.toml"
    assert " ".join(full.command) == (
        "rocwright test full --test-config distributed --amdgpu-family gfx942 --shard 2 --num-shards 3"
        " --pytorch-dir pytorch --skips mine.toml"
    )
    assert (full.gpus, full.files, full.seconds) == ("several", (), None)
    assert full.environment["TEST_CONFIG"] == "distributed"
    assert "PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL" not in full.environment
    assert inductor.environment["PYTORCH_TEST_RUN_EVERYTHING_IN_SERIAL"] == "1"
    assert "--num-shards" not in inductor.command


def test_a_report_can_expect_what_the_plan_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(ShardRequest(("gfx942", "cpu"), "2.9", files=FILES, counts={"default": 2}))
    console.out_json(plan)
    (tmp_path / "plan.json").write_text(capsys.readouterr().out)
    expected = parse_expected([str(tmp_path / "plan.json")])
    assert [one.id for one in expected] == ids(plan)
    assert [(one.target, one.shard, one.shards) for one in expected[1:3]] == [("gfx942", 2, 2), ("cpu", 1, 2)]


def test_families_become_their_targets_once_and_the_cpu_stands_last() -> None:
    words = ("cpu", "gfx110X-igpu", "gfx942:sramecc+", "gfx94X-dcgpu", "gfx90a")
    assert parse_places(words, FAMILIES) == ("gfx90a", "gfx942", "gfx1103", "cpu")


def test_a_torch_for_cuda_is_not_told_that_it_is_one_for_rocm() -> None:
    assert parse_places(("sm_90", "gfx942"), FAMILIES) == ("gfx942", "sm_90")
    for suite in ("units", "full"):
        job = planned(ShardRequest(("sm_90",), "2.9", suites=(suite,), files=FILES)).jobs[0]
        assert "PYTORCH_TEST_WITH_ROCM" not in job.environment
        assert job.environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] == "cuda"


@pytest.mark.parametrize("word", ["gfx94", "gfx110X", "GFX942", "mi300"])
def test_what_is_no_target_is_refused(word: str) -> None:
    with pytest.raises(InvalidTarget, match=word):
        parse_places(("gfx942", word), FAMILIES)


def test_a_plan_for_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="no target"):
        parse_places((), FAMILIES)
    with pytest.raises(UsageError, match="'unit' is not a suite"):
        parse_suites(("unit",))
    assert parse_suites(("full", "smoke", "full")) == ("smoke", "full")


@pytest.mark.parametrize("fields", [{"torch": "two"}, {"torch": "2.9", "python": "py312"}])
def test_a_version_that_is_none_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(InvalidVersion, match="is not a version of"):
        planned(ShardRequest(("gfx942",), files=FILES, **fields))


def test_a_configuration_that_upstream_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="'mine' is not a test configuration"):
        planned(ShardRequest(("gfx942",), "2.9", suites=("full",), configs=("mine",), counts={"mine": 2}))


# ---- the matrix ----


def rows_of(text: str, *shards: str) -> list[ConfigRow]:
    names = config_names((text,))
    counts = parse_counts(shards, names)
    return [find_row(name, TABLE.config, counts) for name in names]


def test_the_matrix_has_a_row_for_each_shard() -> None:
    rows = rows_of("default distributed, inductor default")
    found = sharding_matrix(rows, default_runner="L", multi_gpu_runner="L8")
    assert [(row.test_config, row.shard, row.num_shards, row.runs_on) for row in found] == [
        *(("default", number, 6, "L") for number in range(1, 7)),
        *(("distributed", number, 3, "L8") for number in range(1, 4)),
        *(("inductor", number, 2, "L") for number in range(1, 3)),
    ]
    short = matrix_line(found[-1:])
    assert short == ('matrix={"include":[{"test_config":"inductor","shard":2,"num_shards":2,"runs_on":"L"}]}')


def test_a_line_break_in_a_label_cannot_begin_another_line() -> None:
    rows = sharding_matrix(rows_of("inductor"), default_runner="L\nother=1", multi_gpu_runner="")
    assert "\n" not in matrix_line(rows)


def test_a_number_makes_a_configuration_and_replaces_one() -> None:
    assert rows_of("mine-2 default", "mine-2=3", "default=1") == [
        ConfigRow("mine-2", 3, "one"),
        ConfigRow("default", 1, "one"),
    ]
    # Only the number: it still needs several GPUs.
    assert rows_of("distributed", "distributed=1") == [ConfigRow("distributed", 1, "several")]


def test_an_unknown_configuration_is_not_four_shards() -> None:
    with pytest.raises(UsageError, match="'inductr' is not a known") as raised:
        rows_of("inductr")
    assert "perhaps inductor" in str(raised.value)
    assert "--shards inductr=2" in str(raised.value)


@pytest.mark.parametrize(
    ("shards", "said"),
    [
        (("default",), "is not a number"),
        (("default=0",), "is not a number"),
        (("default=-1",), "is not a number"),
        (("default=two",), "is not a number"),
        (("default=1.5",), "is not a number"),
        (("default=2", "default=3"), "twice"),
        (("defalt=2",), "perhaps default=2"),
        (("inductor=2",), "asked for: default"),
    ],
)
def test_a_number_of_shards_that_is_none_is_refused(shards: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as raised:
        rows_of("default", *shards)
    assert said in str(raised.value)


def test_no_configuration_is_refused() -> None:
    with pytest.raises(UsageError, match="no configuration"):
        config_names((" ,  ",))


@pytest.mark.parametrize(
    ("config", "labels", "option"),
    [
        ("distributed", ("L", ""), "--multi-gpu-runner"),
        ("default", ("", "L8"), "--default-runner"),
        ("default", ("  ", "L8"), "--default-runner"),
    ],
)
def test_a_job_without_a_machine_is_refused(config: str, labels: tuple[str, str], option: str) -> None:
    with pytest.raises(UsageError, match="no machine") as raised:
        sharding_matrix(rows_of(config), default_runner=labels[0], multi_gpu_runner=labels[1])
    assert option in str(raised.value)
