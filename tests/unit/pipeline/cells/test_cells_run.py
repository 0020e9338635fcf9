"""All cells of a plan here: order, turns at one place, failures, resuming, dry runs; plans in the store."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from rocwright.errors import CommandFailed, InvalidData, InvalidInput, NoSpace, UsageError
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.cells.act import TAKEN, act
from rocwright.pipeline.cells.run import Ran, run_job, run_plan
from rocwright.pipeline.records import Machine, plan_key, read_plan, record_plan, run_records
from rocwright.pipeline.tell.results import problems_of, tolerated
from rocwright.store.objects import durable
from unit.pipeline.cells.toy import IDS, Told, Toy, failure, machine, require_whole, toy_plan

PLAN = toy_plan()
A, B, C, TESTED, JOIN, PUBLISH, SUMMARY = (
    "make-a/linux/one",
    "make-b/linux/one",
    "make-c/linux/two",
    "tested/linux/two",
    "join/linux/three",
    "publish/linux/three",
    "summary",
)


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return machine(tmp_path, "here", tmp_path / "store")


def states(ran: Ran) -> dict[str, str]:
    return {id_: "cached" if record.why == TAKEN else record.state for id_, record in ran.records.items()}


def told(ran: Ran) -> dict[str, str]:
    return msgspec.json.decode(ran.records[SUMMARY].value, type=Told).states


def test_a_run_does_every_cell_after_what_it_needs_and_resumes_for_free(here: Machine) -> None:
    toy = Toy()
    ran = run_plan(PLAN, here, steps_of=toy.steps_of)
    assert list(ran.records) == list(IDS)
    assert states(ran) == {id_: "skipped" if id_ == TESTED else "done" for id_ in IDS}
    assert told(ran) == {TESTED: "skipped", PUBLISH: "done"}
    assert set(toy.done) == set(IDS) - {TESTED}
    assert toy.done.index(A) < toy.done.index(B) < toy.done.index(JOIN) < toy.done.index(PUBLISH)
    again = run_plan(PLAN, here, steps_of=toy.steps_of)
    assert states(again) == {id_: "skipped" if id_ == TESTED else "cached" for id_ in IDS}
    assert len(toy.done) == 6


def without(*spare: str) -> Plan:
    """The plan with a JOIN that does without some of its needs."""
    cells = tuple(
        msgspec.structs.replace(cell, spare=spare) if cell.id == JOIN else cell for cell in PLAN.cells
    )
    return msgspec.structs.replace(PLAN, cells=cells)


def test_what_may_fail_stops_only_what_cannot_do_without_it(here: Machine) -> None:
    toy, plan = Toy(), without(B)
    toy.broken = {A: failure("no A")}
    ran = run_plan(plan, here, steps_of=toy.steps_of)
    ended = {A: "failed", B: "skipped", TESTED: "skipped"}
    assert states(ran) == dict.fromkeys(IDS, "done") | ended
    assert plan.spare == {A, B}, "A is needed for B alone"
    assert problems_of(plan, ran.records, ran.problems) == {}
    warned = tolerated(plan, ran.records)
    assert warned == {
        A: f"{A} failed, and the run goes on without it",
        B: f"{B} was not done, and the run goes on without it: {A} failed",
    }
    alone = ran.records[JOIN].inputs

    # Once it can be made, what did without it is made again with it; then nothing is.
    toy.broken, toy.done = {}, []
    ended = {C: "cached", TESTED: "skipped", SUMMARY: "cached"}
    assert states(run_plan(plan, here, steps_of=toy.steps_of)) == dict.fromkeys(IDS, "done") | ended
    assert toy.done[:3] == [A, B, JOIN]
    again = run_plan(plan, here, steps_of=toy.steps_of)
    assert set(states(again).values()) == {"cached", "skipped"}
    assert again.records[JOIN].inputs != alone


def test_what_has_no_result_yet_is_waited_for_also_by_those_that_do_without(here: Machine) -> None:
    plan, toy = without(B, C), Toy()
    with pytest.raises(InvalidInput, match=f"{JOIN} needs {B}, which has not been done"):
        act(plan, plan.cell(JOIN), here, lambda _: None, steps_of=toy.steps_of)
    assert toy.done == []


def test_the_family_is_not_lost_for_what_may_fail(here: Machine) -> None:
    toy, plan = Toy(), without(B)
    toy.broken = {A: failure("no A"), C: failure("no C")}
    ran = run_plan(plan, here, steps_of=toy.steps_of)
    assert ran.records[JOIN].why == f"{C} failed"
    assert list(problems_of(plan, ran.records, ran.problems)) == [C]


def test_a_failure_stops_what_needs_it_and_nothing_else(here: Machine) -> None:
    toy = Toy()
    toy.broken = {A: failure("no A"), C: failure("no C")}
    ran = run_plan(PLAN, here, steps_of=toy.steps_of)
    assert states(ran) == {
        A: "failed",
        B: "skipped",
        C: "failed",
        TESTED: "skipped",
        JOIN: "skipped",
        PUBLISH: "skipped",
        SUMMARY: "done",
    }
    assert ran.records[B].why == f"{A} failed"
    assert ran.records[TESTED].why == "no runner has such a GPU"
    assert ran.records[PUBLISH].why == f"{JOIN} was left out"
    assert list(ran.problems) == [A, C]
    with pytest.raises(CommandFailed, match="hipcc"):
        ran.raise_first()
    assert {id_: record.state for id_, record in run_records(here.store, "7").items()} == states(ran)

    toy.broken = {}
    mended = run_plan(PLAN, here, steps_of=toy.steps_of)
    assert not mended.problems
    assert told(mended) == {TESTED: "skipped", PUBLISH: "done"}


@pytest.mark.parametrize(
    ("number", "kind", "told_of"),
    [
        (errno.ENOSPC, NoSpace, "no space left"),
        (errno.EDQUOT, NoSpace, "no space left"),
        (errno.EROFS, InvalidInput, "Read-only file system"),
        (errno.EACCES, InvalidInput, "Permission denied"),
    ],
    ids=["full", "over its quota", "read-only", "forbidden"],
)
@pytest.mark.parametrize("after", ["objects", "cells"])
def test_a_store_that_takes_nothing_more_is_told_and_the_run_resumes(
    here: Machine,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    kind: type[Exception],
    told_of: str,
    after: str,
) -> None:
    """From the first file of a step on, or from the first record: it took the leases before that."""
    write = durable._into_folder
    full = True

    def written(partial: Path, fill: Callable[[Path], object]) -> None:
        if full and f"/_pipeline/{'objects' if after == 'objects' else '7/cells'}/" in partial.as_posix():
            # What a disk that gets full leaves is a part of the file.
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(b"half")
            raise OSError(number, os.strerror(number))
        write(partial, fill)

    monkeypatch.setattr(durable, "_into_folder", written)
    toy = Toy()
    toy.broken = {C: failure("no C")}
    ran = run_plan(PLAN, here, steps_of=toy.steps_of)
    assert isinstance(ran.problems[A], kind) and told_of in str(ran.problems[A])
    # Why a step failed is told, whether or not that could be recorded.
    assert isinstance(ran.problems[C], CommandFailed)
    store = here.work.parent.parent / "store"
    left = [path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()]
    assert [path for path in left if "partial" in path or "lease" in path] == []
    done = [path for path in left if path.endswith(".json") and path.count(".") == 1 and SUMMARY not in path]
    assert done == []

    full, toy.broken = False, {}
    again = run_plan(PLAN, here, steps_of=toy.steps_of)
    assert states(again) == {id_: "skipped" if id_ == TESTED else "done" for id_ in IDS}
    assert toy.done.count(A) == 1, "what was made is not made again, only stored"


def test_one_broken_branch_leaves_the_other_to_be_done(here: Machine) -> None:
    toy = Toy()
    toy.broken = {A: failure()}
    assert states(run_plan(PLAN, here, steps_of=toy.steps_of))[C] == "done"


def test_cells_of_one_place_take_turns_and_others_go_on(tmp_path: Path) -> None:
    cells = tuple(
        Cell(id=id_, kind=id_.partition("/")[0], job=id_, digest=str(number))
        for number, id_ in enumerate(("p/one", "q/one", "r/two"))
    )
    plan = msgspec.structs.replace(PLAN, cells=cells)
    toy = Toy()
    at_work: set[str] = set()
    seen: list[frozenset[str]] = []
    together = threading.Barrier(2)
    lock = threading.Lock()

    def during(cell: Cell) -> None:
        with lock:
            at_work.add(cell.id)
            seen.append(frozenset(at_work))
        if cell.id in ("p/one", "r/two"):
            together.wait(timeout=30)
        with lock:
            at_work.remove(cell.id)

    toy.during = during
    ran = run_plan(plan, machine(tmp_path, "here", tmp_path / "store", jobs=3), steps_of=toy.steps_of)
    assert set(states(ran).values()) == {"done"}
    assert not any({"p/one", "q/one"} <= one for one in seen)
    assert any({"p/one", "r/two"} <= one for one in seen)


def test_two_runs_over_one_store_share_the_work(tmp_path: Path) -> None:
    toys = {name: Toy(seconds=0.1) for name in ("left", "right")}
    ended: dict[str, Ran] = {}

    def work(name: str) -> None:
        where = machine(tmp_path, name, tmp_path / "store", jobs=1)
        ended[name] = run_plan(PLAN, where, steps_of=toys[name].steps_of)

    threads = [threading.Thread(target=work, args=(name,)) for name in toys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = toys["left"].done + toys["right"].done
    assert sorted(done) == sorted(set(IDS) - {TESTED}), "each cell was done by one of them"
    assert told(ended["left"]) == told(ended["right"]) == {TESTED: "skipped", PUBLISH: "done"}


def test_some_cells_with_what_they_need_from_the_records(here: Machine) -> None:
    toy = Toy()
    run_plan(PLAN, here, only={A, C}, steps_of=toy.steps_of)
    assert sorted(toy.done) == [A, C]
    ran = run_plan(PLAN, here, only={B}, steps_of=toy.steps_of)
    assert (list(ran.records), toy.done[2:]) == ([B], [B])


def test_a_job_does_its_cells_in_order_and_stops_behind_a_failure(here: Machine) -> None:
    toy = Toy()
    toy.broken = {B: failure()}
    cells = [PLAN.cell(id_) for id_ in (A, C, B, JOIN)]
    ended = [
        (cell.id, record.state, problem is not None)
        for cell, record, problem in run_job(PLAN, cells, here, lambda _: None, steps_of=toy.steps_of)
    ]
    assert ended == [(A, "done", False), (C, "done", False), (B, "failed", True), (JOIN, "skipped", False)]


@pytest.mark.parametrize("fork", [False, True], ids=["asked-for", "fork"])
def test_a_dry_run_says_what_it_would_do_and_writes_nothing(tmp_path: Path, fork: bool) -> None:
    toy = Toy()
    plan = toy_plan(upload=not fork)
    where = machine(tmp_path, "here", tmp_path / "store", dry_run=not fork)
    ran = run_plan(plan, where, steps_of=toy.steps_of)
    assert toy.done == []
    assert states(ran) == {id_: "skipped" if id_ == TESTED else "dry" for id_ in IDS}
    folder = (tmp_path / "store/7-linux/pytorch/three").as_uri()
    assert ran.records[PUBLISH].summary == f"would run local, publish; would upload to {folder}/"
    assert ran.records[A].why == ("the pull request is a fork's" if fork else "only shown (--dry-run)")
    assert list(tmp_path.iterdir()) == []


def test_no_slots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="0 steps at once"):
        run_plan(PLAN, machine(tmp_path, "here", tmp_path / "store", jobs=0))


def test_runs_do_not_mix(here: Machine) -> None:
    toy = Toy()
    run_plan(PLAN, here, only={A}, steps_of=toy.steps_of)
    with pytest.raises(InvalidInput, match=f"needs {A}, which has not been done in run 8"):
        run_plan(toy_plan("8"), here, only={B}, steps_of=toy.steps_of).raise_first()


def test_one_run_has_one_plan(here: Machine) -> None:
    record_plan(here.store, PLAN)
    record_plan(here.store, PLAN)
    # What may be published, and what people are told, is up to each machine.
    record_plan(here.store, toy_plan(upload=False, note="said here only"))
    assert read_plan(here.store, "7") == PLAN
    with pytest.raises(InvalidInput) as caught:
        record_plan(here.store, toy_plan(setting="2"))
    assert caught.value.what == (
        "run 7 has another plan in this store: make-a/linux/one has the settings "
        "{'setting': '1'}, here {'setting': '2'}"
    )
    with pytest.raises(InvalidInput, match="it also has summary"):
        record_plan(here.store, msgspec.structs.replace(PLAN, cells=PLAN.cells[:-1]))
    with pytest.raises(InvalidInput, match='its profile is "ci", here "nightly"'):
        record_plan(here.store, msgspec.structs.replace(PLAN, profile="nightly"))


def test_a_plan_that_is_not_there_or_damaged_is_named(here: Machine, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the store has no plan of run 7"):
        read_plan(here.store, "7")
    here.store.put_bytes(plan_key("7"), b'{"schema": 1}')
    with pytest.raises(InvalidData, match="profile"):
        read_plan(here.store, "7")


@pytest.mark.parametrize(
    "run_id", ["", "a/b", "../x", "a..b", "_x", "objects", "a b", "-x", "a+b", "a.partial", "a" * 129]
)
def test_a_run_id_stays_in_its_folder(run_id: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid run id"):
        plan_key(run_id)


def test_files_of_a_finished_run_are_whole(here: Machine) -> None:
    toy = Toy()
    run_plan(PLAN, here, steps_of=toy.steps_of)
    published = list((here.work.parent.parent / "store/published/7").iterdir())
    assert [path.name for path in published] == ["join.txt"]
    assert require_whole(published[0]) == require_whole(here.work / "linux/three/join.txt")
