"""Which GPUs an environment lets a program see, and how its variable names them.

HIP reads HIP_VISIBLE_DEVICES and, where that is not set, CUDA_VISIBLE_DEVICES; both choose among what
ROCR_VISIBLE_DEVICES left. Each entry is an index or a UUID; the first that is neither ends the list.
An empty value hides every GPU, as the documents of both vendors say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Variable = Literal["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"]
HIP: Variable = "HIP_VISIBLE_DEVICES"
CUDA: Variable = "CUDA_VISIBLE_DEVICES"
ROCR = "ROCR_VISIBLE_DEVICES"

_HIP_ENTRY = re.compile(r"[0-9]+|GPU-[0-9a-f]+", re.IGNORECASE)
_CUDA_ENTRY = re.compile(r"[0-9]+|(?:GPU|MIG)-[0-9a-f/-]+", re.IGNORECASE)


@dataclass(frozen=True)
class Visible:
    """What was chosen before: `entries` in order, None for all; `said` is the variable that chose.

    `variable` is the one to choose among these with. `notes` are sentences about what is odd.
    """

    variable: Variable
    entries: tuple[str, ...] | None
    said: str = ""
    notes: tuple[str, ...] = ()


def read_visible(environ: Mapping[str, str], *, hip: bool) -> Visible:
    """What the variables of an environment choose for a ROCm program (`hip`) or a CUDA program."""
    variable = HIP if hip else CUDA
    notes: list[str] = []
    if hip and ROCR in environ:
        if not environ[ROCR].strip():
            return Visible(variable, (), ROCR, (f"{ROCR} is set and empty: no GPU is visible",))
        notes.append(f"{ROCR}={environ[ROCR]} chooses first; other variables count among what it leaves")
    said = _speaking(environ, hip=hip)
    if hip and HIP in environ and CUDA in environ and environ[HIP] != environ[CUDA]:
        notes.append(f"{HIP}={environ[HIP]} is taken; {CUDA}={environ[CUDA]} is not given to the tests")
    if said is None:
        return Visible(variable, None, "", tuple(notes))
    entries = _entries(environ[said], said, notes, hip=hip)
    return Visible(variable, entries, said, tuple(notes))


def _speaking(environ: Mapping[str, str], *, hip: bool) -> Variable | None:
    for variable in (HIP, CUDA) if hip else (CUDA,):
        if variable in environ:
            return variable
    return None


def _entries(value: str, said: str, notes: list[str], *, hip: bool) -> tuple[str, ...]:
    if not value.strip():
        notes.append(f"{said} is set and empty: no GPU is visible")
        return ()
    found: list[str] = []
    for word in (part.strip() for part in value.split(",")):
        if not (_HIP_ENTRY if hip else _CUDA_ENTRY).fullmatch(word):
            notes.append(f"{said}={value}: {word!r} is no index and no UUID, which ends the list")
            break
        if word in found:
            notes.append(f"{said}={value}: {word} stands there twice")
            continue
        found.append(word)
    return tuple(found)


def unwanted(environ: Mapping[str, str], variable: Variable) -> tuple[str, ...]:
    """Variables that would speak beside the one that tests get: HIP reads CUDA_VISIBLE_DEVICES, too."""
    return tuple(name for name in (HIP, CUDA) if name != variable and name in environ)
