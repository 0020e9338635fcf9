"""Code objects by themselves: the runtime loads each, finds every kernel in it and tells its attributes."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from rocwright.device_code.descriptors import DeviceKernel
from rocwright.emulator.drive import Driven, drive
from rocwright.emulator.gather import GatheredObject, gather_objects
from rocwright.emulator.session import emulated
from rocwright.emulator.values import Emulator, EmulatorTable, HipRuntime
from rocwright.model.emulated import Emulated

SCRIPT = Path(__file__).resolve().parent / "inside" / "rocwright_load.py"
SCHEMA = 1
# `other GPU`: for features that the emulated GPU has not; the runtime is right to refuse it.
ObjectState = Literal[
    "loads",
    "other GPU",
    "refused",
    "damaged",
    "kernel missing",
    "contradiction",
    "crashed",
    "hung",
    "failed",
    "not run",
]
GOOD: frozenset[ObjectState] = frozenset(("loads", "other GPU"))
_NAMED = 20


class LoadedObject(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One code object: `source` is its file, `kernel` and `index` what an archive calls it.

    `kernels` counts those that it holds; `bad` names some that are wrong, each with why, of `bad_count`.
    """

    source: str
    kernel: str
    target: str
    state: ObjectState
    index: int | None = None
    size: int = 0
    kernels: int = 0
    detail: str = ""
    bad: tuple[tuple[str, str], ...] = ()
    bad_count: int = 0

    @property
    def name(self) -> str:
        """As people see it: `lib/librocrand.so#3 (gfx942)`."""
        return f"{self.kernel}{'' if self.index is None else f'#{self.index}'} ({self.target})"


class LoadedCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All code objects for a target, loaded under an emulator.

    `absent` are split files without archives, `lacking` files and translation units (`NAME#WRAPPER`) with
    code for other targets only; a wheel may well be meant so. `unlike` says of archives that are not those
    that the files beside them name, why.

    Nothing is computed by them: that an object loads says that it is found, whole and for this target. Only
    the runtime sets some memory, so that the emulated GPU is seen to execute a kernel. `read_s` are processor
    seconds for taking the objects out of their files, `own_s` those of the runner beside the emulator.
    """

    schema: int
    emulated: Emulated
    objects: tuple[LoadedObject, ...]
    absent: tuple[str, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0
    own_s: float = 0.0
    starts: int = 0
    read_s: float = 0.0
    lacking: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()

    @property
    def bad(self) -> tuple[LoadedObject, ...]:
        """Those that speak against what was tested."""
        return tuple(one for one in self.objects if one.state not in GOOD)

    @property
    def passed(self) -> bool:
        """Whether every object loads, and there is one, and the GPU was seen to execute something."""
        loaded = any(one.state == "loads" for one in self.objects)
        wrong = self.bad or self.absent or self.unlike or self.problem
        return loaded and not wrong and self.emulated.dispatches > 0


def load_objects(
    paths: Sequence[Path],
    emulator: Emulator,
    target: str,
    runtime: HipRuntime,
    table: EmulatorTable,
    *,
    generic: Mapping[str, Iterable[str]],
    python: Path | None = None,
    log: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> LoadedCode:
    """Load every code object in files, directories and wheels that the target runs.

    `generic` maps generic targets to those that run their code. `python` is the interpreter that loads HIP's
    runtime (default: this one). Raises `InvalidInput` for a damaged file, and where nothing has code for the
    target; `UsageError` for a target without a configuration.
    """
    base = emulator.require(target)
    with tempfile.TemporaryDirectory(prefix="rocwright-kernels-") as folder:
        began = time.process_time()
        gathered = gather_objects(paths, base, generic, Path(folder))
        read_s = time.process_time() - began
        tasks = {str(number): one for number, one in enumerate(gathered.objects)}
        with emulated(emulator, base, runtime) as session:
            whole = {name: task for name, task in tasks.items() if not task.problem}
            scratch = Path(folder)
            _write_tasks(scratch / "tasks.json", runtime, whole)

            def command(rest: Sequence[str]) -> list[str]:
                (scratch / "names.json").write_bytes(msgspec.json.encode(list(rest)))
                program = python or Path(sys.executable)
                return [
                    str(program),
                    "-I",
                    str(SCRIPT),
                    *map(str, (scratch / "tasks.json", scratch / "names.json")),
                ]

            driven = drive(
                session,
                command,
                list(whole),
                start_s=table.limits.start_s,
                each_s=table.limits.object_s,
                most_lost=table.limits.lost_in_a_row,
                log=log,
                note=lambda name: note(whole[name].object.kernel),
            )
            record = msgspec.structs.replace(session.record(), dispatches=driven.dispatches)
    return LoadedCode(
        SCHEMA,
        record,
        tuple(_features_told([_judged(name, task, driven) for name, task in tasks.items()])),
        gathered.absent,
        driven.problem,
        driven.wall_s,
        driven.cpu_s,
        driven.own_s,
        driven.starts,
        read_s,
        gathered.lacking,
        gathered.unlike,
    )


def _write_tasks(path: Path, runtime: HipRuntime, tasks: Mapping[str, GatheredObject]) -> None:
    objects = {
        name: {"path": str(task.object.path), "kernels": [one.name for one in task.kernels]}
        for name, task in tasks.items()
    }
    path.write_bytes(msgspec.json.encode({"library": str(runtime.library), "objects": objects}))


class _Line(msgspec.Struct, frozen=True):
    """What the script prints of an object."""

    state: Literal["loads", "refused", "kernel missing"]
    detail: str = ""
    bad: tuple[tuple[str, str], ...] = ()
    bad_count: int = 0
    shared: dict[str, int] = {}


def _judged(name: str, task: GatheredObject, driven: Driven) -> LoadedObject:
    found = task.object

    def told(
        state: ObjectState, detail: str = "", bad: Sequence[tuple[str, str]] = (), count: int = 0
    ) -> LoadedObject:
        return LoadedObject(
            found.source,
            found.kernel,
            found.target,
            state,
            found.index,
            found.size,
            len(task.kernels),
            detail,
            tuple(bad[:_NAMED]),
            count or len(bad),
        )

    if task.problem:
        return told("damaged", task.problem)
    done = driven.done.get(name)
    if done is None:
        return told("not run", driven.problem)
    if done.lost is not None:
        return told(done.lost, done.said.strip().rpartition("\n")[2])
    try:
        line = msgspec.convert(dict[str, Any](done.line), _Line)
    except msgspec.ValidationError as error:
        return told("failed", f"its answer cannot be read: {error}")
    if line.state == "refused":
        return told("refused", line.detail)
    if line.bad:
        return told("kernel missing", line.bad[0][1], line.bad, line.bad_count)
    contradictions = list(_contradictions(task.kernels, line.shared))
    if contradictions:
        return told("contradiction", contradictions[0][1], contradictions)
    return told("loads")


def _features_told(objects: Sequence[LoadedObject]) -> Iterator[LoadedObject]:
    """With what is not for this GPU's features told apart: none of its kind loads, and another kind does.

    A damaged object gets the same error as one for other features, so that alone says nothing.
    """
    loads = {one.target for one in objects if one.state == "loads"}
    bases = {target.partition(":")[0] for target in loads}
    for one in objects:
        base, colon, _ = one.target.partition(":")
        unlike = colon and one.state == "refused" and one.target not in loads and base in bases
        yield msgspec.structs.replace(one, state="other GPU") if unlike else one


def _contradictions(kernels: Iterable[DeviceKernel], shared: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for kernel in kernels:
        if kernel.trouble:
            yield kernel.name, kernel.trouble
        elif kernel.metadata is not None and shared.get(kernel.name, 0) not in (0, kernel.metadata.lds):
            said = shared[kernel.name]
            yield kernel.name, f"the runtime says {said} bytes of LDS, the metadata {kernel.metadata.lds}"
