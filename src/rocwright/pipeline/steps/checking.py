"""Steps that hold the run's packages against the wheel contract."""

from __future__ import annotations

from typing import Any

import msgspec

from rocwright.check.report import Report
from rocwright.check.run import CheckRequest
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.pipeline.check_set import check_set
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.sources import family_projects
from rocwright.pipeline.steps.wheels import files_of_set
from rocwright.sdk.build import BuiltPackages
from rocwright.system import venv
from rocwright.system.files import remove_tree

# Whose change makes an old result of a check stale.
_CHECKING = ("check", "device_code", "wheel", "binary", "model", "data", "pipeline/check_set.py")


class Checked(msgspec.Struct, frozen=True):
    """Result of the wheel checks: how many files and rules, what was found, and the report's content."""

    files: int
    rules: int
    errors: int
    warnings: int
    findings: tuple[str, ...]
    report: dict[str, Any]


def check_rocm_step(options: RunOptions, needs: tuple[str, ...] = ("rocm-packages",)) -> Step:
    """`check-rocm`: the wheel contract over the ROCm packages, before anybody can install them."""

    def act(inputs: Inputs, note: Note) -> Checked:
        packages = inputs.get("rocm-packages", BuiltPackages)
        return _checked(
            check_set(CheckRequest(tuple(packages.paths), closed=True, jobs=options.jobs), note=note)
        )

    return Step(
        id="check-rocm", result=Checked, act=act, needs=needs, rooms=_CHECKING, summary=_check_summary
    )


def check_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`check`: the wheel contract over all packages of the run, as one set that pip and uv install."""
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> Checked:
        # Who only looks may do without one of them; what is published is proved with both.
        venv.pip_command()
        venv.uv_command()
        # What a killed run left there is as large as two environments.
        proof = workspace.root / "proof"
        remove_tree(proof)
        asked = CheckRequest(
            tuple(files_of_set(inputs)),
            targets=tuple(options.targets),
            closed=True,
            expect=family_projects(options),
            jobs=options.jobs,
        )
        report = check_set(asked, install=True, work_dir=proof, note=note, log=workspace.log("check"))
        remove_tree(proof)
        return _checked(report)

    return Step(
        id="check",
        result=Checked,
        act=act,
        needs=needs,
        rooms=(*_CHECKING, "store", "system/venv.py"),
        facts=lambda: {"targets": options.targets, "python": options.interpreter.full},
        summary=lambda value: f"{_check_summary(value)}; pip and uv install the set",
    )


def _checked(report: Report) -> Checked:
    """What a check found; raises `ContractBroken` for errors, so that no later step begins."""
    report.raise_for_errors()
    return Checked(
        files=len(report.files),
        rules=len(report.rules),
        errors=report.errors,
        warnings=report.warnings,
        findings=tuple(str(finding) for finding in report.findings),
        report=report.predicate(),
    )


def _check_summary(value: Checked) -> str:
    return f"{value.files} files, {value.rules} rules: {value.errors} errors, {value.warnings} warnings"
