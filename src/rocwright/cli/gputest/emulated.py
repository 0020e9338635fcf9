"""`rocwright test calibrate` and `rocwright test kernels`: what runs where there is no GPU."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from cyclopts import Group, Parameter

from rocwright.cli.options import Place, Repeated, Text
from rocwright.cli.reply import Json, Reply, plain, replies
from rocwright.data.overlay import read_overlay
from rocwright.emulator.calibrate import (
    Calibration,
    cache_key,
    cached,
    calibrate,
    compile_calibration,
    find_compiler,
    keep,
)
from rocwright.emulator.find import emulator_table, find_emulator, find_runtime
from rocwright.emulator.objects import LoadedCode, load_objects
from rocwright.emulator.report import View, disagreements, view_of_calibration, view_of_objects, write_report
from rocwright.emulator.values import Emulator, HipRuntime
from rocwright.errors import SuiteFailed, UsageError
from rocwright.gputest.skips.entries import generic_targets
from rocwright.pipeline.options import default_cache
from rocwright.system import console
from rocwright.system.files import sha256_file
from rocwright.system.interpreters import find_python

# So many rows are printed; the page has more.
_LISTED = 50
_EMULATED = Group.create_ordered("Emulated GPU")


@Parameter(name="*", group=_EMULATED)
@dataclass(frozen=True)
class EmulatedGpu:
    """The GPU that is emulated, and what emulates it."""

    emulate: Text
    """The GPU target to emulate: gfx942."""

    emulator: Repeated = ()
    """An emulator: its prefix, its library, or a program that speaks the protocol (default: the one that is
    installed); several are compared."""

    rocm: Place = None
    """The prefix or library of HIP's runtime (default: that of the environment, ROCM_PATH, /opt/rocm)."""

    python: Place = None
    """The interpreter, or the environment, whose ROCm is used (default: the one that runs this)."""

    reports_dir: Path = Path("test-reports")
    """Where records, pages and logs go."""

    json: Json = False
    """Print the result as JSON."""


class _Chosen(NamedTuple):
    emulators: tuple[Emulator, ...]
    runtime: HipRuntime
    python: Path


def _chosen(gpu: EmulatedGpu) -> _Chosen:
    """What the options name; raises for a target that one of the emulators has no configuration for."""
    python = find_python(gpu.python, sys.executable)
    choices: tuple[str | None, ...] = gpu.emulator or (None,)
    emulators = tuple(find_emulator(choice, os.environ, python) for choice in choices)
    for one in emulators:
        one.require(gpu.emulate)
    if len({one.library for one in emulators}) < len(emulators):
        raise UsageError("--emulator names the same emulator twice", next_step="name each once")
    runtime = find_runtime(gpu.rocm, os.environ, python)
    for one in emulators:
        console.say(f"{one.name} {one.version or one.digest[:12]} ({one.found}): {one.library}")
    console.say(f"HIP's runtime {runtime.version}: {runtime.library}")
    return _Chosen(emulators, runtime, python)


def _label(emulator: Emulator, emulators: tuple[Emulator, ...]) -> str:
    """What tells one emulator from the others in names of directories."""
    several = [one.name for one in emulators].count(emulator.name) > 1
    return f"{emulator.name}-{emulator.digest[:8]}" if several else emulator.name


@replies(within="gpu")
def gputest_calibrate(
    *operations: str,
    gpu: EmulatedGpu,
    compiler: Place = None,
    fresh: Annotated[bool, Parameter(negative=())] = False,
) -> Iterator[Reply]:
    """Tell what an emulator of AMD GPUs is right about, by a program whose answers are known.

    The program is compiled for the target by the ROCm at hand and runs under the emulator, one operation
    after the other; one that hangs or crashes costs only itself. What an emulator is wrong about speaks
    against no wheel. Ends with 0 when it ran, whatever the answers are, with 1 when no kernel was executed.

    Parameters
    ----------
    operations
        Operations to try (default: all).
    compiler
        The hipcc to compile with (default: that of the runtime's prefix, or the one on PATH).
    fresh
        Ask again, though the same emulator, configuration and runtime were asked before.
    """
    table = emulator_table()
    chosen = _chosen(gpu)
    found: dict[str, Calibration] = {}
    place = default_cache() / "emulated"
    for emulator in chosen.emulators:
        label = _label(emulator, chosen.emulators)
        configuration = emulator.configurations[emulator.require(gpu.emulate)]
        digest = "" if configuration is None else sha256_file(configuration)
        key = cache_key(emulator, gpu.emulate, chosen.runtime, digest)
        known = None if fresh or operations or compiler is not None else cached(place, key)
        if known is not None:
            console.say(f"calibrated before: {place / key}.json; --fresh asks again")
            found[label] = known
            continue
        with tempfile.TemporaryDirectory(prefix="rocwright-calibration-") as folder:
            log = _directory(gpu, "calibrate", label) / "log.txt"
            hipcc = find_compiler(compiler, chosen.runtime, os.environ)
            console.say(f"compiling the calibration for {gpu.emulate}: {hipcc}")
            program = Path(folder) / "calibration"
            command = compile_calibration(hipcc, gpu.emulate, program, log=log)
            one = calibrate(
                emulator,
                gpu.emulate,
                chosen.runtime,
                program,
                table,
                operations=operations,
                log=log,
                note=console.detail,
            )
        found[label] = msgspec.structs.replace(one, compiler=command)
        if not operations:
            keep(place, key, found[label])
    views = {label: view_of_calibration(one, table) for label, one in found.items()}
    for label, one in found.items():
        write_report(_directory(gpu, "calibrate", label), views[label], one)
    states = {label: {one.name: one.state for one in found[label].answers} for label in found}
    yield _reply("calibrations", found, views, states)
    _end(gpu, views)


