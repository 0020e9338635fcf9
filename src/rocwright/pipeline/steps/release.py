"""Steps from built wheels to a release: check, upload, stage, promote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from rocwright.build.run.project import BuiltWheel
from rocwright.check.report import Report
from rocwright.check.run import Asked
from rocwright.gputest.smoke import TestedEnvironment
from rocwright.model.manifest import SetManifest, new_set, set_id
from rocwright.model.statement import BUILD, FINDINGS, WAIVER, Statement, about_set
from rocwright.pipeline.check_set import check_set
from rocwright.pipeline.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.sources import LockedSources
from rocwright.pipeline.steps.testing import (
    StagedSet,
    demo_policy,
    pinned_requirements,
    tested_statements,
)
from rocwright.sdk.build import BuiltPackages
from rocwright.store.describe import describe_files
from rocwright.store.gate import Decision, decide
from rocwright.store.layout import Kind, run_prefix
from rocwright.store.objects import LocalStore
from rocwright.store.promote import promote
from rocwright.store.publish import stage_set, upload_run
from rocwright.store.records import read_statements
from rocwright.system import venv
from rocwright.system.files import remove_tree


class UploadedRun(msgspec.Struct, frozen=True):
    """Packages of a run in the store: prefix, the page for --find-links, digests by file name."""

    prefix: str
    find_links: str
    files: dict[str, str]


class Checked(msgspec.Struct, frozen=True):
    """Result of the wheel checks: how many files and rules, what was found, and the report's content."""

    files: int
    rules: int
    errors: int
    warnings: int
    findings: tuple[str, ...]
    report: dict[str, Any]


class Released(msgspec.Struct, frozen=True):
    """A promoted set: where it is served from, its keys in the store, the decision, how to install it."""

    set_id: str
    index_url: str
    files: tuple[str, ...]
    decision: Decision
    requirements: tuple[str, ...]
    pip_line: str
    uv_line: str


def upload_rocm_step(options: RunOptions) -> Step:
    """`upload-rocm`: the checked ROCm packages into `{run_id}-{platform}/python/{family}/`."""

    def act(inputs: Inputs, note: Note) -> UploadedRun:
        packages = inputs.get("rocm-packages", BuiltPackages)
        return _upload(options, packages.paths, packages.family, "python")

    return _upload_step("upload-rocm", act, options, needs=("rocm-packages", "check-rocm"))


def upload_torch_step(options: RunOptions, projects: Sequence[str]) -> Step:
    """`upload-pytorch`: the checked wheels into `{run_id}-{platform}/pytorch/{family}/`."""

    def act(inputs: Inputs, note: Note) -> UploadedRun:
        packages = inputs.get("rocm-packages", BuiltPackages)
        wheels = [Path(wheel.path) for wheel in _wheels(inputs, projects)]
        return _upload(options, wheels, packages.family, "pytorch")

    builds = tuple(f"build-{project}" for project in projects)
    return _upload_step("upload-pytorch", act, options, needs=("rocm-packages", "check", *builds))


def _upload_step(
    name: str, act: Callable[[Inputs, Note], UploadedRun], options: RunOptions, *, needs: tuple[str, ...]
) -> Step:
    root = options.workspace.store
    return Step(
        id=name,
        result=UploadedRun,
        act=act,
        needs=needs,
        rooms=("store",),
        facts=lambda: {"run": options.run_id, "platform": options.platform},
        outputs=lambda value: tuple(root / value.prefix / file for file in (*value.files, "index.html")),
        summary=lambda value: f"{len(value.files)} files in {value.prefix}",
    )


def _upload(options: RunOptions, files: Sequence[Path], family: str, kind: Kind) -> UploadedRun:
    root = options.workspace.store
    # The demo rebuilds under one run id; a run of CI refuses other bytes under a name it has.
    remove_tree(root / run_prefix(options.run_id, options.platform, kind, family))
    done = upload_run(LocalStore(root), files, options.run_id, options.platform, family, kind)
    return UploadedRun(done.prefix, done.url, {entry.name: entry.sha256 for entry in done.files})


def _wheels(inputs: Inputs, projects: Sequence[str]) -> list[BuiltWheel]:
    return [inputs.get(f"build-{project}", BuiltWheel) for project in projects]


def _files(inputs: Inputs, projects: Sequence[str]) -> list[Path]:
    """Every file of the run's set."""
    wheels = [Path(wheel.path) for wheel in _wheels(inputs, projects)]
    return [*inputs.get("rocm-packages", BuiltPackages).paths, *wheels]


def _built_and_checked(manifest: SetManifest, checked: Checked) -> list[Statement]:
    return [
        about_set(manifest, FINDINGS, checked.report),
        about_set(manifest, BUILD, {"result": "success"}),
    ]


# Whose change makes an old result of a check stale.
_CHECKING = ("check", "wheel", "binary", "model", "data", "pipeline/check_set.py")


