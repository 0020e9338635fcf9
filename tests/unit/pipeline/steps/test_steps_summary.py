"""How a run ended, where workflows have no jobs for what leads to a channel."""

from __future__ import annotations

import msgspec

from rocwright.model.plan import SCHEMA, Cell, Plan, Publication, Rocm
from rocwright.pipeline.records import Record, State
from rocwright.pipeline.steps.summary import ends_of, summarized

BUILD = Cell("build-torch/linux", "build-torch", "build", platform="linux")
STAGE = Cell(
    "stage/linux", "stage", "stage", platform="linux", needs=(BUILD.id,), settings={"channel": "staging"}
)
GATE = Cell(
    "gate/linux", "gate", "gate", platform="linux", needs=(STAGE.id,), settings={"channel": "release"}
)


def plan(*, channels: bool) -> Plan:
    return Plan(
        schema=SCHEMA,
        profile="ci",
        run_id="1",
        sources="miniature",
        rocm=Rocm(),
        publication=Publication(True, channels, "" if channels else "the profile ci publishes nothing"),
        groups=(),
        cells=(BUILD, STAGE, GATE),
        jobs=(),
    )


def record(cell: Cell, state: State = "done") -> Record:
    return Record(
        schema=1,
        cell=cell.id,
        inputs="0" * 64,
        state=state,
        value=msgspec.Raw(b"null"),
        outputs=(),
        summary="",
        wall_s=1.0,
        by="a machine",
    )


def test_what_leads_to_a_channel_is_not_missed_where_none_may_be_changed() -> None:
    found = {BUILD.id: record(BUILD)}
    quiet = summarized(plan(channels=False), ends_of(plan(channels=False), found))
    assert quiet.good
    assert quiet.counts == {"done": 1, "skipped": 2}
    assert quiet.cells[GATE.id].why == "the profile ci publishes nothing"
    asked = summarized(plan(channels=True), ends_of(plan(channels=True), found))
    assert not asked.good
    assert asked.counts == {"done": 1, "missing": 2}


def test_a_build_that_nobody_did_is_missed_in_any_case() -> None:
    for channels in (False, True):
        made = plan(channels=channels)
        assert not summarized(made, ends_of(made, {})).good
        failed = {BUILD.id: record(BUILD, "failed")}
        assert summarized(made, ends_of(made, failed)).cells[BUILD.id].state == "failed"


def test_what_may_fail_is_told_and_spoils_no_run() -> None:
    lock = Cell("lock-extension-x/linux", "lock-extension-x", "lock_sources", platform="linux")
    build = Cell("build-extension-x/linux", "build-extension-x", "build", platform="linux", needs=(lock.id,))
    check = Cell("check/linux", "check", "build", needs=(BUILD.id, build.id), spare=(build.id,))
    made = msgspec.structs.replace(plan(channels=True), cells=(BUILD, lock, build, check))
    found = {BUILD.id: record(BUILD), lock.id: record(lock), check.id: record(check)}
    failed = summarized(made, ends_of(made, {**found, build.id: record(build, "failed")}))
    assert failed.good
    assert failed.counts == {"done": 3, "tolerated": 1}
    assert failed.cells[build.id].state == "tolerated", "it is among what people see"
    blocked = {**found, lock.id: record(lock, "failed"), build.id: record(build, "skipped")}
    assert summarized(made, ends_of(made, blocked)).counts == {"done": 2, "tolerated": 2}
    # That nobody has done it is another matter, and so is the family.
    assert not summarized(made, ends_of(made, found)).good
    assert not summarized(made, ends_of(made, {**found, BUILD.id: record(BUILD, "failed")})).good