@replies(within="gpu")
def gputest_kernels(*paths: Path, gpu: EmulatedGpu) -> Iterator[Reply]:
    """Load every code object of wheels and libraries for a target, where there is no GPU.

    HIP's runtime loads each one under an emulator, finds every kernel in it and tells its attributes: a code
    object that is missing, damaged, of another target, or at odds with itself is found. No kernel is
    launched, so nothing is said of its numbers. Split libraries are followed to their archives. Ends with 1
    when an object does not load.

    Parameters
    ----------
    paths
        Wheels, libraries, archives, and directories with them.
    """
    if not paths:
        raise UsageError("no file is named", next_step="name wheels, libraries or directories")
    table = emulator_table()
    chosen = _chosen(gpu)
    generic = generic_targets(read_overlay())
    found: dict[str, LoadedCode] = {}
    for emulator in chosen.emulators:
        label = _label(emulator, chosen.emulators)
        found[label] = load_objects(
            paths,
            emulator,
            gpu.emulate,
            chosen.runtime,
            table,
            generic=generic,
            python=chosen.python,
            log=_directory(gpu, "kernels", label) / "log.txt",
            note=console.detail,
        )
    views = {label: view_of_objects(one) for label, one in found.items()}
    for label, one in found.items():
        write_report(_directory(gpu, "kernels", label), views[label], one)
    states = {
        label: {f"{one.source}: {one.name}": one.state for one in found[label].objects} for label in found
    }
    yield _reply("loaded", found, views, states)
    _end(gpu, views)


def _directory(gpu: EmulatedGpu, verb: str, label: str) -> Path:
    place = Path(os.path.abspath(gpu.reports_dir)) / f"{verb}-{gpu.emulate}-{label}"  # noqa: PTH100
    place.mkdir(parents=True, exist_ok=True)
    return place


def _reply(
    name: str,
    found: Mapping[str, Calibration | LoadedCode],
    views: Mapping[str, View],
    states: Mapping[str, Mapping[str, str]],
) -> Reply:
    apart = disagreements(states)
    value = {
        name: {label: msgspec.to_builtins(one) for label, one in found.items()},
        "disagreements": [{"name": thing, "states": told} for thing, told in apart],
    }
    return Reply(value, _printer(views, apart))


def _printer(views: Mapping[str, View], apart: tuple[tuple[str, dict[str, str]], ...]) -> Callable[[], None]:
    def show() -> None:
        for view in views.values():
            rows = [
                ("–" if row.good is None else "✓" if row.good else "✗", *map(plain, row.cells))
                for row in view.rows
                if not (view.brief and (row.good or row.cells[2] == "not run"))
            ]
            if len(rows) > _LISTED:
                console.say(f"{len(rows) - _LISTED} more rows stand in index.html")
            if rows:
                console.table(view.title, ("", *view.head), rows[:_LISTED])
            console.out(plain(view.says))
            for text in view.notes:
                console.say(f"note: {plain(text)}")
        for thing, told in apart:
            states = ", ".join(f"{state} under {label}" for label, state in told.items())
            console.out(plain(f"they disagree about {thing}: {states}"))

    return show


def _end(gpu: EmulatedGpu, views: Mapping[str, View]) -> None:
    """Raise `SuiteFailed` where something did not pass."""
    console.say(f"records, pages and logs: {gpu.reports_dir}")
    for view in views.values():
        if not view.good:
            raise SuiteFailed(
                f"{view.title}: {view.says[0].lower()}{view.says[1:]}",
                where=gpu.reports_dir,
                next_step="see its log.txt and index.html there",
            )