def check_rocm_step(options: RunOptions) -> Step:
    """`check-rocm`: the wheel contract over the ROCm packages, before anybody can install them."""

    def act(inputs: Inputs, note: Note) -> Checked:
        packages = inputs.get("rocm-packages", BuiltPackages)
        return _checked(check_set(Asked(tuple(packages.paths), closed=True, jobs=options.jobs), note=note))

    return Step(
        id="check-rocm",
        result=Checked,
        act=act,
        needs=("rocm-packages",),
        rooms=_CHECKING,
        summary=_check_summary,
    )


def check_step(options: RunOptions, projects: Sequence[str]) -> Step:
    """`check`: the wheel contract over all packages of the run, as one set that pip and uv install."""
    workspace = options.workspace

    def act(inputs: Inputs, note: Note) -> Checked:
        # Who only looks may do without one of them; what is published is proved with both.
        venv.pip_command()
        venv.uv_command()
        # What a killed run left there is as large as two environments.
        proof = workspace.root / "proof"
        remove_tree(proof)
        asked = Asked(
            tuple(_files(inputs, projects)),
            targets=tuple(options.targets),
            closed=True,
            expect=tuple(projects),
            jobs=options.jobs,
        )
        report = check_set(asked, install=True, work_dir=proof, note=note, log=workspace.log("check"))
        remove_tree(proof)
        return _checked(report)

    return Step(
        id="check",
        result=Checked,
        act=act,
        needs=("rocm-packages", *(f"build-{project}" for project in projects)),
        rooms=(*_CHECKING, "store", "system/venv.py"),
        facts=lambda: {"targets": options.targets, "python": sys.version},
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


def stage_step(options: RunOptions, projects: Sequence[str]) -> Step:
    """`stage`: the checked set into `v2-staging/<family>/`."""
    root = options.workspace.store

    def act(inputs: Inputs, note: Note) -> StagedSet:
        packages = inputs.get("rocm-packages", BuiltPackages)
        checked = inputs.get("check", Checked)
        files = _files(inputs, projects)
        locked = inputs.get("lock-sources", LockedSources).lock.sources
        manifest = new_set(
            family=packages.family,
            targets=options.targets,
            platform=options.platform,
            files=describe_files(files),
            sources={"rocm": packages.version, **{source.project: source.commit for source in locked}},
        )
        statements = _built_and_checked(manifest, checked)
        # The demo rebuilds under one version; a real channel refuses other bytes under a published name.
        for channel in ("v2-staging", "v2"):
            remove_tree(root / channel)
        staged = stage_set(LocalStore(root), manifest, files, statements, date.today())
        return StagedSet(staged.set_id, staged.prefix, staged.index_url, manifest)

    return Step(
        id="stage",
        result=StagedSet,
        act=act,
        needs=(
            "rocm-packages",
            "lock-sources",
            "check",
            "upload-pytorch",
            *(f"build-{project}" for project in projects),
        ),
        rooms=("store", "model"),
        outputs=lambda value: tuple(root / value.prefix / entry.name for entry in value.manifest.files),
        summary=lambda value: f"set {value.set_id[:12]}: {len(value.manifest.files)} files in {value.prefix}",
    )


def promote_step(options: RunOptions, projects: Sequence[str]) -> Step:
    """`promote`: the gate's decision, and the set from staging to `v2/<family>/`."""
    root = options.workspace.store

    def act(inputs: Inputs, note: Note) -> Released:
        staged = inputs.get("stage", StagedSet)
        checked = inputs.get("check", Checked)
        manifest = staged.manifest
        tested = [inputs.get(f"test-{installer}", TestedEnvironment) for installer in ("pip", "uv")]
        # Waivers may come after staging; the gate weighs those in force today.
        recorded = read_statements(LocalStore(root), set_id(manifest))
        waivers = [item for item in recorded if item.predicate_type == WAIVER]
        statements = [
            *_built_and_checked(manifest, checked),
            *waivers,
            *tested_statements(manifest, tested),
        ]
        decision = decide(set_id(manifest), statements, demo_policy(manifest.family, date.today()))
        released = promote(LocalStore(root), manifest, decision, statements)
        requirements = pinned_requirements(manifest, projects)
        return Released(
            set_id=released.set_id,
            index_url=released.index_url,
            files=tuple(released.prefix + entry.name for entry in released.files),
            decision=decision,
            requirements=requirements,
            pip_line=f"pip install --index-url {released.index_url} {' '.join(requirements)}",
            uv_line=f"uv pip install --index-url {released.index_url} {' '.join(requirements)}",
        )

    return Step(
        id="promote",
        result=Released,
        act=act,
        needs=("check", "stage", "test-pip", "test-uv"),
        rooms=("store", "model"),
        facts=lambda: {"today": date.today().isoformat()},
        outputs=lambda value: tuple(root / path for path in value.files),
        summary=lambda value: f"set {value.set_id[:12]} promoted: {value.decision.rule}",
    )
