"""The table `probe`, what the scripts beside torch answer, and what claims and answers come to together."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from rocwright.model.emulated import Emulated

# Of what `rocwright_try.py` writes.
ANSWERS_SCHEMA = 1
# Of the JSON that `rocwright compat probe --json` prints.
SCHEMA = 1
# How what was found stands to what is claimed; `open`: this torch, or this machine, cannot show it.
Outcome = Literal["as claimed", "less", "more", "open", "not claimed"]
DtypeFound = Literal["works", "creates only", "fails", "crashes", "hangs", "not in this torch", "not run"]
LibraryFound = Literal[
    "works",
    "mapped",
    "compiled in",
    "fails",
    "not in this process",
    "not reached by torch",
    "not seen",
    "not a ROCm torch",
]
CallFound = Literal[
    "works", "fails", "crashes", "hangs", "not for this device", "not in this torch", "not run"
]
DeviceCode = Literal["", "inside", "apart"]
FlagFound = Literal["works", "no difference", "not settable", "not in this torch", "not compared", "fails"]


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
    memory: int


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


class DtypeResult(msgspec.Struct, frozen=True):
    """A data type: `detail` says which step failed and how, `beyond` what else it cannot do."""

    name: str
    also: tuple[str, ...]
    claim: str
    found: DtypeFound
    outcome: Outcome
    detail: str = ""
    beyond: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    seconds: float = 0.0

    @property
    def partly(self) -> bool:
        """Whether values of it can be kept and converted and torch cannot compute with them."""
        return self.found == "works" and any(one.startswith("elementwise:") for one in self.beyond)


class CallResult(msgspec.Struct, frozen=True):
    """A group of functions: whether all of them gave what they must, whichever library did it.

    `mapped` are the libraries that it brought into the process, `kernels` what ran on the GPU.
    """

    name: str
    calls: tuple[str, ...]
    found: Literal[
        "works", "fails", "crashes", "hangs", "not for this device", "not in this torch", "not run"
    ]
    detail: str = ""
    mapped: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    seconds: float = 0.0


class LibraryResult(msgspec.Struct, frozen=True):
    """One of ROCm's libraries: how torch is said to reach it, and what was seen of it.

    `files` are its files in the process, `needed_by` torch's own files that ask for it, `since` is `import`
    or the exercise that brought it in, `kernels` are kernels of its name.
    """

    name: str
    claim: str
    found: LibraryFound
    outcome: Outcome
    detail: str = ""
    exercises: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    needed_by: tuple[str, ...] = ()
    since: str = ""
    kernels: tuple[str, ...] = ()


class FlagResult(msgspec.Struct, frozen=True):
    """A flag of a known issue; `off` is how far the results are from double precision, by its value."""

    name: str
    issue: str
    found: FlagFound
    detail: str = ""
    value: str = ""
    off: dict[str, str] = {}


class HeldLibrary(msgspec.Struct, frozen=True):
    """A library of torch's own directory: what it needs, and the targets that it holds code for.

    `device_code` is `inside` (with `targets`), `apart` (split off into archives), or nothing; `problem` says
    why it could not be read. `size` in bytes; `marks` are libraries whose templates left their names in it.
    """

    file: str
    size: int
    needed: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    device_code: DeviceCode = ""
    marks: tuple[str, ...] = ()
    problem: str = ""


class ProbedEnvironment(msgspec.Struct, frozen=True):
    """Where it was probed, and with what."""

    python: str
    executable: str
    platform: str
    torch: str
    git_version: str
    kind: str
    hip: str
    cuda: str
    architectures: tuple[str, ...]
    device: str
    device_problem: str
    devices: tuple[ProbedDevice, ...]
    built_with: dict[str, str]
    config: str
    further_dtypes: tuple[str, ...]


class Probe(msgspec.Struct, frozen=True):
    """The whole report; `failed` names every row that is less than claimed.

    `emulated` is what played the GPU, where an emulator did; reports on GPUs do not have it.
    """

    schema: int
    environment: ProbedEnvironment
    dtypes: tuple[DtypeResult, ...]
    libraries: tuple[LibraryResult, ...]
    calls: tuple[CallResult, ...]
    flags: tuple[FlagResult, ...]
    held: tuple[HeldLibrary, ...]
    mapped: tuple[str, ...]
    failed: tuple[str, ...]
    restarts: int
    seconds: float
    lost: tuple[Exercised, ...] = ()
    emulated: Emulated | msgspec.UnsetType = msgspec.UNSET
