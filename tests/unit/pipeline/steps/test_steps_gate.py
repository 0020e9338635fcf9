"""What GPUs showed, or did not, at the gate; and that a run without the right to publish only looks."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import msgspec
import pytest

from rocwright.data import load_table
from rocwright.data.overlay import parse_overlay
from rocwright.engine.graph import Inputs
from rocwright.errors import GateClosed, IntegrityError
from rocwright.gputest.smoke import Verdicts
from rocwright.model.channels import Channels
from rocwright.model.plan import Choice, Publication
from rocwright.model.sets import BUILD, FINDINGS, FileEntry, Statement, about_set, new_set, set_id
from rocwright.pipeline.cells.act import act
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.records import ENDED, Ended, Machine, NeedEnd, Record, State
from rocwright.pipeline.steps.gate import (
    Gated,
    Released,
    gate_step,
    gpu_statements,
    promote_step,
    require_tested_files,
)
from rocwright.pipeline.steps.of_cell import options_of
from rocwright.pipeline.steps.own_tests import GpuTested, SuiteRun
from rocwright.pipeline.steps.publish import StagedSet
from rocwright.pipeline.steps.testing import Tested
from rocwright.store.gate import Decision, decide, policy_for
from rocwright.store.objects.local import LocalStore

WHEEL = "torch-2.9-cp311-cp311-linux_x86_64.whl"
FILES = {WHEEL: "ab" * 32}
ENTRY = FileEntry(name=WHEEL, sha256=FILES[WHEEL], size=1, project="torch", version="2.9")
MANIFEST = new_set(
    family="gfx94X-dcgpu", targets=["gfx90a", "gfx942"], platform="linux", files=[ENTRY], sources={}
)
GOOD = Verdicts(5, 0, 0)
SAID = (
    about_set(MANIFEST, FINDINGS, {"passed": True, "files": [WHEEL]}),
    about_set(MANIFEST, BUILD, {"result": "success"}),
)


def seen(target: str, verdicts: Verdicts = GOOD, *, complete: bool = True) -> GpuTested:
    return GpuTested("fam", {}, "", (SuiteRun("smoke-gpu", target, verdicts, complete),), FILES)


def installed(installer: str, gpus: tuple[str, ...] = ()) -> Tested:
    return Tested(installer, {"torch": "2.9"}, 1.0, gpus, GOOD, GOOD, FILES)


def results(*machines: GpuTested, silent: tuple[str, ...] = ()) -> dict[str, tuple[str, bool]]:
    made = gpu_statements(MANIFEST, machines, silent)
    return {one.predicate["target"]: (one.predicate["result"], one.predicate["runner"]) for one in made}


def test_each_target_has_the_result_of_its_own_machine() -> None:
    assert results(seen("gfx90a"), seen("gfx942", Verdicts(5, 1, 0))) == {
        "gfx90a": ("passed", True),
        "gfx942": ("failed", True),
    }


def test_what_an_emulator_played_is_stated_as_that_and_closes_nothing() -> None:
    run = SuiteRun("smoke-gpu", "gfx942", Verdicts(5, 1, 0), True, emulated=True)
    assert run.told == "smoke-gpu on gfx942 (emulated) 5 passed, 1 failed"
    machine = GpuTested("fam", {}, "", (run,), FILES)
    (said,) = gpu_statements(MANIFEST, [machine], [])
    assert (said.predicate["device"], said.predicate["result"]) == ("emulated", "failed")
    (gpu,) = gpu_statements(MANIFEST, [seen("gfx942")], [])
    assert "device" not in gpu.predicate


@pytest.mark.parametrize(
    ("verdicts", "complete"),
    [(Verdicts(0, 0, 9), True), (Verdicts(0, 0, 0), True), (GOOD, False)],
    ids=["all-skipped", "none", "stopped"],
)
def test_a_run_that_proves_nothing_is_no_pass(verdicts: Verdicts, complete: bool) -> None:
    assert results(seen("gfx90a", verdicts, complete=complete)) == {"gfx90a": ("failed", True)}


def test_a_gpu_that_the_set_is_not_for_says_nothing_of_it() -> None:
    assert results(seen("gfx1100")) == {}


def decided(*machines: GpuTested, silent: tuple[str, ...] = ()) -> Decision:
    from rocwright.pipeline.steps.testing import demo_bypasses, tested_statements

    today = date(2026, 11, 22)
    channels = load_table("channels", Channels)
    said = [
        *SAID,
        *tested_statements(MANIFEST, [installed("pip"), installed("uv")]),
        *gpu_statements(MANIFEST, machines, silent),
        *demo_bypasses(MANIFEST, today),
    ]
    return decide(set_id(MANIFEST), said, policy_for(MANIFEST, channels, channels.named("release"), today))


def test_a_machine_that_ended_without_a_word_closes_the_gate_in_spite_of_a_bypass() -> None:
    assert decided().rule == "bypassed"
    closed = decided(silent=("test-pytorch/linux/x",))
    assert (closed.promote, closed.rule) == (False, "tests")
    assert "smoke-gpu on gfx90a cancelled" in closed.reason


def test_a_gpu_that_passed_counts_though_the_installing_machine_had_none() -> None:
    decision = decided(seen("gfx90a"), seen("gfx942"))
    assert (decision.promote, decision.rule) == (True, "passed")


def test_what_was_tested_is_what_is_served() -> None:
    require_tested_files(MANIFEST, FILES)
    with pytest.raises(IntegrityError, match=WHEEL):
        require_tested_files(MANIFEST, {WHEEL: "cd" * 32})
    with pytest.raises(IntegrityError, match=r"other\.whl"):
        require_tested_files(MANIFEST, {**FILES, "other.whl": "cd" * 32})


# ---- the steps ----


def options(tmp_path: Path, *, channels: bool, sources: str = "upstream") -> RunOptions:
    return RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=("gfx90a", "gfx942"),
        torch_ref="release/2.9",
        projects=("torch",),
        families=("gfx90a", "gfx94X-dcgpu"),
        sources="miniature" if sources == "miniature" else "upstream",
        publication=Publication(upload=True, channels=channels, why="" if channels else "nobody asked"),
    )


def gated(tmp_path: Path, *, channels: bool, sources: str = "upstream", ended: str = "skipped") -> Gated:
    staged = StagedSet(set_id(MANIFEST), "", "", MANIFEST, SAID, "" if channels else "nobody asked")
    end = msgspec.convert({"state": ended}, NeedEnd)
    inputs = Inputs(
        {
            "stage": staged,
            "test-pip": installed("pip"),
            "test-uv": installed("uv"),
            ENDED: Ended({"test-pytorch/linux/cp312/release-2.9/fam": end}),
        }
    )
    done = gate_step(options(tmp_path, channels=channels, sources=sources), ()).act(inputs, lambda _: None)
    assert isinstance(done, Gated)
    return done


def test_a_closed_gate_is_an_error_only_where_it_keeps_something_back(tmp_path: Path) -> None:
    looked = gated(tmp_path, channels=False)
    assert (looked.passed, looked.decision.rule) == (False, "untested")
    with pytest.raises(GateClosed, match="not tested: smoke-gpu on gfx90a: no runner") as caught:
        gated(tmp_path, channels=True)
    assert caught.value.exit_code == 10


def test_only_the_miniature_family_goes_without_a_gpu_by_itself(tmp_path: Path) -> None:
    assert gated(tmp_path, channels=True, sources="miniature").decision.rule == "bypassed"


OVERLAY = """
[families.families]
ours = ["gfx90a", "gfx942"]
[[families.family]]
name = "ours"
tier = "nightly"
linux = { bypass = { reason = "the lab moves", until = 2099-12-31 } }
[[channels.channel]]
name = "customers"
prefix = "customers"
gate = "tested"
listed = 9
after = "staging"
"""


def test_a_family_and_a_channel_of_ours_count_at_the_gate(tmp_path: Path) -> None:
    """They stand in a rocwright.toml, which the machine gives to its steps."""
    overlay = parse_overlay(OVERLAY, where="rocwright.toml")
    ours = msgspec.structs.replace(
        options(tmp_path, channels=True), families=("ours",), channel="customers", overlay=overlay
    )
    end = msgspec.convert({"state": "skipped"}, NeedEnd)
    inputs = Inputs(
        {
            "stage": StagedSet(set_id(MANIFEST), "", "", MANIFEST, SAID, ""),
            "test-pip": installed("pip"),
            "test-uv": installed("uv"),
            ENDED: Ended({"test-pytorch/linux/cp312/release-2.9/ours": end}),
        }
    )
    done = gate_step(ours, ()).act(inputs, lambda _: None)
    assert isinstance(done, Gated)
    assert (done.passed, "the lab moves" in done.decision.reason) == (True, True)
    # The row lasts for longer than a set may go without its tests.
    assert {(one.expires - one.at).days for one in done.decision.bypasses if one.at} == {90}
    # Another rocwright.toml is another question.
    assert gate_step(ours, ()).facts() != gate_step(msgspec.structs.replace(ours, overlay=None), ()).facts()
    plan = make_plan(
        profiles().named("ci"), Choice("ci", "7"), known(environment={}), Publication(True, True)
    )
    machine = Machine(LocalStore(tmp_path), str(tmp_path), tmp_path, tmp_path, jobs=1, overlay=overlay)
    assert options_of(plan.cells[0], plan, machine).overlay is overlay


@pytest.mark.parametrize("state", ["failed", "missing"])
def test_a_lost_test_on_a_gpu_is_not_made_up_for(tmp_path: Path, state: str) -> None:
    with pytest.raises(GateClosed, match="cancelled"):
        gated(tmp_path, channels=True, sources="miniature", ended=state)


def test_without_the_right_to_publish_nothing_is_written_and_the_reason_is_kept(tmp_path: Path) -> None:
    asked = options(tmp_path, channels=False, sources="miniature")
    staged = StagedSet(set_id(MANIFEST), "", "", MANIFEST, SAID, "nobody asked")
    gate = gated(tmp_path, channels=False, sources="miniature")
    assert gate.passed, "the decision is made all the same"
    step = promote_step(asked, ())
    done = step.act(Inputs({"stage": staged, "gate": gate}), lambda _: None)
    assert isinstance(done, Released)
    assert (done.why, done.pip_line, done.files) == ("nobody asked", "", ())
    assert "not promoted: nobody asked" in step.summary(done)
    assert not (tmp_path / "work").exists()


# ---- as a cell, whose needs may have failed ----


def test_a_gate_runs_and_stays_closed_though_a_test_before_it_failed(tmp_path: Path) -> None:
    """By the store's records: test-pip failed, so it gave no result, and nobody ran test-uv."""
    plan = make_plan(
        profiles().named("ci"),
        Choice("ci", "7"),
        known(environment={}),
        Publication(upload=True, channels=True),
    )
    gate = next(cell for cell in plan.cells if cell.kind == "gate")
    store = LocalStore(tmp_path / "store")
    machine = Machine(store, str(store.root), tmp_path / "work", tmp_path / "cache", jobs=1)

    def record(kind: str, state: State, value: object = None) -> Record:
        id_ = next(need for need in gate.needs if need.startswith(f"{kind}/"))
        return Record(1, id_, "0" * 64, state, msgspec.Raw(msgspec.json.encode(value)), (), "", 0.0, "", "")

    staged = StagedSet(set_id(MANIFEST), "", "", MANIFEST, SAID, "not here")
    known_records = [record("stage", "done", staged), record("test-pip", "failed")]
    with pytest.raises(GateClosed, match="rocm-sdk on gfx94X-dcgpu cancelled"):
        act(plan, gate, machine, lambda _: None, known={one.cell: one for one in known_records})
    left = act(plan, gate, machine, lambda _: None, known={})
    assert left.state == "skipped"
    assert left.why.startswith("there is no set to decide about: stage/linux/")
    assert left.why.endswith(" was not done")


