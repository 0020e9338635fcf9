"""What an operator is: one way to put a fault into a good set, by chance, without knowing who looks for it.

Those of `blind` were written by somebody who had seen neither the checks nor the mutations, `operators_known`
by those who had. A sample is one to three operators in a row, and a seed decides all of it.
"""

from __future__ import annotations

import importlib
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from real.mutations_base import Workbench
from real.wheel_edit import WheelEdit, open_wheel

# Says what it did; None where this set has nothing that it could be done to.
Act = Callable[[Workbench, Random], "str | None"]
OPERATORS: dict[str, Act] = {}
_MODULES = (
    *(f"blind.{kind}" for kind in ("archive", "elf", "metadata", "python", "sets")),
    "operators_known",
)
_MOST, _TRIES = 3, 40
# After the operator before, what one means to change may not be there any more, or nobody can read it.
_SPOILT = (
    StopIteration,
    KeyError,
    AssertionError,
    IndexError,
    ValueError,
    zipfile.BadZipFile,
    struct.error,
    zlib.error,
    tarfile.TarError,
    subprocess.CalledProcessError,
    EOFError,
    RuntimeError,
)


def operator(act: Act) -> Act:
    """Enter a function as an operator, under its name."""
    assert act.__name__ not in OPERATORS, act.__name__
    OPERATORS[act.__name__] = act
    return act


def any_wheel(bench: Workbench, rng: Random) -> str:
    """A project whose file is a wheel; the large ones of ROCm are taken seldom."""
    names = sorted(name for name, path in bench.paths.items() if path.suffix == ".whl")
    small = [name for name in names if bench.paths[name].stat().st_size < 1 << 20]
    return rng.choice(small if small and rng.random() < 0.95 else names)


def members(wheel: WheelEdit, *, info: bool = False, ending: tuple[str, ...] = ("",)) -> list[str]:
    """Names of members with one of these endings; those of the dist-info directory only if asked."""
    return sorted(
        name
        for name in wheel.names()
        if name.endswith(ending) and not name.endswith("/") and (info or not name.startswith(wheel.info))
    )


def pick(rng: Random, names: list[str]) -> str | None:
    """One of these; None where there is none."""
    return rng.choice(names) if names else None


def operators() -> dict[str, Act]:
    """All of them by name."""
    for module in _MODULES:
        importlib.import_module(f"real.fault_generator.{module}")
    return dict(sorted(OPERATORS.items()))


@dataclass(frozen=True)
class Sample:
    """A seeded fault: the operators that made it, what each says that it did, and the files that came out."""

    seed: int
    operators: tuple[str, ...]
    told: tuple[str, ...]
    paths: dict[str, Path]


def make(good: dict[str, Path], scratch: Path, seed: int, material: dict[str, Path] | None = None) -> Sample:
    """Put a fault into a copy of the good set."""
    acts = operators()
    rng = Random(seed)
    bench = Workbench(dict(good), scratch, {}, dict(material or {}))
    used, told = [], []
    most = rng.choices(range(1, _MOST + 1), (6, 2, 1))[0]
    for _ in range(_TRIES):
        name = rng.choice(list(acts))
        said = None
        with suppress(*_SPOILT):
            said = acts[name](bench, rng)
        if said is not None:
            used.append(name)
            told.append(said)
        if len(used) == most:
            break
    return Sample(seed, tuple(used), tuple(told), bench.paths)


__all__ = [
    "OPERATORS",
    "Sample",
    "any_wheel",
    "make",
    "members",
    "open_wheel",
    "operator",
    "operators",
    "pick",
]
