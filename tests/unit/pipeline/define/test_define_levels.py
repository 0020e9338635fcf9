"""Levels of tests in a plan: their cells, in how many shards, and what the miniature has of them."""

from __future__ import annotations

import msgspec
from define_samples import KNOWN, OPEN, PROFILE, ids

from rocwright.data import load_table
from rocwright.gputest.shards.level import Recorded
from rocwright.gputest.shards.place import TimingPlace
from rocwright.model.plan import Choice, Plan
from rocwright.model.runners import Runners
from rocwright.model.suites import SuiteTable
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.setup.run import workflow_outputs

TABLE = load_table("tests", SuiteTable)
PLACE = "linux/cp312/release-2.9/one-all"
# Of gfx906 two hours and a half in the default configuration, three quarters of an hour on a host.
TIMES = Recorded(
    ("41", "40"),
    {
        ("full", TimingPlace("gfx906", "2.9")): {"test_nn.py": 9000.0},
        ("units", TimingPlace("cpu", "2.9")): {"test_view_ops.py": 2700.0},
    },
)


def plan_of(level: str, *, recorded: Recorded | None = None, **choice: object) -> Plan:
    asked = msgspec.convert({"profile": "mine", "run_id": "7", "test_level": level, **choice}, Choice)
    known = msgspec.structs.replace(KNOWN, levels=TABLE)
    return make_plan(
        PROFILE, asked, msgspec.structs.replace(known, recorded=recorded) if recorded else known, OPEN
    )


def test_quick_is_one_cell_on_the_host_and_one_on_each_gpu() -> None:
    plan = plan_of("quick")
    assert ids(plan, "test-units") == [f"test-units/{PLACE}"]
    assert ids(plan, "test-pytorch") == [f"test-pytorch/{PLACE}"]
    cell = plan.cell(f"test-units/{PLACE}")
    assert (cell.job, cell.runner, cell.skip) == ("test_pytorch_on_host", "", "")
    assert cell.needs == ("lock-sources/linux/release-2.9", f"upload-pytorch/{PLACE}")
    assert cell.settings == {"targets": "gfx906", "tests": "quick"}


def test_more_than_quick_is_sharded_and_the_gate_hears_of_every_shard() -> None:
    plan = plan_of("full")
    shards = [id_.removeprefix(f"test-pytorch/{PLACE}") for id_ in ids(plan, "test-pytorch")]
    assert shards[:3] == ["", "/default-1of6", "/default-2of6"]
    assert (len(shards), shards[-1]) == (12, "/inductor-2of2")
    gate = plan.cell(f"gate/{PLACE}")
    assert set(ids(plan, "test-pytorch")) <= set(gate.needs)
    # Each is a row of its own in the workflow's matrix.
    jobs = [job for job in plan.jobs if job.name == "test_pytorch_wheels"]
    assert [(job.family, job.shard, job.runner) for job in jobs][1] == (
        "one-all",
        "default-1of6",
        "one-linux",
    )
    assert len(jobs) == 12


def test_recorded_times_decide_the_shards_and_each_machine_is_told_which() -> None:
    plan = plan_of("standard", recorded=TIMES)
    assert [id_.rpartition("/")[2] for id_ in ids(plan, "test-pytorch")[1:]] == [
        "default-1of3",
        "default-2of3",
        "default-3of3",
    ]
    assert plan.cell(f"test-pytorch/{PLACE}/default-2of3").settings == {
        "targets": "gfx906",
        "tests": "standard",
        "durations": "41 40",
    }
    # What is not cut has the same digest, whatever is known.
    assert ids(plan, "test-units") == [f"test-units/{PLACE}"]
    assert plan.cell(f"test-units/{PLACE}").digest == plan_of("standard").cell(f"test-units/{PLACE}").digest


def test_a_family_without_a_machine_says_so_for_each_shard() -> None:
    plan = plan_of("standard", families=("two-all",))
    cells = [cell for cell in plan.cells if cell.kind == "test-pytorch"]
    assert len(cells) == 7
    assert {cell.skip for cell in cells} == {"there is no runner for two-all on linux"}


def test_what_needs_several_gpus_goes_to_a_machine_that_has_them_or_nowhere() -> None:
    def distributed(runners: Runners) -> set[tuple[str, str]]:
        known = msgspec.structs.replace(KNOWN, levels=TABLE, runners=runners)
        plan = make_plan(PROFILE, Choice("mine", "7", test_level="full"), known, OPEN)
        return {(cell.runner, cell.skip) for cell in plan.cells if cell.shard.startswith("distributed-")}

    why = "none to run: distributed needs several GPUs, and there is no such runner for one-all on linux"
    assert distributed(KNOWN.runners) == {("", why)}
    row, *others = KNOWN.runners.rows
    assert row.linux is not None
    large = msgspec.structs.replace(row, linux=msgspec.structs.replace(row.linux, multi_gpu="eight"))
    assert distributed(Runners((large, *others))) == {("eight", "")}
    # Of machines of one's own nobody says how many GPUs they have.
    assert distributed(Runners((large, *others), {("one-all", ""): "mine"})) == {("", why)}


def test_a_family_with_the_first_tests_alone_has_no_configuration() -> None:
    row, *others = KNOWN.runners.rows
    assert row.linux is not None
    first = msgspec.structs.replace(row, linux=msgspec.structs.replace(row.linux, sanity_only=True))
    known = msgspec.structs.replace(KNOWN, levels=TABLE, runners=Runners((first, *others)))
    plan = make_plan(PROFILE, Choice("mine", "7", test_level="full"), known, OPEN)
    assert ids(plan, "test-pytorch") == [f"test-pytorch/{PLACE}"]


def test_of_the_miniature_a_level_has_none_to_run() -> None:
    plan = plan_of("full", sources="miniature")
    (cell,) = (cell for cell in plan.cells if cell.kind == "test-units")
    assert cell.skip == "none to run: the miniature family has no test files of PyTorch's own"
    (job,) = (job for job in plan.jobs if job.name == "test_pytorch_on_host")
    assert job.skip == cell.skip
    assert not any(cell.shard for cell in plan.cells)


def test_a_workflow_is_given_a_row_for_each_shard_and_nothing_that_nobody_runs() -> None:
    def jobs(plan: Plan) -> dict[str, object]:
        (group,) = msgspec.json.decode(workflow_outputs(plan)["linux_groups"])
        (build,) = group["builds"]
        found = build["jobs"]
        assert isinstance(found, dict)
        return found

    sharded = jobs(plan_of("standard", recorded=TIMES))
    assert sharded["test_pytorch_on_host"] == [{"id": f"test_pytorch_on_host/{PLACE}"}]
    assert sharded["test_pytorch_wheels"] == [
        {"id": f"test_pytorch_wheels/{PLACE}", "family": "one-all", "runner": "one-linux"},
        *(
            {
                "id": f"test_pytorch_wheels/{PLACE}/default-{number}of3",
                "family": "one-all",
                "shard": f"default-{number}of3",
                "runner": "one-linux",
            }
            for number in (1, 2, 3)
        ),
    ]
    assert "test_pytorch_on_host" not in jobs(plan_of("standard", sources="miniature"))
