"""`rocwright test smoke --emulate`: torch's smoke tests, or ROCm's own, on a GPU that an emulator plays."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence

import msgspec

from rocwright.cli.emulate import Emulate, chosen, require_asked
from rocwright.cli.gputest.options import Gpus, Output
from rocwright.cli.gputest.show import end, records_reply, runs_reply
from rocwright.cli.options import Place
from rocwright.cli.reply import Reply
from rocwright.emulator.values import Emulator
from rocwright.errors import MissingTool, UsageError
from rocwright.gputest.emulated.differ import told_apart
from rocwright.gputest.emulated.played import Played, played
from rocwright.gputest.emulated.preload import require_no_preload
from rocwright.gputest.emulated.smoke import test_torch
from rocwright.gputest.emulated.suites import Testable, installed_in, test_operators, test_rocm
from rocwright.gputest.smoke import SmokeSetting, smoke_tests
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import RunRecord
from rocwright.pipeline.options import default_cache
from rocwright.system import console
from rocwright.system.interpreters import find_python


def require_alone(emulate: Emulate, gpus: Gpus) -> None:
    """Raise `UsageError` for options that belong to GPUs, or to an emulated one that nobody asked for."""
    require_asked(emulate)
    if emulate.emulate and gpus != Gpus():
        raise UsageError(
            "--emulate tests on an emulated GPU alone; options that choose GPUs contradict it",
            next_step="leave out --cpu, --amdgpu-family (and AMDGPU_FAMILY), --device-query, --gpu-policy",
        )


def smoke_emulated(
    emulate: Emulate,
    setting: SmokeSetting,
    table: SuiteTable,
    output: Output,
    python: Place,
    compiler: Place,
) -> Iterator[Reply]:
    """Test what the interpreter's environment has: torch, or else ROCm's packages and onnxruntime.

    `setting` is that of a run on a GPU, without what torch says. Raises `MissingTool` where there is nothing
    to test, no emulator or no HIP runtime; `UsageError` for a target without a configuration, and for options
    of pytest where there is no torch; `SuiteFailed`.
    """
    require_no_preload(os.environ)
    interpreter = find_python(python, sys.executable)
    has = installed_in(interpreter)
    if not (has.torch or has.rocm_sdk or has.onnxruntime):
        raise MissingTool(
            f"nothing to test: {interpreter} has no torch, no ROCm packages and no onnxruntime for ROCm",
            next_step="name the environment that has them: --python",
        )
    if setting.pytest_args and not has.torch:
        raise UsageError(
            f"{shlex.join(setting.pytest_args)} is for pytest, which runs torch's tests: {interpreter} has "
            "no torch, and nothing limits ROCm's own test or the operators of onnxruntime",
            next_step="leave out what stands behind `--`, or name an environment with torch: --python",
        )
    emulators, runtime = chosen(emulate, interpreter)
    setting = msgspec.structs.replace(setting, python=interpreter)
    if output.dry_run:
        yield runs_reply([_shown(emulate, one, has, setting, table, output) for one in emulators])
        return
    records: list[RunRecord] = []
    for number, one in enumerate(emulators):
        played_ = played(
            one,
            emulate.emulate,
            runtime,
            os.environ,
            cache=default_cache() / "emulated",
            log=output.reports / "calibration.log",
            compiler=compiler,
            note=console.say,
        )
        for text in played_.notes:
            console.say(text)
        config = "default" if len(emulators) == 1 else f"emulator{number + 1}"
        records += _tested(played_, has, setting, table, output, config)
    if len(emulators) > 1:
        for text in told_apart(records):
            console.say(text)
    yield records_reply(records, output.reports_dir)
    end(records, output.reports_dir)


def _tested(
    played_: Played, has: Testable, setting: SmokeSetting, table: SuiteTable, output: Output, config: str
) -> list[RunRecord]:
    if has.torch:
        return test_torch(
            played_,
            smoke_tests(),
            msgspec.structs.replace(setting, config=config),
            table,
            output.families(),
            output.generic(),
            say=console.say,
        )
    records: list[RunRecord] = []
    if has.rocm_sdk:
        console.say(f"rocm-sdk test --device on the emulated {played_.target}")
        limit_s = table.limits.collect_s
        record = test_rocm(
            played_, setting.python, has.python, output.reports, limit_s=limit_s, config=config
        )
        records.append(record)
    if has.onnxruntime:
        console.say(f"operators of onnxruntime on the emulated {played_.target}")
        records.append(test_operators(played_, setting.python, has.python, output.reports, config=config))
    else:
        console.say("operators: left out, as no onnxruntime for ROCm is installed there")
    return records


def _shown(
    emulate: Emulate,
    emulator: Emulator,
    has: Testable,
    setting: SmokeSetting,
    table: SuiteTable,
    output: Output,
) -> dict[str, object]:
    """What would run; nothing is calibrated and torch is not asked."""
    suites: Sequence[str] = (
        ["smoke-gpu"]
        if has.torch
        else [
            *(["rocm-sdk"] if has.rocm_sdk else []),
            *(["operators"] if has.onnxruntime else []),
        ]
    )
    configuration = emulator.configurations[emulator.require(emulate.emulate)]
    return {
        "emulated": emulate.emulate,
        "emulator": f"{emulator.name} {emulator.version}".rstrip(),
        "library": shlex.quote(str(emulator.library)),
        "configuration": "" if configuration is None else str(configuration),
        "python": str(setting.python),
        "suites": list(suites),
        "limit of one test": setting.test_s,
        "record": str(output.reports),
    }
