"""The calibration of an emulator: the one that is kept, or a new one, compiled with the ROCm at hand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.emulator.calibrate import (
    Calibration,
    cache_key,
    cached,
    calibrate,
    compile_calibration,
    find_compiler,
    keep,
)
from rocwright.emulator.values import Emulator, EmulatorTable, HipRuntime
from rocwright.system.files import sha256_file


def calibrated(
    emulator: Emulator,
    target: str,
    runtime: HipRuntime,
    table: EmulatorTable,
    environ: Mapping[str, str],
    *,
    cache: Path,
    compiler: Path | None = None,
    operations: Sequence[str] = (),
    fresh: bool = False,
    log: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """What an emulator is right about as `target`; kept in `cache` unless it is of some `operations` only.

    With `fresh`, and where a compiler or operations are named, it is asked again. `say` is told where it is
    from, `note` each operation that is done. Raises `MissingTool` without a compiler, `InvalidInput` where
    that does not build the program, `UsageError` for a target without a configuration, an unknown operation.
    """
    base = emulator.require(target)
    configuration = emulator.configurations[base]
    digest = "" if configuration is None else sha256_file(configuration)
    key = cache_key(emulator, base, runtime, digest)
    known = None if fresh or operations or compiler is not None else cached(cache, key)
    if known is not None:
        say(f"calibrated before: {cache / key}.json")
        return known
    with tempfile.TemporaryDirectory(prefix="rocwright-calibration-") as folder:
        hipcc = find_compiler(compiler, runtime, environ)
        say(f"calibrating {emulator.name} for {base}, compiled by {hipcc}")
        program = Path(folder) / "calibration"
        command = compile_calibration(hipcc, base, program, log=log)
        found = calibrate(emulator, base, runtime, program, table, operations=operations, log=log, note=note)
    found = msgspec.structs.replace(found, compiler=command)
    if not operations:
        keep(cache, key, found)
    return found
