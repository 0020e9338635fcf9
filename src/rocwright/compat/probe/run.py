"""Run the scripts beside torch in an environment, and take their answers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.binary.elf import is_elf, read_elf
from rocwright.binary.view import mapped
from rocwright.compat.probe.judge import judge
from rocwright.compat.probe.values import ANSWERS_SCHEMA, Answers, DeviceCode, HeldLibrary, Probe, ProbeTable
from rocwright.device_code.fatbin import targets
from rocwright.device_code.host import MARKER_SECTION
from rocwright.emulator.session import Session
from rocwright.errors import (
    ClaimFailed,
    CommandFailed,
    InvalidData,
    InvalidInput,
    MissingTool,
    NoGpu,
    TorchBroken,
    UsageError,
    see_who_may_read,
)
from rocwright.model.emulated import Emulated
from rocwright.system import process

SCRIPT = Path(__file__).resolve().parent / "inside" / "rocwright_try.py"
DeviceChoice = Literal["auto", "cuda", "cpu"]
# Beside the exercises, and for processes that are lost and started again.
_GRACE_S = 60.0


def probe(
    python: Path,
    table: ProbeTable,
    *,
    device: DeviceChoice = "auto",
    limit_s: float | None = None,
    session: Session | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Probe:
    """What the torch of `python` does, held against the table; every exercise may take `limit_s` seconds.

    In a `session` the GPU is one that an emulator plays. `note` is told how far it is. Raises `UsageError` (a
    limit that is none), `MissingTool` (no interpreter, no torch), `TorchBroken` (it cannot be imported),
    `NoGpu` (`cuda` was asked for and torch sees none).
    """
    if limit_s is not None and not 0 < limit_s < float("inf"):
        raise UsageError(f"an exercise cannot end within {limit_s:g} seconds", next_step="give more than 0")
    answers = ask(python, table, device=device, limit_s=limit_s, session=session, note=note)
    require_torch(answers, python)
    report = judge(answers, table, _held(answers, table))
    return report if session is None else msgspec.structs.replace(report, emulated=session.record())


def _held(answers: Answers, table: ProbeTable) -> tuple[HeldLibrary, ...]:
    """What lies in torch's directory; nothing where that is not to be found."""
    torch = answers.torch
    if torch is None or not torch.place or not Path(torch.place).parent.is_dir():
        return ()
    # Templates of ROCm are looked for where there can be some: that reads all of the files.
    rows = table.library if torch.hip else ()
    marks = {row.name: [mark.encode() for mark in row.marks] for row in rows if row.marks}
    return look(Path(torch.place).parent, marks)


