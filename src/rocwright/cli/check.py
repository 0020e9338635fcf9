"""`rocwright check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.check.run import check_paths
from rocwright.errors import ContractBroken, UsageError
from rocwright.model.gpu import parse_targets
from rocwright.system import console


def check(
    *paths: Path,
    targets: str | None = None,
    closed: bool = False,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Check wheels, or directories of wheels, against the wheel contract; offline.

    Exit code 0 when no error was found, 9 otherwise.

    Parameters
    ----------
    paths
        Wheels and sdists, or directories that hold them.
    targets
        GPU targets that torch and its extensions must hold code for, separated by commas.
    closed
        The files are a complete set: every exact pin must resolve inside it.
    json
        Print the result as JSON.
    """
    if not paths:
        raise UsageError(
            "nothing to check", next_step="give wheels or directories: rocwright check dist/*.whl"
        )
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist")
    wanted = [str(target) for target in parse_targets(targets)] if targets else None
    report = check_paths(paths, targets=wanted, closed=closed)
    if json:
        console.out_json(report)
    else:
        for finding in report.findings:
            console.out(str(finding))
        found = f"{report.errors} errors, {report.warnings} warnings"
        console.out(f"{len(report.files)} files, {len(report.rules)} rules: {found}")
    if not report.passed:
        raise ContractBroken(f"{report.errors} errors", next_step="resolve the findings above")
