"""What a probe comes to: claims against what was found, as values that are printed, written and paged."""

from __future__ import annotations

from typing import Literal

import msgspec

from rocwright.model.probe import Exercised, ProbedDevice, Step

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
    """The whole report; `failed` names every row that is less than claimed."""

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
