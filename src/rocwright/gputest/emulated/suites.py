"""What is tested on an emulated GPU where there is no torch: ROCm's own device test, and operators.

ROCm's packages test themselves (`rocm-sdk test --device`); onnxruntime's operators are compared with those of
its own CPU provider, each as a model of one node that is written here, without onnx.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.data import load_table
from rocwright.emulator.drive import Done, Driven, drive
from rocwright.emulator.session import Session, emulated
from rocwright.errors import CommandFailed, InvalidInput
from rocwright.gputest.emulated.played import Played
from rocwright.gputest.environment import inside_directory
from rocwright.gputest.record import write_record, writing_alone
from rocwright.gputest.smoke import rocm_sdk_checks
from rocwright.model.testing import CaseResult, Ran, RunRecord, Verdict
from rocwright.system import process

ROCM_SUITE, OPERATORS_SUITE = "rocm-sdk", "operators"
_ASK = (
    "import importlib.util, json, os, platform, sys\n"
    "def place(name):\n"
    "    try: return list(importlib.util.find_spec(name).submodule_search_locations)[0]\n"
    "    except Exception: return ''\n"
    "capi = os.path.join(place('onnxruntime'), 'capi')\n"
    "there = any(os.path.exists(os.path.join(capi, name)) for name in sys.argv[1:])\n"
    "print(json.dumps({'python': platform.python_version(), 'torch': bool(place('torch')),\n"
    "                  'rocm_sdk': bool(place('rocm_sdk')), 'onnxruntime': there}))"
)
_ASK_S = 60.0
_VERDICTS: dict[str, Verdict] = {
    "right": "passed",
    "wrong": "failed",
    "refused": "error",
    "absent": "skipped",
}


class Testable(msgspec.Struct, frozen=True):
    """What there is to test in an environment; `onnxruntime` is one with a provider for AMD GPUs."""

    python: str
    torch: bool
    rocm_sdk: bool
    onnxruntime: bool


class OperatorInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An input of an operator: `shape`, the type of its numbers, and the range that they lie in.

    With `values` it is a constant of the model.
    """

    shape: tuple[int, ...]
    type: Literal["float32", "float16", "int64"] = "float32"
    low: float = -2.0
    high: float = 2.0
    values: tuple[float, ...] = ()


class OperatorRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operator of ONNX as a model of one node; `name` tells rows of one operator apart.

    A number is right within `relative` of the CPU's, and of the largest of its numbers times a thousandth
    of that.
    """

    operator: str
    input: tuple[OperatorInput, ...]
    name: str = ""
    attribute: dict[str, int | float | str | list[int]] = {}
    relative: float = 1e-3
    output: Literal["", "float32", "float16", "int64"] = ""


class OperatorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/operators.toml`: versions of the form, providers of GPUs, operators."""

    opset: int
    ir_version: int
    providers: tuple[str, ...]
    libraries: tuple[str, ...]
    start_s: float
    each_s: float
    operator: tuple[OperatorRow, ...]


def installed_in(python: Path) -> Testable:
    """What an interpreter has; raises `InvalidInput` where it does not answer."""
    libraries = load_table("operators", OperatorTable).libraries
    try:
        with tempfile.TemporaryDirectory(prefix="rocwright-ask-") as folder:
            # Not the caller's directory, which may hold a torch of its own.
            said = process.run([python, "-c", _ASK, *libraries], cwd=Path(folder), limit_s=_ASK_S).stdout
        return msgspec.json.decode(said, type=Testable)
    except (CommandFailed, msgspec.DecodeError) as error:
        raise InvalidInput(
            f"{python} does not answer as a Python interpreter",
            next_step="give the python3 program of an environment with ROCm's packages: --python",
        ) from error


def test_rocm(
    played: Played, python: Path, version: str, reports: Path, *, limit_s: float, config: str = "default"
) -> RunRecord:
    """`rocm-sdk test --device` of an environment on the emulated GPU, recorded below `reports`."""

    def run(session: Session, log: Path) -> tuple[tuple[CaseResult, ...], float]:
        words = session.words([python, "-m", "rocm_sdk", "test", "--device", "--json"])
        try:
            done = process.run(
                words, env=session.env, drop_env=session.drop_env, log=log, limit_s=limit_s, ok=(0, 1, 3)
            )
        except CommandFailed as error:
            last = error.tail.strip().rpartition("\n")[2]
            return (CaseResult("rocm-sdk::test", "error", message=f"{error.what}: {last}"),), 0.0
        checks = rocm_sdk_checks(done.stdout, where=str(log))
        cases = [CaseResult(f"rocm-sdk::{id_}", verdict, message=cause) for id_, verdict, cause in checks]
        return tuple(cases), done.wall_s

    return _recorded(played, Ran(ROCM_SUITE, config, python=version), reports, run)


