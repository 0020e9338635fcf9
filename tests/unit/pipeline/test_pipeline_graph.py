"""Graphs: every step after what it needs, and a mistake in a graph is named before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.engine import record as state
from rocwright.engine.graph import Inputs, Step, make_graph
from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import InvalidTarget
from rocwright.pipeline.demo import demo_graph
from rocwright.pipeline.options import RunOptions, Workspace


class Value(msgspec.Struct, frozen=True):
    number: int


class Other(msgspec.Struct, frozen=True):
    number: int


def step(name: str, *needs: str) -> Step:
    return Step(id=name, result=Value, act=lambda inputs, note: Value(1), needs=needs)


@st.composite
def dags(draw: st.DrawFn) -> list[tuple[str, tuple[str, ...]]]:
    count = draw(st.integers(1, 9))
    rows = []
    for number in range(count):
        needs = draw(st.sets(st.integers(0, number - 1))) if number else set()
        rows.append((f"s{number}", tuple(f"s{need}" for need in needs)))
    return draw(st.permutations(rows))


@given(dags())
def test_every_step_comes_after_what_it_needs(rows: list[tuple[str, tuple[str, ...]]]) -> None:
    ordered = [each.id for each in make_graph(step(name, *needs) for name, needs in rows).steps]
    assert sorted(ordered) == sorted(name for name, _ in rows)
    for name, needs in rows:
        assert all(ordered.index(need) < ordered.index(name) for need in needs)


@given(dags(), st.data())
def test_a_closure_is_what_is_needed_and_no_more(
    rows: list[tuple[str, tuple[str, ...]]], data: st.DataObject
) -> None:
    needs = dict(rows)
    wanted = data.draw(st.sampled_from(sorted(needs)))
    expected: set[str] = set()

    def add(name: str) -> None:
        expected.add(name)
        for need in needs[name]:
            add(need)

    add(wanted)
    graph = make_graph(step(name, *those) for name, those in rows).closure([wanted])
    assert {each.id for each in graph.steps} == expected
    ordered = [each.id for each in graph.steps]
    assert all(ordered.index(need) < ordered.index(each.id) for each in graph.steps for need in each.needs)


def test_steps_without_needs_keep_the_given_order() -> None:
    assert [each.id for each in make_graph([step("z"), step("a"), step("m")]).steps] == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([step("a"), step("a")], "two steps are called 'a'"),
        ([step("a", "b")], "step 'a' needs 'b', which does not exist"),
        ([step("x"), step("a", "b"), step("b", "c"), step("c", "a")], "in a circle: a, b, c"),
        ([step("a", "a")], "in a circle: a"),
    ],
)
def test_a_mistake_in_a_graph_is_named(steps: Sequence[Step], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make_graph(steps)


def test_a_circle_names_its_steps_and_not_those_that_wait_for_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        make_graph([step("a", "b"), step("b", "a"), step("waits", "a")])
    assert "waits" not in str(caught.value)


def test_an_unknown_step_is_answered_with_the_known_ones() -> None:
    graph = make_graph([step("build"), step("test")])
    assert graph["test"].id == "test"
    with pytest.raises(InvalidInput, match="no step 'tset'") as caught:
        graph.closure(["tset"])
    assert caught.value.next_step == "steps: build test"


def test_a_result_of_another_type_is_not_passed_on() -> None:
    inputs = Inputs({"a": Value(1)})
    assert inputs.get("a", Value).number == 1
    with pytest.raises(TypeError, match="step a gave Value, expected Other"):
        inputs.get("a", Other)


# ---- the demo's own graph ----


def options(root: Path, **changes: object) -> RunOptions:
    values: dict[str, object] = {
        "workspace": Workspace(root / "work"),
        "cache": root / "cache",
        "targets": ("gfx90a",),
        "torch_ref": "release/2.9",
        **changes,
    }
    return RunOptions(**values)


def test_the_demo_promotes_only_what_both_installers_tested(tmp_path: Path) -> None:
    graph = demo_graph(options(tmp_path, rocm_prefix=tmp_path))
    assert graph.steps[-1].id == "promote"
    assert set(graph["promote"].needs) == {"stage", "gate"}
    assert set(graph["gate"].needs) == {"stage", "test-pip", "test-uv"}
    # What is staged is what was uploaded, and that is what is tested: the gate compares their digests.
    for name in ("test-pip", "test-uv", "stage"):
        assert "upload-pytorch" in graph[name].needs
    assert "check" in graph["stage"].needs
    assert "check" in graph["upload-pytorch"].needs
    assert not (tmp_path / "work").exists()


def test_every_room_that_a_step_depends_on_exists(tmp_path: Path) -> None:
    for each in demo_graph(options(tmp_path, rocm_prefix=tmp_path)).steps:
        for room in each.rooms:
            assert len(state.room_digest(room)) == 64, (each.id, room)


def test_targets_are_judged_before_anything_is_planned(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no GPU target"):
        demo_graph(options(tmp_path, rocm_prefix=tmp_path, targets=()))
    with pytest.raises(InvalidTarget, match="'mi300'"):
        demo_graph(options(tmp_path, rocm_prefix=tmp_path, targets=("gfx90a", "mi300")))
