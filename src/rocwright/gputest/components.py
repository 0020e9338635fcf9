"""ROCm's own tests, where an installation holds some: by ctest, with the label of the level.

ROCm's parts install their tests below `bin/`, each with a list for ctest; packages for users leave them out.
What is not there is said, part by part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from rocwright.errors import CommandFailed
from rocwright.gputest.report.junit import read_junit
from rocwright.model.gpu import expand
from rocwright.model.platforms import Platform
from rocwright.model.suites import ComponentRow, SuiteTable
from rocwright.model.testing import CaseResult
from rocwright.system.venv import Environment

# Brings ctest into an environment.
CTEST = "cmake==4.1.2"
_LIST = "CTestTestfile.cmake"


class Components(msgspec.Struct, frozen=True):
    """The parts with tests below `bin`, those without, and those that the machine or platform is not for."""

    there: tuple[ComponentRow, ...]
    absent: tuple[ComponentRow, ...]
    unfit: tuple[str, ...]


def find_components(
    bin_directory: Path,
    table: SuiteTable,
    *,
    platform: Platform,
    family: str,
    families: dict[str, tuple[str, ...]],
    gpus: int,
    names: Sequence[str] = (),
) -> Components:
    """Which parts an installation can test on this machine; of `names` alone where some are given."""
    there, absent, unfit = [], [], []
    targets = set(expand([family], families)) if family else set()
    for row in table.component:
        if names and row.name not in names:
            continue
        if platform not in row.platforms:
            unfit.append(f"{row.title} is not tested on {platform}")
        elif row.excluded and targets and targets <= set(expand(row.excluded, families)):
            unfit.append(f"{row.title} is not for {family}")
        elif row.gpus == "several" and gpus < 2:
            unfit.append(f"{row.title} needs several GPUs")
        elif (bin_directory / row.directory / _LIST).is_file():
            there.append(row)
        else:
            absent.append(row)
    return Components(tuple(there), tuple(absent), tuple(unfit))


def run_component(
    environment: Environment, bin_directory: Path, row: ComponentRow, level: str, reports: Path, *, log: Path
) -> tuple[tuple[CaseResult, ...], bool]:
    """The tests of a part that carry the level's label: what came of them, and whether there is a report.

    No test of that label is a run without a pass.
    """
    reports.mkdir(parents=True, exist_ok=True)
    report = reports / f"{row.name}.xml"
    report.unlink(missing_ok=True)
    words = [str(environment.bin / "ctest"), "--test-dir", str(bin_directory / row.directory)]
    words += ["--label-regex", f"^{level}$", "--output-on-failure", "--output-junit", str(report)]
    why = "ctest left no report"
    try:
        environment.run(words, env={"ROCM_PATH": str(bin_directory.parent)}, log=log, ok=tuple(range(256)))
    except CommandFailed as error:
        # By a signal: whatever it had written is no report of the whole.
        report.unlink(missing_ok=True)
        why = error.what
    if not report.is_file():
        return (CaseResult(row.name, "error", message=why),), False
    return read_junit(report), True
