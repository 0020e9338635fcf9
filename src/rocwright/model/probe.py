"""The table `probe`, and what the scripts beside torch answer: exercises and what torch says of itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

# Of what `rocwright_try.py` writes.
ANSWERS_SCHEMA = 1


class ProbeLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds: one exercise; importing torch and asking for GPUs."""

    exercise_s: Annotated[float, msgspec.Meta(gt=0)]
    start_s: Annotated[float, msgspec.Meta(gt=0)]


class KindRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of data types, and the steps that one of them needs in order to work."""

    name: Literal["float", "float8", "complex", "integer", "limited", "bool", "quantized", "quantized4"]
    needs: tuple[str, ...]


class DtypeRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data type by its name in torch; `also` are further names of the same one.

    `claim` is `limited` where the claim is for torch.compile alone.
    """

    name: str
    kind: str
    also: tuple[str, ...] = ()
    claim: Literal["supported", "limited"] = "supported"


class ExerciseRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of functions that reach the same library: its name in the script, and what it calls."""

    name: str
    calls: tuple[str, ...]


class LibraryClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of ROCm's libraries, and how torch gets at it.

    `stems` are names of its files without `lib` and `.so`; `kernels` parts of the names of its kernels, where
    those tell it; `marks` parts of mangled names that its templates leave in a library. `exercises` reach it.
    A library with `optional` is not in every torch, and that says why.
    """

    name: str
    reached: Literal["linked", "compiled in", "no"]
    stems: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    optional: str = ""
    note: str = ""


class FlagRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A flag that a known issue names; `dtype` is what is computed with either value."""

    name: str
    dtype: str
    issue: str


class ProbeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    limits: ProbeLimits
    kind: tuple[KindRow, ...]
    dtype: tuple[DtypeRow, ...]
    exercise: tuple[ExerciseRow, ...]
    library: tuple[LibraryClaim, ...]
    flag: tuple[FlagRow, ...]

    def __post_init__(self) -> None:
        # As ValueErrors they become messages that name the file.
        kinds = {kind.name for kind in self.kind}
        known = {exercise.name for exercise in self.exercise}
        for row in self.dtype:
            if row.kind not in kinds:
                raise ValueError(f"the data type {row.name} is of a kind {row.kind!r} that has no row")
        for library in self.library:
            for name in library.exercises:
                if name not in known:
                    raise ValueError(f"{library.name} names an exercise {name!r} that has no row")


class Step(msgspec.Struct, frozen=True):
    """One step of an exercise; `value` is what was recorded of it."""

    name: str
    state: Literal["ok", "failed", "skipped"] = "ok"
    error: str = ""
    value: Any = None


class Exercised(msgspec.Struct, frozen=True):
    """What came of an exercise.

    `done` says that it came to its end, whatever its steps showed; `step` is where one that was lost stood.
    `mapped` are the libraries (paths) that were first mapped into the process by it; `output` is the end of
    what a lost process printed.
    """

    id: str
    state: Literal["done", "absent", "failed", "crashed", "hung", "not run"]
    steps: tuple[Step, ...] = ()
    step: str = ""
    error: str = ""
    output: str = ""
    seconds: float = 0.0
    mapped: tuple[str, ...] = ()

    @property
    def lost(self) -> bool:
        """Whether its process was, in a step that belongs to it: the profiler's does not."""
        return self.state in ("crashed", "hung") and self.step != "kernels"

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of kernels that the profiler saw."""
        found = next((one.value for one in self.steps if one.name == "kernels" and one.state == "ok"), None)
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def own(self) -> tuple[Step, ...]:
        """Its steps without the profiler's."""
        return tuple(one for one in self.steps if one.name != "kernels")


class Imported(msgspec.Struct, frozen=True):
    """Whether torch could be imported, and what was said instead."""

    state: Literal["ok", "absent", "failed", "crashed", "hung", "not run"]
    error: str = ""
    output: str = ""


class ProbedDevice(msgspec.Struct, frozen=True):
    """A GPU as torch sees it; `memory` in bytes, `target` with its features."""

    index: int
    name: str
    target: str
    memory: int = 0


class TorchAbout(msgspec.Struct, frozen=True):
    """What torch says of itself; `architectures` are the targets that it was built for."""

    version: str
    git_version: str = ""
    hip: str = ""
    cuda: str = ""
    debug: bool = False
    architectures: tuple[str, ...] = ()
    config: str = ""
    place: str = ""
    dtypes: tuple[str, ...] = ()
    built_with: dict[str, str] = {}
    devices: tuple[ProbedDevice, ...] = ()

    @property
    def kind(self) -> str:
        """What it computes with, in words."""
        return f"ROCm {self.hip}" if self.hip else f"CUDA {self.cuda}" if self.cuda else "CPU only"


class Answers(msgspec.Struct, frozen=True):
    """What the scripts wrote.

    `mapped` are the libraries (paths) in the process after importing torch; `device_problem` is what torch
    said instead of a list of GPUs; `restarts` counts lost processes, `seconds` is the wall time of all of it.
    """

    schema: int
    python: str
    executable: str
    platform: str
    asked: str
    imported: Imported = msgspec.field(name="import")
    torch: TorchAbout | None = None
    device: str = ""
    device_problem: str = ""
    mapped: tuple[str, ...] = ()
    exercises: tuple[Exercised, ...] = ()
    restarts: int = 0
    complete: bool = False
    seconds: float = 0.0