@pytest.mark.parametrize("smoke", [GOOD, Verdicts(4, 1, 0)], ids=["passed", "failed"])
def test_a_channel_that_asks_for_no_test_takes_nothing_that_failed_one(
    tmp_path: Path, smoke: Verdicts
) -> None:
    asked = msgspec.structs.replace(options(tmp_path, channels=True), channel="staging")
    tested = Tested("pip", {"torch": "2.9"}, 1.0, (), GOOD, smoke, FILES)
    inputs = Inputs({"stage": StagedSet(set_id(MANIFEST), "", "", MANIFEST, SAID, "x"), "test-pip": tested})
    step = gate_step(asked, ("stage", "test-pip"))
    if smoke is GOOD:
        done = step.act(inputs, lambda _: None)
        assert isinstance(done, Gated)
        assert done.decision.rule == "checked"
        return
    with pytest.raises(GateClosed, match="smoke-host on gfx94X-dcgpu failed; what fails its tests"):
        step.act(inputs, lambda _: None)


# ---- PyTorch's own tests ----


def units(
    verdicts: Verdicts = GOOD, *, complete: bool = True, none: str = "", shard: str = "", name: str = "units"
) -> GpuTested:
    run = SuiteRun(name, "", verdicts, complete, none)
    return GpuTested("", {}, "", (run,), FILES, asked="standard", shard=shard)