def test_operators(
    played: Played, python: Path, version: str, reports: Path, *, config: str = "default"
) -> RunRecord:
    """Each operator of the table on the emulated GPU against the CPU, recorded below `reports`."""
    table = load_table("operators", OperatorTable)
    rows = {row.name or row.operator: row for row in table.operator}

    def run(session: Session, log: Path) -> tuple[tuple[CaseResult, ...], float]:
        with tempfile.TemporaryDirectory(prefix="rocwright-operators-") as folder:
            driven = drive_operators(session, python, Path(folder), table, rows, log)
        return tuple(operator_case(name, driven) for name in rows), driven.wall_s

    return _recorded(played, Ran(OPERATORS_SUITE, config, python=version), reports, run)


def drive_operators(
    session: Session,
    python: Path,
    folder: Path,
    table: OperatorTable,
    rows: dict[str, OperatorRow],
    log: Path,
) -> Driven:
    """Let one process after the other try operators; what ends one costs the operator that it was at."""
    tasks = folder / "tasks.json"
    tasks.write_bytes(msgspec.json.encode(task_of(table, rows)))

    def command(rest: Sequence[str]) -> list[str | os.PathLike[str]]:
        names = folder / "names.json"
        names.write_bytes(msgspec.json.encode(list(rest)))
        return [python, inside_directory() / "rocwright_operators.py", tasks, names]

    return drive(
        session, command, list(rows), start_s=table.start_s, each_s=table.each_s, most_lost=len(rows), log=log
    )


def task_of(table: OperatorTable, rows: dict[str, OperatorRow]) -> dict[str, Any]:
    """What the script is told: plain values."""
    return {
        "opset": table.opset,
        "ir_version": table.ir_version,
        "providers": table.providers,
        "operators": {name: msgspec.to_builtins(row) for name, row in rows.items()},
    }


def operator_case(name: str, driven: Driven) -> CaseResult:
    """What came of an operator, as the result of a test."""
    id_ = f"onnxruntime::{name}"
    done = driven.done.get(name)
    if done is None:
        return CaseResult(id_, "error", message=f"was not tried: {driven.problem}")
    if done.lost is not None:
        last = done.said.strip().rpartition("\n")[2]
        # Its own lines say only what it was at.
        words = "" if last.startswith("{") else f": {last}"
        lost: dict[str, Verdict] = {"crashed": "crashed", "hung": "hung"}
        return CaseResult(id_, lost.get(done.lost, "error"), message=f"its process {done.lost}{words}")
    # A program that emulates tells its kernels when all is over.
    executed = driven.dispatches if done.dispatches is None else done.dispatches
    return _told(id_, done, executed)


def _told(id_: str, done: Done, executed: int) -> CaseResult:
    state, detail = str(done.line.get("state")), str(done.line.get("detail", ""))
    seconds = done.line.get("seconds", 0.0)
    verdict = _VERDICTS.get(state, "error")
    if verdict == "passed" and not executed:
        verdict, detail = "error", "it is right, and no kernel was executed for it"
    return CaseResult(id_, verdict, float(seconds), "" if verdict == "passed" else detail or state)


def _recorded(
    played: Played,
    ran: Ran,
    reports: Path,
    run: Callable[[Session, Path], tuple[tuple[CaseResult, ...], float]],
) -> RunRecord:
    ran = msgspec.structs.replace(ran, target=played.target, rocm=played.runtime.version, device="emulated")
    directory = reports / ran.key
    with writing_alone(directory):
        log = directory / "logs" / "run.log"
        with emulated(played.emulator, played.target, played.runtime) as session:
            results, seconds = run(session, log)
            record = session.record()
        found = RunRecord(
            ran,
            played.weighed(results, record),
            seconds=round(seconds, 3),
            notes=played.notes,
            emulation=record,
        )
        write_record(found, directory)
    return found
