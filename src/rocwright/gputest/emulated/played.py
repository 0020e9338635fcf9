"""An emulator that plays a target, with what it is known to be wrong about; what results under it say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from rocwright.emulator.calibrate import Calibration
from rocwright.emulator.find import emulator_table
from rocwright.emulator.kept import calibrated
from rocwright.emulator.values import Emulator, EmulatorTable, HipRuntime
from rocwright.emulator.verdicts import Judgement, Shown, judge
from rocwright.errors import InvalidInput, MissingTool
from rocwright.model.emulated import Emulated
from rocwright.model.testing import CaseResult

Say = Callable[[str], None]
# Its name among the results of a run, where it stands for all of them.
NO_DISPATCH = "emulator::dispatch"


class Played(msgspec.Struct, frozen=True):
    """A target that an emulator plays above a HIP runtime.

    `calibration` is what it is known to be right and wrong about; without one `why` says why there is none,
    and then a test that fails has failed.
    """

    emulator: Emulator
    target: str
    runtime: HipRuntime
    table: EmulatorTable
    calibration: Calibration | None = None
    why: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a record says of the calibration."""
        if self.calibration is None:
            return (f"the emulator was not calibrated: {self.why}; a test that fails counts as failed",)
        wrong = self.calibration.wrong
        count = len(self.calibration.answers)
        told = f"calibration: {count - len(wrong)} of {count} operations right"
        return (told + (f"; wrong here: {', '.join(wrong)}" if wrong else ""),)

    def says(self, case: CaseResult) -> Judgement:
        """What a result says; names of tests tell what they rest on."""
        shown: Shown = (
            "refused" if case.verdict in ("crashed", "hung", "error") else "wrong" if case.bad else "right"
        )
        return judge(case.id.partition("::")[2] or case.id, shown, self.calibration, self.table)

    def weighed(self, results: Iterable[CaseResult], record: Emulated) -> tuple[CaseResult, ...]:
        """The results as they count.

        What fails where the emulator is known to be wrong is skipped: it is neither a pass nor a failure. A
        run in which no kernel was executed has an error more, whatever its tests said.
        """
        found = tuple(map(self._weighed, results))
        if record.dispatches:
            return found
        why = f"no kernel was executed on the emulated {record.target}: nothing was tested on it"
        return (*found, CaseResult(NO_DISPATCH, "error", message=why))

    def _weighed(self, case: CaseResult) -> CaseResult:
        if not case.bad:
            return case
        judged = self.says(case)
        detail = f"{judged.says}\n{case.detail}".strip()
        if judged.verdict != "unsure" or self.calibration is None:
            return msgspec.structs.replace(case, detail=detail)
        because = f"the emulator is wrong about {', '.join(judged.because)}"
        message = f"{because}, on which this rests ({case.verdict}): {case.message}"
        return msgspec.structs.replace(case, verdict="skipped", message=message, detail=detail)


def played(
    emulator: Emulator,
    target: str,
    runtime: HipRuntime,
    environ: Mapping[str, str],
    *,
    cache: Path,
    log: Path,
    compiler: Path | None = None,
    note: Say = lambda _: None,
) -> Played:
    """Calibrate the emulator for the target, or take the calibration that is kept in `cache`.

    Without a compiler, or where it cannot build the program, there is none. Raises `UsageError` for a target
    without a configuration.
    """
    table = emulator_table()
    base = emulator.require(target)
    try:
        found = calibrated(
            emulator, base, runtime, table, environ, cache=cache, compiler=compiler, log=log, say=note
        )
    except (MissingTool, InvalidInput) as error:
        return Played(emulator, base, runtime, table, why=error.what)
    if not found.usable:
        nothing = "it is right about nothing" if found.executed else "it executed no kernel"
        return Played(emulator, base, runtime, table, why=found.problem or nothing)
    return Played(emulator, base, runtime, table, found)
