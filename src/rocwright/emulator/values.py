"""The table of emulators: how each is found and started, and what its results are worth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from rocwright.errors import UsageError
from rocwright.model.gpu import in_order, parse_target

_Seconds = Annotated[float, msgspec.Meta(gt=0)]


class EmulatorLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds: until the emulated GPU is there, one operation of the calibration, one code object.

    After `lost_in_a_row` processes that were lost one behind the other no further one is started.
    """

    start_s: _Seconds
    operation_s: _Seconds
    object_s: _Seconds
    lost_in_a_row: Annotated[int, msgspec.Meta(ge=1)]


class RuntimeRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where HIP's runtime is looked for: a pattern of its file, directories below a prefix, packages."""

    library: str
    directories: tuple[str, ...]
    packages: tuple[str, ...]
    system: tuple[str, ...]


class EmulatorRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An emulator that is preloaded: its file, its configurations, what it wants, how its log reads.

    `dispatch` is a pattern of the line that says that a kernel was handed to the GPU.
    """

    name: str
    library: str
    directories: tuple[str, ...]
    configurations: tuple[str, ...]
    patterns: tuple[str, ...]
    packages: tuple[str, ...]
    set: dict[str, str]
    write: dict[str, str]
    log: str
    dispatch: str
    version: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # As ValueErrors they become messages that name the file.
        for pattern in (*self.patterns, self.dispatch):
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise ValueError(f"the emulator {self.name} has a pattern {pattern!r}: {error}") from error
            if pattern != self.dispatch and "target" not in compiled.groupindex:
                raise ValueError(f"the pattern {pattern!r} of the emulator {self.name} names no target")


class OperationRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An operation of the calibration, and what it takes of the instruction set."""

    name: str
    what: str


class RestsRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns over names in small letters, and the operations that what they fit rests on."""

    names: tuple[str, ...]
    on: tuple[str, ...]


class EmulatorTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    variable: str
    prefixes: tuple[str, ...]
    prefix_variables: tuple[str, ...]
    limits: EmulatorLimits
    runtime: RuntimeRow
    emulator: tuple[EmulatorRow, ...]
    verdict: dict[Literal["right", "refused", "wrong", "unsure", "uncalibrated"], str]
    operation: tuple[OperationRow, ...]
    rests: tuple[RestsRow, ...]

    def __post_init__(self) -> None:
        known = {row.name for row in self.operation}
        for row in self.rests:
            if strange := [name for name in row.on if name not in known]:
                raise ValueError(f"a row of what rests names the operation {strange[0]!r}, which has no row")


class Emulator(msgspec.Struct, frozen=True):
    """An emulator that was found: `library` is preloaded, or (`row` is None) a program that runs commands.

    `configurations` maps targets to files; a program's are its own, and its paths are None. `found` says how
    it was found. `digest` is the sha256 of `library`.
    """

    name: str
    version: str
    library: Path
    configurations: Mapping[str, Path | None]
    found: str
    digest: str
    row: EmulatorRow | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that it can be, in the hardware's order."""
        return in_order(self.configurations)

    def require(self, target: str) -> str:
        """The base name of a target that it can be; raises `UsageError` naming those that it can."""
        base = parse_target(target).base
        if base not in self.configurations:
            able = ", ".join(self.targets) or "none"
            raise UsageError(
                f"{self.name} has no configuration for {base}; it has some for {able}",
                where=self.library,
                next_step="name one of these targets, or another emulator: --emulator",
            )
        return base


class HipRuntime(msgspec.Struct, frozen=True):
    """HIP's runtime: its library, its version as the file's name says it, and where the loader has to look.

    `directories` are for LD_LIBRARY_PATH; empty where the loader finds it, or what loads it, by itself.
    """

    library: Path
    version: str
    directories: tuple[Path, ...] = ()
