"""`rocwright compat probe`: what an installed torch can do, held against what is claimed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.emulate import EMULATE, Emulate, chosen, require_asked
from rocwright.cli.options import OptionalAmount, Place
from rocwright.cli.reply import Reply, replies
from rocwright.compat.probe.page import html_page, verdict
from rocwright.compat.probe.run import DeviceChoice, probe, report_on, require_claims
from rocwright.compat.probe.values import DtypeResult, Probe, ProbeTable
from rocwright.data import load_table
from rocwright.emulator.session import emulated
from rocwright.errors import UsageError
from rocwright.system import console, files
from rocwright.system.interpreters import find_python


@replies
def compat_probe(
    *,
    python: Place = None,
    device: DeviceChoice = "auto",
    timeout: OptionalAmount = None,
    answers: Annotated[Path | None, Parameter(show_default=False)] = None,
    html: Path | None = None,
    emulate: Emulate = EMULATE,
) -> Iterator[Reply]:
    """Try what an installed torch can do, and hold it against what is claimed: data types, libraries, flags.

    Exercises run in a process of their own: a crash or a hang costs only the row in which it happens. On a
    torch that was not built for ROCm no ROCm library is claimed; its functions are tried all the same. Ends
    with 0 when every claim holds, 14 when one does not, 15 when torch cannot be imported. With --emulate the
    GPU is one that an emulator plays, and the report says so.

    Parameters
    ----------
    python
        The interpreter, or the environment, that torch is installed in (default: the one that runs this).
    device
        What to compute on: a GPU where torch sees one (auto), a GPU or nothing (cuda; ROCm's, too), or cpu.
    timeout
        Seconds that one exercise may take (default: 120).
    answers
        Do not try anything: report on what rocwright_try.py wrote on another machine.
    html
        Write the report as a page to this file.
    json
        Print the report as JSON.
    """
    table = load_table("probe", ProbeTable)
    if answers is not None:
        if python is not None or timeout is not None or device != "auto" or emulate != EMULATE:
            raise UsageError(
                "--answers reports on a finished run; --python, --device, --timeout and --emulate are for a "
                "new one",
                next_step="leave them out",
            )
        report = report_on(answers, table)
    else:
        interpreter = find_python(python, sys.executable)
        report = _tried(interpreter, table, device, timeout, emulate)
    if html is not None:
        files.write_text(html, html_page(report))
    yield Reply(report, lambda: show_probe(report))
    if html is not None:
        console.say(f"written: {html}")
    require_claims(report)


def _tried(
    python: Path, table: ProbeTable, device: DeviceChoice, timeout: float | None, emulate: Emulate
) -> Probe:
    require_asked(emulate)
    if not emulate.emulate:
        return probe(python, table, device=device, limit_s=timeout, note=console.say)
    if device == "cpu" or len(emulate.emulator) > 1:
        raise UsageError(
            "--emulate tries the torch on one emulated GPU; another device contradicts that",
            next_step="leave --device out, and name one emulator",
        )
    (emulator,), runtime = chosen(emulate, python)
    with emulated(emulator, emulate.emulate, runtime) as session:
        return probe(python, table, device="cuda", limit_s=timeout, session=session, note=console.say)


def show_probe(report: Probe) -> None:
    """Four tables on stdout: data types, libraries, functions, flags."""
    where = report.environment
    on = ", ".join(f"{one.name} ({one.target})" for one in where.devices) or where.device
    console.out(f"torch {where.torch} ({where.kind}), Python {where.python}, on {on}")
    if where.device_problem:
        console.out(f"no GPU: {where.device_problem}")
    console.out(verdict(report)[1])
    console.out("")
    head = ("data type", "claimed", "found", "", "detail")
    rows = [(row.name, row.claim, *_found(row), row.detail or beyond(row.beyond)) for row in report.dtypes]
    console.table(f"Data types ({len(rows)})", head, rows)
    console.out("")
    libraries = [(row.name, row.claim, row.found, row.outcome, row.detail) for row in report.libraries]
    head = ("library", "claimed", "found", "", "detail")
    console.table(f"ROCm libraries ({len(libraries)})", head, libraries)
    console.out("")
    calls = [(row.name, row.found, f"{row.seconds:.1f} s", row.detail) for row in report.calls]
    console.table("Functions", ("functions", "found", "took", "detail"), calls, right=(2,))
    console.out("")
    flags = [
        (
            row.name.removeprefix("torch.backends."),
            row.value,
            row.found,
            row.detail or off(row.off),
            row.issue,
        )
        for row in report.flags
    ]
    console.table("Flags of known issues", ("flag", "value", "found", "", "known issue"), flags)
    if report.restarts:
        console.say(f"{report.restarts} processes were lost and replaced")


def _found(row: DtypeResult) -> tuple[str, str]:
    """What torch only keeps and converts works in part; that is as claimed where no more is claimed."""
    whole = not row.partly or row.claim == "limited"
    return ("in part" if row.partly else row.found), (row.outcome if whole else "")


def off(values: dict[str, str]) -> str:
    """How far the results of a flag's values are from double precision."""
    return "off by " + ", ".join(f"{one} ({value})" for value, one in values.items()) if values else ""


def beyond(steps: tuple[str, ...]) -> str:
    """What was tried besides and failed, by the names of the steps."""
    return f"not {', '.join(one.partition(':')[0] for one in steps)}" if steps else ""
