"""What holds for any definition, any profile and any choice."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from define_samples import FAMILIES, KNOWN, OPEN, PROFILE
from hypothesis import given, settings
from hypothesis import strategies as st

from rocwright.errors import InvalidInput, UsageError
from rocwright.model.plan import Cell, Choice, Group, Plan, Profile, Rocm
from rocwright.pipeline.define.cells import Row, make_cells, make_jobs
from rocwright.pipeline.define.inputs import known, parse_rocm, profiles
from rocwright.pipeline.define.kinds import AXES, Axis, Kind
from rocwright.pipeline.define.plan import make_plan
from rocwright.store.layout import is_key

# Nothing here is about time, and machines are busy.
few = settings(max_examples=60, deadline=None)


@st.composite
def definitions(draw: st.DrawFn) -> tuple[Kind, ...]:
    """Up to eight kinds, each on some axes, each needing some of those before it, shuffled."""
    found: list[Kind] = []
    for number in range(draw(st.integers(1, 8))):
        chosen = draw(st.sets(st.sampled_from(AXES)))
        gpu = draw(st.booleans())
        axes: tuple[Axis, ...] = tuple(axis for axis in AXES if axis in chosen)
        if gpu:
            axes = tuple(axis for axis in AXES if axis in {*axes, "platform", "group", "family"})
        names = [kind.name for kind in found]
        needs = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        job = f"job{draw(st.integers(0, 3))}" if draw(st.booleans()) else f"own{number}"
        found.append(Kind(f"kind{number}", job, axes, tuple(needs), gpu=gpu))
    return tuple(draw(st.permutations(found)))


def _rows(platforms: int, groups: int, parts: int) -> list[Row]:
    pieces = tuple(f"part{number}" for number in range(parts)) if parts > 1 else ("",)
    made = [Group(f"g{number}", ("gfx906",), (f"g{number}", "more")) for number in range(groups)]
    return [
        Row(platform, python, "main", group, pieces)
        for platform in ("linux", "windows")[:platforms]
        for python in ("3.12", "3.14t")
        for group in made
    ]


rows = st.builds(_rows, st.integers(1, 2), st.integers(1, 3), st.integers(1, 3))


def _none(kind: Kind, row: Row) -> dict[str, str]:
    return {}


def _runner(family: str, platform: str) -> tuple[str, str]:
    return ("", "there is none") if family == "more" else ("label", "")


def _require_order(things: Sequence[tuple[str, Sequence[str]]]) -> None:
    seen: set[str] = set()
    for id_, needs in things:
        assert set(needs) <= seen, f"{id_} stands before what it needs"
        assert id_ not in seen
        seen.add(id_)


@few
@given(definitions(), rows)
def test_each_cell_comes_after_what_it_needs(kinds: tuple[Kind, ...], held: list[Row]) -> None:
    cells = make_cells(kinds, held, settings=_none, runner=_runner)
    _require_order([(cell.id, cell.needs) for cell in cells])
    by_kind: dict[str, list[Cell]] = {}
    for cell in cells:
        by_kind.setdefault(cell.kind, []).append(cell)
    named = {kind.name: kind for kind in kinds}
    for cell in cells:
        # By the meaning, not the way it is made: all cells of the kind that differ on no axis of both.
        wanted = {
            other.id
            for need in named[cell.kind].needs
            for other in by_kind.get(need, ())
            if all(
                getattr(other, axis) == getattr(cell, axis)
                for axis in named[need].axes
                if axis in named[cell.kind].axes
            )
        }
        assert set(cell.needs) == wanted
        assert bool(cell.skip) == (named[cell.kind].gpu and cell.family == "more")


@few
@given(definitions(), rows)
def test_jobs_hold_every_cell_once_and_never_wait_in_a_circle(
    kinds: tuple[Kind, ...], held: list[Row]
) -> None:
    cells = make_cells(kinds, held, settings=_none, runner=_runner)
    try:
        jobs = make_jobs(cells)
    except InvalidInput as refused:
        assert "these jobs wait for each other" in str(refused) or "two jobs" in str(refused)
        return
    _require_order([(job.id, job.needs) for job in jobs])
    assert sorted(id_ for job in jobs for id_ in job.cells) == sorted(cell.id for cell in cells)
    job_of = {id_: job.id for job in jobs for id_ in job.cells}
    for job in jobs:
        own = [cell for cell in cells if job_of[cell.id] == job.id]
        assert [cell.id for cell in own] == list(job.cells)
        outside = {job_of[need] for cell in own for need in cell.needs} - {job.id}
        assert set(job.needs) == outside


@few
@given(definitions(), rows, st.data())
def test_a_setting_changes_what_follows_from_it_and_nothing_else(
    kinds: tuple[Kind, ...], held: list[Row], data: st.DataObject
) -> None:
    changed = data.draw(st.sampled_from([kind.name for kind in kinds]))

    def other(kind: Kind, row: Row) -> dict[str, str]:
        return {"setting": "other"} if kind.name == changed else {}

    before = make_cells(kinds, held, settings=_none, runner=_runner)
    after = {cell.id: cell.digest for cell in make_cells(kinds, held, settings=other, runner=_runner)}
    follows: set[str] = set()
    for cell in before:
        if cell.kind == changed or follows & set(cell.needs):
            follows.add(cell.id)
    assert {cell.id for cell in before if after[cell.id] != cell.digest} == follows


@few
@given(definitions(), rows)
def test_where_a_result_goes_does_not_change_what_it_is(kinds: tuple[Kind, ...], held: list[Row]) -> None:
    def of_run(run: str) -> dict[str, str]:
        made = make_cells(kinds, held, settings=lambda kind, row: {"run": run}, runner=_runner)
        return {cell.id: cell.digest for cell in made}

    assert of_run("1") == of_run("2")


choices = st.builds(
    Choice,
    profile=st.just("mine"),
    run_id=st.sampled_from(("1", "nightly-7")),
    tier=st.sampled_from((None, "presubmit", "postsubmit", "nightly")),
    platforms=st.sampled_from(((), ("linux",), ("windows", "linux"))),
    pythons=st.lists(st.sampled_from(("3.10", "3.13", "3.14t")), unique=True).map(tuple),
    refs=st.lists(
        st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._/+#@-]{0,9}", fullmatch=True), unique=True, max_size=2
    ).map(tuple),
    families=st.lists(st.sampled_from((*FAMILIES, "gfx942", "gfx1030")), unique=True).map(tuple),
    group=st.sampled_from(("", "multi-arch")),
    tested=st.sampled_from((None, (), ("one-all",))),
    projects=st.sampled_from(((), ("torch",), ("torchvision", "torch"))),
    sources=st.sampled_from((None, "miniature", "upstream")),
    rocm=st.sampled_from((Rocm(), Rocm("packages", "5"), Rocm("prefix", "/opt/rocm"))),
    build_pytorch=st.booleans(),
    split=st.sampled_from((None, False, True)),
    device_groups=st.sampled_from((None, 1, 2)),
)
profile_values = st.builds(
    msgspec.structs.replace,
    st.just(PROFILE),
    platforms=st.sampled_from((("linux",), ("linux", "windows"))),
    split=st.booleans(),
    stage=st.just("staging"),
    promote=st.sampled_from(("", "release")),
)


@few
@given(profile_values, choices)
def test_any_choice_gives_a_whole_plan_or_a_reason(profile: Profile, choice: Choice) -> None:
    try:
        plan = make_plan(profile, choice, KNOWN, OPEN)
    except (UsageError, InvalidInput) as refused:
        assert refused.next_step
        return
    _require_order([(cell.id, cell.needs) for cell in plan.cells])
    _require_order([(job.id, job.needs) for job in plan.jobs])
    assert plan.cells[-1].id == "summary" and plan.cells[-1].last
    for id_ in (*(cell.id for cell in plan.cells), *(job.id for job in plan.jobs)):
        assert is_key(id_), id_
        assert shlex.quote(id_) == id_
    # A job and a step may share a name only where they are the same.
    cells = {cell.id for cell in plan.cells}
    for job in plan.jobs:
        assert job.id not in cells or job.cells == (job.id,)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    # The run goes through every result: the summary hears, by some way, of every cell.
    needs = {cell.id: cell.needs for cell in plan.cells}
    assert _above("summary", needs) == cells - {"summary"}


def _above(id_: str, needs: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [id_]
    while waiting:
        for need in needs[waiting.pop()]:
            if need not in found:
                found.add(need)
                waiting.append(need)
    return found


@pytest.fixture(scope="module")
def of_profile() -> dict[str, dict[str, str]]:
    """Digests by id: one row of the matrix, planned by each of the profiles there are."""
    found = {}
    tables = known(environment={})
    for profile in profiles().profile:
        choice = Choice(
            profile=profile.name,
            # Each run has a name of its own: digests must not have it in them.
            run_id=f"run-of-{profile.name}",
            platforms=("linux",),
            pythons=("3.12",),
            refs=("release/2.12",),
            families=("gfx94X-dcgpu",),
            sources="upstream",
            # A release is built with a released ROCm.
            rocm=parse_rocm("index:nightly", tables) if profile.name == "release" else None,
            split=True,
        )
        plan = make_plan(profile, choice, tables, OPEN)
        found[profile.name] = {cell.id: cell.digest for cell in plan.cells}
    return found


def test_ci_and_release_run_the_same_steps(of_profile: dict[str, dict[str, str]]) -> None:
    assert set(of_profile) == {"ci", "dev", "emulated", "nightly", "release"}
    assert len(of_profile["ci"]) == 22
    for name, digests in of_profile.items():
        if name != "emulated":
            assert digests == of_profile["ci"], name


def test_a_run_on_emulated_gpus_builds_the_same_and_asks_for_no_machine_with_a_gpu(
    of_profile: dict[str, dict[str, str]],
) -> None:
    ci, emulated = of_profile["ci"], of_profile["emulated"]
    new = {id_.partition("/")[0] for id_ in emulated.keys() - ci.keys()}
    gone = {id_.partition("/")[0] for id_ in ci.keys() - emulated.keys()}
    assert (new, gone) == ({"test-emulated"}, {"test-rocm", "test-pytorch", "stage", "gate", "promote"})
    other = {id_ for id_ in ci.keys() & emulated.keys() if ci[id_] != emulated[id_]}
    assert other == {"summary"}
    choice = Choice("emulated", "1", platforms=("linux",), families=("gfx94X-dcgpu",), sources="upstream")
    tables = known(environment={})
    plan = make_plan(profiles().named("emulated"), choice, tables, OPEN)
    (cell,) = [cell for cell in plan.cells if cell.kind == "test-emulated"]
    assert (cell.family, cell.skip, cell.runner) == ("gfx94X-dcgpu", "", "")
    assert not any(cell.skip or cell.runner for cell in plan.cells)


def test_another_channel_changes_its_gate_and_nothing_of_the_builds() -> None:
    other = msgspec.structs.replace(PROFILE, promote="candidates")
    one, two = (make_plan(held, Choice("mine", "1"), KNOWN, OPEN) for held in (PROFILE, other))
    changed = [a.kind for a, b in zip(one.cells, two.cells, strict=True) if a.digest != b.digest]
    assert changed == ["gate", "promote", "summary"]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        # What does not follow from ROCm.
        ({"rocm": Rocm("prefix", "/opt/rocm")}, {"lock-sources"}),
        # Device code in wheels of its own: up to the build all is the same.
        ({"split": True}, {"rocm-artifacts", "rocm-packages", "check-rocm", "upload-rocm", "test-rocm"}),
    ],
)
def test_what_a_choice_leaves_alone(change: dict[str, object], same: set[str]) -> None:
    choice = Choice("mine", "1")
    one = make_plan(PROFILE, choice, KNOWN, OPEN)
    two = make_plan(PROFILE, msgspec.structs.replace(choice, **change), KNOWN, OPEN)
    digests = {cell.id: cell.digest for cell in two.cells}
    kept = {cell.kind for cell in one.cells if digests.get(cell.id) == cell.digest}
    builds = {"build-triton", "build-torch", "build-torchvision", "lock-sources"}
    assert kept == same | (builds if "split" in change else set())