def with_units(tmp_path: Path, *machines: GpuTested, needs: tuple[str, ...] = ()) -> Gated:
    """The gate of a channel that asks for no test: what is asked for is up to the run."""
    asked = msgspec.structs.replace(options(tmp_path, channels=True), channel="staging")
    shards = {f"test-units/linux/{number}": machine for number, machine in enumerate(machines)}
    staged = StagedSet(set_id(MANIFEST), "", "", MANIFEST, SAID, "")
    done = gate_step(asked, needs).act(Inputs({"stage": staged, **shards}), lambda _: None)
    assert isinstance(done, Gated)
    return done


def test_own_tests_that_passed_on_a_host_open_nothing_that_asks_for_a_gpu(tmp_path: Path) -> None:
    assert with_units(tmp_path, units()).passed
    statements = gpu_statements(MANIFEST, [units()], ())
    (said,) = (one.predicate for one in statements)
    assert (said["suite"], said.get("target")) == ("units", None)
    assert not decide_release([*statements]).promote


def decide_release(statements: list[Statement]) -> Decision:
    from rocwright.pipeline.steps.testing import tested_statements

    channels = load_table("channels", Channels)
    host = tested_statements(MANIFEST, [installed("pip"), installed("uv")])
    policy = policy_for(MANIFEST, channels, channels.named("release"), date(2026, 11, 26))
    return decide(set_id(MANIFEST), [*SAID, *host, *statements], policy)


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        (units(Verdicts(9, 1, 0, ("test_nn.py::TestNN::test_x: wrong",)), shard="2of3"), "units .* failed"),
        (units(complete=False, shard="2of3"), "units .* failed"),
        (units(Verdicts(0, 0, 0), shard="2of3"), "units .* failed"),
        (units(Verdicts(0, 0, 7), shard="2of3"), "units .* failed"),
        (
            units(Verdicts(0, 0, 0), none="none to run: distributed needs several GPUs", name="full-x"),
            "standard tests were asked for, and full-x: none to run: distributed needs several GPUs",
        ),
    ],
    ids=["failed", "stopped", "none-collected", "all-skipped", "none-to-run"],
)
def test_one_bad_shard_of_a_level_keeps_the_gate_closed(tmp_path: Path, lost: GpuTested, why: str) -> None:
    with pytest.raises(GateClosed, match=why):
        with_units(tmp_path, units(shard="1of3"), lost, units(shard="3of3"))


