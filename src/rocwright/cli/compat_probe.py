"""`rocwright compat probe`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.build_options import Place
from rocwright.cli.numbers import OptionalAmount
from rocwright.cli.show_probe import show_probe
from rocwright.compat.probe.page import html_page
from rocwright.compat.probe.run import DeviceChoice, probe, report_on, require_claims
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.probe import ProbeTable
from rocwright.system import console, files
from rocwright.system.interpreters import find_python


@answers
def compat_probe(
    *,
    python: Place = None,
    device: DeviceChoice = "auto",
    timeout: OptionalAmount = None,
    answers: Annotated[Path | None, Parameter(show_default=False)] = None,
    html: Path | None = None,
) -> Iterator[Answer]:
    """Try what an installed torch can do, and hold it against what is claimed: data types, libraries, flags.

    Each exercise runs beside torch in a process that may crash or hang, which costs its own row. On a torch
    that was not built for ROCm no ROCm library is claimed; its functions are tried all the same. Ends with 0
    when all that is claimed holds, 14 where something is less, 15 where torch cannot be imported.

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
        if python is not None or timeout is not None or device != "auto":
            raise UsageError(
                "--answers are of a run that is over; --python, --device and --timeout are for a new one",
                next_step="leave them out",
            )
        report = report_on(answers, table)
    else:
        interpreter = find_python(python, sys.executable)
        report = probe(interpreter, table, device=device, limit_s=timeout, note=console.say)
    if html is not None:
        files.write_text(html, html_page(report))
    yield Answer(report, lambda: show_probe(report))
    if html is not None:
        console.say(f"written: {html}")
    require_claims(report)
