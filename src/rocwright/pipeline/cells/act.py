"""One cell on one machine: claim it, fetch what it needs, do its steps, store what they made, record it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.engine import run as local
from rocwright.engine.graph import Note, Step, make_graph
from rocwright.engine.record import digest
from rocwright.errors import Interrupted, InvalidInput, RocwrightError
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.cells.claim import claimed
from rocwright.pipeline.cells.inputs import StepsOf, given, inputs_digest, portable
from rocwright.pipeline.cells.outputs import get_outputs, lost_outputs, put_outputs
from rocwright.pipeline.records import (
    SCHEMA,
    LeftOut,
    Machine,
    Record,
    State,
    done_key,
    make_current,
    newest_records,
    place_of,
    read_record,
    run_prefix,
    write_record,
)
from rocwright.pipeline.steps.of_cell import steps_of as real_steps_of
from rocwright.store.layout import run_folder
from rocwright.system.progress import Progress
from rocwright.system.redact import hidden, secrets_in

_NOTHING = msgspec.Raw(b"null")
# Of an error in a record; the whole of it stands in the log.
_WHY = 2000
TAKEN = "its result was there"


def act(
    plan: Plan,
    cell: Cell,
    machine: Machine,
    note: Note,
    *,
    steps_of: StepsOf | None = None,
    known: Mapping[str, Record] | None = None,
    patient: bool = True,
) -> Record:
    """Do a cell unless it is done, and give its record; `why` of a record that was there says so.

    `known` are records of needed cells that count whatever the store holds. A cell whose needs failed or were
    left out is skipped, unless it runs in any case or does without them; so is a cell whose step has nothing
    to do.
    Raises what its steps raise, `InvalidInput` for a needed cell that nobody has done, and `AtWork` where
    somebody else does it and `patient` is false.
    """
    steps_of = steps_of or real_steps_of
    dry = machine.dry_run or not plan.publication.upload
    if cell.skip:
        return _skipped(plan, cell, machine, cell.skip, dry=dry)
    needs = _needs(plan, cell, machine, note, known or {})
    missing = [id_ for id_ in cell.needs if id_ not in needs]
    if dry:
        return dry_record(plan, cell, machine, steps_of(cell, plan, machine), needs)
    if missing and not cell.last:
        raise InvalidInput(
            f"{cell.id} needs {missing[0]}, which has not been done in run {plan.run_id}",
            where=machine.store.url(run_prefix(plan.run_id)),
            next_step=f"rocwright pipeline step {missing[0]} --run-id {plan.run_id}",
        )
    asked = [id_ for id_ in cell.needs if id_ in needs and id_ not in cell.spare]
    undone = [needs[id_] for id_ in asked if needs[id_].state != "done"]
    if undone and not cell.last:
        words = {"failed": "failed", "skipped": "was left out", "dry": "was a dry run"}
        why = f"{undone[0].cell} {words[undone[0].state]}"
        return _skipped(plan, cell, machine, why)
    work = _Work(plan, cell, machine, note, steps_of, needs)
    return work.do(patient=patient)


def _needs(
    plan: Plan, cell: Cell, machine: Machine, note: Note, known: Mapping[str, Record]
) -> dict[str, Record]:
    """Records of the needed cells; a cell that the plan leaves out needs none."""
    found = {id_: known[id_] for id_ in cell.needs if id_ in known}
    asked = [plan.cell(id_) for id_ in cell.needs if id_ not in known]
    left_out = [one for one in asked if one.skip]
    found |= {one.id: _record(one, digest(one.skip), "skipped", why=one.skip) for one in left_out}
    return found | newest_records(machine.store, plan.run_id, (one for one in asked if not one.skip), note)


class _Work:
    """A cell whose needs are known."""

    def __init__(
        self,
        plan: Plan,
        cell: Cell,
        machine: Machine,
        note: Note,
        steps_of: StepsOf,
        needs: Mapping[str, Record],
    ) -> None:
        self.plan, self.cell, self.machine, self.note = plan, cell, machine, note
        self.steps_of, self.needs = steps_of, needs
        self.steps = steps_of(cell, plan, machine)
        self.inputs = inputs_digest(cell, plan, self.steps, needs, machine)
        self._said: set[str] = set()

    def do(self, *, patient: bool) -> Record:
        scope = f"{run_prefix(self.plan.run_id)}{self.cell.id}/"
        with claimed(self.machine.store, scope, self._ready, self.note, patient=patient) as there:
            if there is not None:
                make_current(self.machine.store, self.plan.run_id, there, self._say_once)
                return msgspec.structs.replace(there, why=TAKEN)
            return self._made()

    def _ready(self) -> Record | None:
        """The record of these inputs, if the store still has all that it names."""
        key = done_key(self.plan.run_id, self.cell.id, self.inputs)
        record = read_record(self.machine.store, key, self.cell.id, self._say_once)
        lost = lost_outputs(self.machine, record) if record is not None else []
        for line in lost:
            self._say_once(f"warning: {line}: {self.cell.id} is done again")
        return None if lost else record

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.note(text)

    def _made(self) -> Record:
        began = time.monotonic()
        done = [record for record in self.needs.values() if record.state == "done"]
        values = given(self.cell, self.plan, self.needs, self.machine, self.steps_of)
        fetched = get_outputs(self.machine, done, self.note)
        if fetched:
            self.note(f"fetched {fetched} files of earlier steps")
        try:
            value, summary, paths = self._run(values)
        except Interrupted:
            raise
        except LeftOut as nothing:
            left = _record(self.cell, self.inputs, "skipped", why=str(nothing))
            return write_record(self.machine.store, self.plan.run_id, left)
        except Exception as error:
            wall, why = time.monotonic() - began, shown_error(error)
            failed = _record(self.cell, self.inputs, "failed", why=why, wall_s=wall)
            try:
                write_record(self.machine.store, self.plan.run_id, failed)
            except RocwrightError as refused:
                # Why the step failed is what to tell, not that the store is full, too.
                self.note(f"warning: the failure of {self.cell.id} could not be recorded: {refused.what}")
            raise
        record = _record(
            self.cell, self.inputs, "done", value=value, summary=summary, wall_s=time.monotonic() - began
        )
        outputs = put_outputs(self.machine, paths, self.note)
        record = msgspec.structs.replace(record, outputs=outputs, wall_s=round(time.monotonic() - began, 2))
        # A record that is there and counts would have been taken; another machine's may have come since.
        lost = self._ready() is None
        stands = write_record(self.machine.store, self.plan.run_id, record, replace=lost)
        if stands != record:
            self.note(f"{stands.by} finished first: its result is kept")
        return stands

    def _run(self, values: Mapping[str, msgspec.Struct]) -> tuple[msgspec.Raw, str, Sequence[Path]]:
        """The steps of the cell, here; what is still as an earlier run left it is not done again."""
        without = self.cell.last or self.cell.spare
        graph = make_graph(_reachable(self.steps, values) if without else self.steps, given=values)
        state = self.machine.work / place_of(self.cell) / "state"
        own = graph[self.steps[-1].id]
        report = local.run(
            graph, state, jobs=self.machine.jobs, progress=_Told(self.note, own.id), given=values
        )
        done = next(one for one in report.steps if one.id == own.id)
        value = msgspec.json.decode(done.value, type=own.result)
        written = msgspec.json.encode(portable(msgspec.json.decode(done.value), self.machine))
        return msgspec.Raw(written), done.summary, tuple(own.outputs(value))


def _reachable(steps: Sequence[Step], values: Mapping[str, msgspec.Struct]) -> list[Step]:
    """Steps without those of their needs that gave no result."""
    there = {*values, *(step.id for step in steps)}
    return [
        msgspec.structs.replace(step, needs=tuple(need for need in step.needs if need in there))
        for step in steps
    ]


class _Told(Progress):
    """Passes what steps say on to whoever shows the cell."""

    def __init__(self, tell: Note, own: str) -> None:
        super().__init__(total=0, quiet=True)
        self._tell, self._own = tell, own

    def start(self, name: str) -> None:
        super().start(name)
        if name != self._own:
            self._tell(name)

    def note(self, name: str, text: str) -> None:
        self._tell(text if name == self._own else f"{name}: {text}")


def failed_record(cell: Cell, error: BaseException) -> Record:
    """That a cell failed, for those that need it in this process."""
    return _record(cell, digest(cell.id), "failed", why=shown_error(error))


def shown_error(error: BaseException) -> str:
    """An error's text without what is secret."""
    text = str(error) if isinstance(error, RocwrightError) else f"{type(error).__name__}: {error}"
    return hidden(text, secrets_in(os.environ))[:_WHY]


