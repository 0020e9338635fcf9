"""Every cell of every plan has its steps, and the demo is made of the same ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.engine import record as state
from rocwright.engine.graph import make_graph
from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.plan import Cell, Choice, Plan, Publication, Rocm
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.demo import demo_graph
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.records import ENDED, Machine
from rocwright.pipeline.steps.of_cell import input_names, options_of, steps_of, steps_of_kind
from rocwright.pipeline.steps.rocm import Pinned, require_pinned
from rocwright.store.objects.local import LocalStore

KNOWN = known(environment={})
BOTH = Publication(upload=True, channels=True)


def plan_of(profile: str = "ci", **choice: object) -> Plan:
    made = msgspec.convert({"profile": profile, "run_id": "7", **choice}, Choice)
    return make_plan(profiles().named(profile), made, KNOWN, BOTH)


def machine(tmp_path: Path) -> Machine:
    store = tmp_path / "store"
    return Machine(LocalStore(store), str(store), tmp_path / "work", tmp_path / "cache", jobs=2)


PLANS = {
    "ci": plan_of(),
    "dev": plan_of("dev"),
    "split": plan_of(split=True),
    "parts": plan_of(split=True, device_groups=2),
    "prefix": plan_of(rocm=Rocm("prefix", "/opt/rocm")),
    "packages": plan_of(rocm=Rocm("packages", "123")),
    "artifacts": plan_of(rocm=Rocm("artifacts", "123", "someone/TheRock")),
    "extensions": plan_of(split=True, device_groups=2, extensions=("a==1", "b==2")),
    "rocm-only": plan_of(build_pytorch=False),
    "upstream": plan_of("nightly", sources="upstream", families=("gfx94X-dcgpu",), pythons=("3.12",)),
    "two-families": plan_of(sources="upstream", families=("gfx94X-dcgpu", "gfx110X-all"), group="both"),
}


@pytest.mark.parametrize("name", PLANS)
def test_every_cell_is_a_graph_over_the_results_of_its_needs(name: str, tmp_path: Path) -> None:
    plan = PLANS[name]
    for cell in plan.cells:
        steps = steps_of(cell, plan, machine(tmp_path))
        names = input_names(cell, plan)
        assert set(names.values()) == set(cell.needs), "no need is lost under the name of another"
        assert steps[-1].id == cell.kind
        graph = make_graph(steps, given=[*names, ENDED])
        # What the definition says that a cell needs is what its steps are given, but for what is left out.
        used = {need for step in graph.steps for need in step.needs} & names.keys()
        assert used <= {own for own, id_ in names.items() if not plan.cell(id_).skip}
        for step in steps:
            own = step.act.__module__.removeprefix("rocwright.").replace(".", "/")
            assert any(f"{own}/".startswith(f"{room}/") for room in step.rooms), step.id
            for room in step.rooms:
                assert len(state.room_digest(room)) == 64, (cell.id, room)
    assert not list(tmp_path.iterdir()), "nothing is done or made by saying what would be"


def test_results_of_several_cells_of_one_kind_have_the_names_of_the_cells() -> None:
    plan = PLANS["parts"]
    merge = next(cell for cell in plan.cells if cell.kind == "merge-torch")
    names = input_names(merge, plan)
    assert names.pop("rocm-packages") == "rocm-packages/linux/debian12"
    assert len(names) == 2
    assert all(name == id_ and id_.startswith("build-torch/") for name, id_ in names.items())


def test_a_part_has_a_place_of_its_own_and_all_the_groups_targets(tmp_path: Path) -> None:
    plan = PLANS["parts"]
    parts = [cell for cell in plan.cells if cell.kind == "build-torch"]
    made = [options_of(cell, plan, machine(tmp_path)) for cell in parts]
    assert len({one.workspace for one in made}) == 2
    assert {target for one in made for target in one.part} == set(made[0].targets) == set(made[1].targets)


def kinds_and_needs(plan: Plan) -> dict[str, set[str]]:
    def kind(id_: str) -> Cell:
        return plan.cell(id_)

    return {cell.kind: {kind(need).kind for need in cell.needs} for cell in plan.cells}


def test_the_demo_is_the_miniature_row_of_ci_without_gpus(tmp_path: Path) -> None:
    """One definition: the same kinds, and each is given the same results."""
    options = RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=("gfx90a",),
        torch_ref="release/2.9",
        rocm_prefix=tmp_path,
    )
    graph = demo_graph(options)
    cells = kinds_and_needs(PLANS["ci"])
    left_out = {"test-rocm", "test-units", "test-pytorch", "summary"}
    here = {step.id for step in graph.steps}
    assert cells.keys() - here == left_out
    # What the demo has besides is work on this machine only.
    local = {"rocm-prefix", "origins", "python-headers", "build-env"}
    assert {name for name in here - cells.keys() if not name.startswith("checkout-")} == local
    for kind in cells.keys() - left_out:
        assert set(graph[kind].needs) & cells.keys() == cells[kind] - left_out, kind


def test_an_unknown_kind_names_the_known_ones(tmp_path: Path) -> None:
    options = options_of(PLANS["ci"].cells[0], PLANS["ci"], machine(tmp_path))
    with pytest.raises(InvalidInput, match="no step of the kind 'tidy'") as caught:
        steps_of_kind("tidy", options, ())
    assert "rocm-packages" in str(caught.value)


def test_another_machines_packages_are_refused_by_name() -> None:
    pinned = Pinned("distribution", "debian 12", {"a.deb": "1" * 64, "b.deb": "2" * 64}, 9)
    require_pinned(pinned, dict(pinned.files), "here")
    with pytest.raises(IntegrityError, match=r"another ROCm than the run started with: b\.deb"):
        require_pinned(pinned, {"a.deb": "1" * 64, "b.deb": "3" * 64}, "here")
    with pytest.raises(IntegrityError, match=r"c\.deb"):
        require_pinned(pinned, {**pinned.files, "c.deb": "4" * 64}, "here")


def test_the_level_of_tests_reaches_the_tests_on_gpus_and_their_digest_alone(tmp_path: Path) -> None:
    asked = {"sources": "upstream", "families": ("gfx94X-dcgpu",), "platforms": ("linux",)}
    quick, standard = plan_of(**asked), plan_of(**asked, test_level="standard", tests=("test_nn",))

    def level(plan: Plan) -> str:
        cell = next(cell for cell in plan.cells if cell.kind == "test-pytorch")
        return options_of(cell, plan, machine(tmp_path)).tests

    assert (level(quick), level(standard)) == ("quick", "standard test_nn")
    digests = {cell.id: cell.digest for cell in quick.cells}
    other = {cell.kind for cell in standard.cells if digests.get(cell.id) != cell.digest}
    assert other == {"test-rocm", "test-units", "test-pytorch", "gate", "promote", "summary"}
    assert not any("tests are" in note for note in quick.notes)
    assert "tests are standard, with test_nn" in standard.notes
