"""The GPU detector that ships in the `rocm` package, called from here: one detector, not two."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import msgspec

from rocwright.errors import InvalidInput
from rocwright.system.files import shipped_directory

KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


class Gpu(msgspec.Struct, frozen=True):
    """An AMD GPU as the kernel driver lists it."""

    index: int
    node: int
    target: str


class Detected(msgspec.Struct, frozen=True):
    """All GPUs that could be read, and a sentence for each node that could not."""

    gpus: tuple[Gpu, ...]
    problems: tuple[str, ...]


@cache
def _module() -> ModuleType:
    path = shipped_directory("runtime") / "rocm" / "src" / "rocm_sdk" / "_detect.py"
    spec = importlib.util.spec_from_file_location("rocwright_runtime_detect", path)
    if spec is None or spec.loader is None:
        raise InvalidInput("the GPU detector cannot be loaded", where=path, next_step="reinstall rocwright")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def detect(nodes: Path = KFD_NODES) -> Detected:
    """The GPUs of this machine; empty without an AMD GPU or its kernel driver."""
    gpus, problems = _module().scan(str(nodes))
    return Detected(tuple(Gpu(gpu["index"], gpu["node"], gpu["target"]) for gpu in gpus), tuple(problems))