def _skipped(plan: Plan, cell: Cell, machine: Machine, why: str, *, dry: bool = False) -> Record:
    record = _record(cell, digest([cell.digest, why]), "skipped", why=why)
    return record if dry else write_record(machine.store, plan.run_id, record)


def _record(
    cell: Cell,
    inputs: str,
    state: State,
    *,
    value: msgspec.Raw = _NOTHING,
    summary: str = "",
    why: str = "",
    wall_s: float = 0.0,
) -> Record:
    return Record(
        schema=SCHEMA,
        cell=cell.id,
        inputs=inputs,
        state=state,
        value=value,
        outputs=(),
        summary=summary,
        wall_s=round(wall_s, 2),
        by=f"{platform.node()}, process {os.getpid()}",
        why=why,
    )


# -- what a cell would do and change, without doing it


def dry_record(
    plan: Plan, cell: Cell, machine: Machine, steps: Sequence[Step], needs: Mapping[str, Record]
) -> Record:
    """A record that goes nowhere: `summary` says what would be done, `why` why it was not."""
    why = "only shown (--dry-run)" if machine.dry_run else plan.publication.why
    inputs = _inputs(plan, cell, machine, steps, needs)
    known = bool(inputs) and machine.store.exists(done_key(plan.run_id, cell.id, inputs))
    return Record(
        schema=SCHEMA,
        cell=cell.id,
        inputs=inputs,
        state="dry",
        value=msgspec.Raw(b"null"),
        outputs=(),
        summary="nothing: its result is already there" if known else would(plan, cell, machine, steps),
        wall_s=0.0,
        by=f"{platform.node()}, process {os.getpid()}",
        why=why,
    )


def would(plan: Plan, cell: Cell, machine: Machine, steps: Sequence[Step]) -> str:
    """In a line: its steps, and what it would change outside of this machine."""
    line = f"would run {', '.join(step.id for step in steps)}"
    if cell.changes == "run":
        kind = "python" if cell.kind == "upload-rocm" else "pytorch"
        folder = run_folder(plan.run_id, cell.platform or "linux")
        line += f"; would upload to {machine.store.url(f'{folder}{kind}/{cell.group}/')}"
    elif cell.changes == "channel":
        channel = cell.settings.get("channel", "")
        allowed = plan.publication.channels
        line += f"; would list in the channel {channel}" if allowed else f"; not in the channel {channel}"
        line += "" if allowed else f" ({plan.publication.why})"
    return line


def _inputs(
    plan: Plan, cell: Cell, machine: Machine, steps: Sequence[Step], needs: Mapping[str, Record]
) -> str:
    """The digest of what decides the result, where that is known; else empty."""
    if not cell.last and any(id_ not in needs or needs[id_].state != "done" for id_ in cell.needs):
        return ""
    return inputs_digest(cell, plan, steps, needs, machine)