def test_a_shard_that_died_is_lost_and_not_passed(tmp_path: Path) -> None:
    with pytest.raises(GateClosed, match="units on gfx94X-dcgpu cancelled"):
        with_units(tmp_path, units(shard="1of2"), needs=("test-units/linux/0", "test-units/linux/lost"))


def test_rocms_own_tests_that_no_package_holds_are_told_and_close_nothing(tmp_path: Path) -> None:
    none = "none to run: the packages hold no tests of rocBLAS"
    done = with_units(tmp_path, units(), units(Verdicts(0, 0, 0), none=none, name="rocm-components"))
    assert done.passed
    (said,) = (one.predicate for one in done.statements if one.predicate.get("detail") == none)
    assert (said["result"], said["runner"]) == ("skipped", False)


def test_of_the_miniature_the_gate_says_that_there_was_nothing_to_run(tmp_path: Path) -> None:
    done = gated(tmp_path, channels=True, sources="miniature")
    said = gate_step(options(tmp_path, channels=True, sources="miniature"), ()).summary(done)
    assert said == "open, bypassed; none to run: the miniature family has no test files of PyTorch's own"
    (units_said,) = (one.predicate for one in done.statements if one.predicate.get("suite") == "units")
    assert (units_said["result"], units_said["runner"]) == ("skipped", False)
