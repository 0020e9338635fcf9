"""`rocwright test calibrate` and `rocwright test kernels`: what runs where there is no GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.cli.emulate import EMULATE, Emulate, chosen
from rocwright.cli.gputest.options import OUTPUT, Output
from rocwright.cli.gputest.show import runs_reply
from rocwright.cli.options import Place
from rocwright.cli.reply import Reply, plain, replies
from rocwright.emulator.calibrate import Calibration
from rocwright.emulator.find import emulator_table
from rocwright.emulator.kept import calibrated
from rocwright.emulator.objects import LoadedCode, load_objects
from rocwright.emulator.report import View, disagreements, view_of_calibration, view_of_objects, write_report
from rocwright.emulator.values import Emulator, HipRuntime
from rocwright.errors import SuiteFailed, UsageError
from rocwright.pipeline.options import default_cache
from rocwright.system import console
from rocwright.system.files import make_directory
from rocwright.system.interpreters import find_python

# So many rows are printed; the page has more.
_LISTED = 50


def _chosen(emulate: Emulate, python: Path) -> tuple[Sequence[Emulator], HipRuntime]:
    """What the options name; raises for no target, one that no emulator can be, an emulator named twice."""
    if not emulate.emulate:
        raise UsageError("no GPU is named to emulate", next_step="add --emulate TARGET, such as gfx942")
    emulators, runtime = chosen(emulate, python)
    if len({one.library for one in emulators}) < len(emulators):
        raise UsageError("--emulator names the same emulator twice", next_step="name each once")
    return emulators, runtime


def _label(emulator: Emulator, emulators: Sequence[Emulator]) -> str:
    """What tells one emulator from the others in names of directories."""
    several = [one.name for one in emulators].count(emulator.name) > 1
    return f"{emulator.name}-{emulator.digest[:8]}" if several else emulator.name


@replies(within="output")
def gputest_calibrate(
    *operations: str,
    emulate: Emulate = EMULATE,
    python: Place = None,
    compiler: Place = None,
    fresh: Annotated[bool, Parameter(negative=())] = False,
    output: Output = OUTPUT,
) -> Iterator[Reply]:
    """Tell what an emulator of AMD GPUs is right about, by a program whose answers are known.

    The program is compiled for the target by the ROCm at hand and runs under the emulator, one operation
    after the other; one that hangs or crashes costs only itself. What an emulator is wrong about speaks
    against no wheel. Ends with 0 when it ran, whatever the answers are, with 1 when none of them is right.

    Parameters
    ----------
    operations
        Operations to try (default: all).
    python
        The interpreter, or the environment, whose ROCm is used (default: the one that runs this).
    compiler
        The hipcc to compile with (default: that of the runtime's prefix, or the one on PATH).
    fresh
        Ask again, though the same emulator, configuration and runtime were asked before.
    """
    table = emulator_table()
    emulators, runtime = _chosen(emulate, find_python(python, sys.executable))
    if output.dry_run:
        wanted = operations or [row.name for row in table.operation]
        yield _planned(emulate, emulators, runtime, {"operations": list(wanted)})
        return
    found: dict[str, Calibration] = {}
    for emulator in emulators:
        label = _label(emulator, emulators)
        found[label] = calibrated(
            emulator,
            emulate.emulate,
            runtime,
            table,
            os.environ,
            cache=default_cache() / "emulated",
            compiler=compiler,
            operations=operations,
            fresh=fresh,
            log=_directory(output, "calibrate", emulate, label) / "log.txt",
            note=console.detail,
            say=console.say,
        )
    views = {label: view_of_calibration(one, table) for label, one in found.items()}
    for label, one in found.items():
        write_report(_directory(output, "calibrate", emulate, label), views[label], one)
    states = {label: {one.name: one.state for one in found[label].answers} for label in found}
    yield _reply("calibrations", found, views, states)
    _end(output, views)


@replies(within="output")
def gputest_kernels(
    *paths: Path, emulate: Emulate = EMULATE, python: Place = None, output: Output = OUTPUT
) -> Iterator[Reply]:
    """Load every code object of wheels and libraries for a target, where there is no GPU.

    HIP's runtime loads each one under an emulator, finds every kernel in it and tells its attributes: a code
    object that is missing, damaged, of another target, or at odds with itself is found. No kernel is
    launched, so nothing is said of its numbers. Split libraries are followed to their archives. Ends with 1
    when an object does not load.

    Parameters
    ----------
    paths
        Wheels, libraries, archives, code objects, and directories with them.
    python
        The interpreter, or the environment, whose ROCm is used (default: the one that runs this).
    """
    if not paths:
        raise UsageError("no file is named", next_step="name wheels, libraries or directories")
    table = emulator_table()
    interpreter = find_python(python, sys.executable)
    emulators, runtime = _chosen(emulate, interpreter)
    if output.dry_run:
        yield _planned(emulate, emulators, runtime, {"files": [str(path) for path in paths]})
        return
    found: dict[str, LoadedCode] = {}
    for emulator in emulators:
        label = _label(emulator, emulators)
        found[label] = load_objects(
            paths,
            emulator,
            emulate.emulate,
            runtime,
            table,
            generic=output.generic(),
            python=interpreter,
            log=_directory(output, "kernels", emulate, label) / "log.txt",
            note=console.detail,
        )
    views = {label: view_of_objects(one) for label, one in found.items()}
    for label, one in found.items():
        write_report(_directory(output, "kernels", emulate, label), views[label], one)
    states = {
        label: {f"{one.source}: {one.name}": one.state for one in found[label].objects} for label in found
    }
    yield _reply("loaded", found, views, states)
    _end(output, views)


def _planned(
    emulate: Emulate, emulators: Sequence[Emulator], runtime: HipRuntime, more: Mapping[str, object]
) -> Reply:
    return runs_reply(
        [
            {
                "target": emulate.emulate,
                "emulator": str(one.library),
                "configuration": str(one.configurations[one.require(emulate.emulate)] or ""),
                "runtime": str(runtime.library),
                **more,
            }
            for one in emulators
        ]
    )


def _directory(output: Output, verb: str, emulate: Emulate, label: str) -> Path:
    place = output.reports / f"{verb}-{emulate.emulate}-{label}"
    make_directory(place)
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


def _end(output: Output, views: Mapping[str, View]) -> None:
    """Raise `SuiteFailed` where something did not pass."""
    console.say(f"records, pages and logs: {output.reports_dir}")
    for view in views.values():
        if not view.good:
            raise SuiteFailed(
                f"{view.title}: {view.says[0].lower()}{view.says[1:]}",
                where=output.reports_dir,
                next_step="see its log.txt and index.html there",
            )
