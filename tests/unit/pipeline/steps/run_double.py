"""A double of what a run builds and tests: one small wheel called torch, and tests that end as told.

What decides and what publishes - stage, gate, promote, summary - are the real steps.
"""

from __future__ import annotations

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.gputest.smoke import Verdicts
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.records import Machine
from rocwright.pipeline.steps.gpu import GpuTested, SuiteRun
from rocwright.pipeline.steps.of_cell import steps_of as real_steps_of
from rocwright.pipeline.steps.publish import Checked, UploadedRun
from rocwright.pipeline.steps.sources import LockedSources
from rocwright.pipeline.steps.testing import Tested
from rocwright.sdk.build import BuiltPackages
from rocwright.sources.lock import SourceLock
from rocwright.store.runs.upload import upload_run
from wheels import ANY, write_wheel

WHEEL = "torch-2.9.0-py3-none-any.whl"
_REAL = ("stage", "gate", "promote", "summary")
_READ = (BuiltPackages, LockedSources, Checked, UploadedRun, Tested, GpuTested)
GOOD = Verdicts(5, 0, 2, (), ("test_host_x.py: no AMD GPU",))


class Built(msgspec.Struct, frozen=True):
    """Stands for results that nobody here reads."""

    kind: str


class RunDouble:
    """Gives the steps of cells; `broken` kinds raise, `verdicts` are what a kind of tests saw."""

    def __init__(self) -> None:
        self.broken: dict[str, Exception] = {}
        self.verdicts: dict[str, Verdicts] = {}
        self.done: list[str] = []

    def steps_of(self, cell: Cell, plan: Plan, machine: Machine) -> list[Step]:
        """As `rocwright.pipeline.steps.of_cell.steps_of`."""
        real = real_steps_of(cell, plan, machine)
        if cell.kind in _REAL:
            return [real[-1]]

        def act(inputs: Inputs, note: Note) -> msgspec.Struct:
            self.done.append(cell.id)
            if cell.kind in self.broken:
                raise self.broken[cell.kind]
            return self._result(cell, plan, machine, inputs, real[-1].result)

        own = real[-1]
        given = {step.id for step in real}
        needs = tuple(need for need in own.needs if need not in given)
        kind = own.result if own.result in _READ else Built
        return [Step(cell.kind, kind, act, needs=needs, facts=lambda: str(self.verdicts.get(cell.kind)))]

    def _result(
        self, cell: Cell, plan: Plan, machine: Machine, inputs: Inputs, kind: type[msgspec.Struct]
    ) -> msgspec.Struct:
        verdicts = self.verdicts.get(cell.kind, GOOD)
        if kind is BuiltPackages:
            return BuiltPackages("7.1", "legacy", cell.group, ("gfx90a",), "", (), 0, ())
        if kind is LockedSources:
            return LockedSources("", SourceLock(1, "linux", ()))
        if kind is Checked:
            return Checked(1, 1, 0, 0, (), {"passed": True, "files": [WHEEL]})
        if kind is UploadedRun and cell.kind == "upload-pytorch":
            wheel = write_wheel(machine.work, "torch", "2.9.0", {"torch.py": ""}, tag=ANY)
            done = upload_run(machine.store, [wheel], plan.run_id, "linux", cell.group, "pytorch")
            return UploadedRun(done.prefix, done.url, {entry.name: entry.sha256 for entry in done.files})
        if kind is UploadedRun:
            return UploadedRun("", "", {})
        files = inputs.get("upload-pytorch", UploadedRun).files if kind in (Tested, GpuTested) else {}
        if kind is Tested:
            return Tested(cell.kind, {"torch": "2.9.0"}, 1.0, (), Verdicts(2, 0, 0), verdicts, files)
        if kind is GpuTested:
            return GpuTested("fam", {}, "", (SuiteRun("smoke-gpu", "gfx90a", verdicts, True),), files)
        return Built(cell.kind)
