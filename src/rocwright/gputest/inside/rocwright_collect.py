"""A pytest plugin that writes down what was collected, and ends the process: `--collect-only -p …`.

`ROCWRIGHT_COLLECTED` names the JSON file: `ids` relative to the `ROCWRIGHT_TESTS_ROOT`, and `broken`, a
message for each file that could not be collected. `ROCWRIGHT_COLLECT_S` is the time that it may take.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path

import pytest
from rocwright_skips import relative

_broken: dict[str, str] = {}


def pytest_configure() -> None:
    """Watch the time from below the interpreter: an import may hang with its lock held."""
    faulthandler.dump_traceback_later(float(os.environ["ROCWRIGHT_COLLECT_S"]), exit=True)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that cannot be collected, by its last line of talk."""
    if report.failed:
        lines = [line for line in report.longreprtext.splitlines() if line.strip()]
        _broken[report.nodeid] = lines[-1].strip() if lines else "no reason given"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the file; whole or not at all."""
    root = os.path.realpath(os.environ["ROCWRIGHT_TESTS_ROOT"])
    ids = [f"{relative(item.path, root)}::{item.nodeid.partition('::')[2]}" for item in session.items]
    path = Path(os.environ["ROCWRIGHT_COLLECTED"])
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps({"ids": ids, "broken": _broken}), encoding="utf-8")
    partial.replace(path)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """End here: threads and drivers that torch started may keep a process for ever."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if Path(os.environ["ROCWRIGHT_COLLECTED"]).exists() else 3)