def ask(
    python: Path,
    table: ProbeTable,
    *,
    device: DeviceChoice,
    limit_s: float | None,
    session: Session | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Answers:
    """Run the scripts; raises `MissingTool` where no answers came."""
    each = limit_s or table.limits.exercise_s
    count = len(table.dtype) + len(table.exercise) + len(table.flag)
    with tempfile.TemporaryDirectory(prefix="rocwright-probe-") as folder:
        claims, out = Path(folder) / "probe.json", Path(folder) / "answers.json"
        claims.write_bytes(msgspec.json.encode(table))
        note(f"trying {count} data types, functions and flags on the torch of {python}")
        words = [*map(str, (python.absolute(), SCRIPT, claims)), "--out", str(out)]
        words += ["--device", device, "--timeout", f"{each:g}"]
        ended = ""
        try:
            process.run(
                words if session is None else session.words(words),
                cwd=Path(folder),
                env=None if session is None else session.env,
                drop_env=() if session is None else session.drop_env,
                limit_s=2 * max(table.limits.start_s, each) + count * each + _GRACE_S,
                watch=lambda line: note(line) if line else None,
            )
        except CommandFailed as error:
            ended = error.what.partition(":")[0].removeprefix("command ")
            if error.tail:
                ended += f": {error.tail.splitlines()[-1]}"
        try:
            return read_answers(out)
        except InvalidData as error:
            raise MissingTool(
                f"{python} does not answer as a Python interpreter{f' ({ended})' if ended else ''}",
                next_step="give the python3 program of the environment that torch is installed in: --python",
            ) from error


def read_answers(path: Path) -> Answers:
    """Answers from their file; raises `InvalidData` for one that is absent, broken or of another version."""
    try:
        answers = msgspec.json.decode(path.read_bytes(), type=Answers)
    except OSError as error:
        raise InvalidData(
            f"{path} cannot be read: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
    except msgspec.DecodeError as error:
        raise InvalidData(
            f"{path} does not contain answers of rocwright_try.py: {error}",
            where=path,
            next_step="write it with --out of that script",
        ) from error
    if answers.schema != ANSWERS_SCHEMA:
        raise InvalidData(
            f"{path} is of version {answers.schema}; this tool reads version {ANSWERS_SCHEMA}",
            where=path,
            next_step="use the script that comes with this tool",
        )
    return answers


def require_torch(answers: Answers, python: Path | str) -> None:
    """Raises what stands in the way of a report: no torch, one that cannot be imported, no GPU."""
    imported = answers.imported
    if imported.state == "absent":
        raise MissingTool(
            f"{python} has no torch", next_step="give the environment that it is installed in: --python"
        )
    if imported.state != "ok" or answers.torch is None:
        words = {"crashed": "the import crashed", "hung": "the import hung"}
        why = ": ".join(filter(None, (words.get(imported.state, ""), imported.error)))
        # What it printed last, without where Python was: that does not fit in a line.
        printed = imported.output.partition("Fatal Python error")[0].splitlines() or [""]
        told = printed[-1].strip() if imported.state in words else ""
        raise TorchBroken(
            f"torch cannot be imported by {python}: {why or 'its process ended early'}"
            + (f" ({told})" if told else ""),
            next_step=f"see the whole traceback: {python} -c 'import torch'",
        )
    if answers.asked == "cuda" and not answers.device:
        torch = answers.torch
        raise NoGpu(
            f"torch {torch.version} ({torch.kind}) sees no GPU: {answers.device_problem or 'it lists none'}",
            next_step="probe it on the CPU (--device cpu), or on a machine with a GPU",
        )


# So many claims that do not hold are named in the error; the table above it has all.
_NAMED = 8


def require_claims(report: Probe) -> None:
    """Raises `ClaimFailed` where something is less than claimed, or an emulated GPU executed nothing."""
    if nothing_emulated(report):
        raise ClaimFailed(
            "no kernel was executed on the emulated GPU: nothing was shown on it",
            next_step="see whether the emulator works here: rocwright test calibrate",
        )
    if not report.failed:
        return
    count, more = len(report.failed), len(report.failed) - _NAMED
    named = ", ".join(report.failed[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    raise ClaimFailed(
        f"{count} {'claim does' if count == 1 else 'claims do'} not hold: {named}",
        next_step="see the rows above; --html writes a page with every step",
    )


def nothing_emulated(report: Probe) -> bool:
    """Whether the report is of an emulated GPU that executed no kernel."""
    return isinstance(report.emulated, Emulated) and not report.emulated.dispatches


def report_on(path: Path, table: ProbeTable) -> Probe:
    """The report on answers from another machine, whose torch cannot be looked at here; errors as `probe`."""
    answers = read_answers(path)
    require_torch(answers, answers.executable)
    return judge(answers, table)


# -- what a torch's own directory holds: libraries, what they need, which targets they have device code for


Marks = Mapping[str, Sequence[bytes]]
_NONE: Marks = {}


def look(package: Path, marks: Marks = _NONE) -> tuple[HeldLibrary, ...]:
    """The libraries of the installed package `torch` at this place, largest first.

    Reads headers only, but for `marks`: names of libraries, each with bytes that tell its templates, which
    are looked for in whole files. A file that cannot be read is told with its problem.
    """
    paths = {path for pattern in ("*.so*", "lib/*.so*") for path in package.glob(pattern) if is_elf(path)}
    found = [_look(path, path.relative_to(package).as_posix(), marks) for path in paths]
    return tuple(sorted(found, key=lambda one: (-one.size, one.file)))


def _look(path: Path, name: str, marks: Marks) -> HeldLibrary:
    try:
        size = path.stat().st_size
        elf = read_elf(path)
        code = tuple(sorted(targets(path)))
        with mapped(path) as file:
            seen = tuple(
                name for name, parts in marks.items() if any(file.data.find(part) >= 0 for part in parts)
            )
    except InvalidInput as error:
        return HeldLibrary(name, path.stat().st_size, problem=error.what)
    except OSError as error:
        return HeldLibrary(name, 0, problem=error.strerror or str(error))
    kind: DeviceCode = "inside" if code else "apart" if MARKER_SECTION in elf.sections else ""
    return HeldLibrary(name, size, needed=elf.needed, targets=code, device_code=kind, marks=seen)
