"""Steps that hold packages against the wheel contract and put those that pass into the store.

Into the run's folder, from which they are tested, and as a set into the staging channel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from rocwright.check.report import Report
from rocwright.check.run import CheckRequest
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import ContractBroken
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families, base_targets, is_target
from rocwright.model.sets import (
    BUILD,
    FINDINGS,
    FileEntry,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
)
from rocwright.pipeline.check_set import check_set
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.extension_sources import sources_of_extensions
from rocwright.pipeline.steps.sources import LockedSources, family_projects
from rocwright.pipeline.steps.wheels import family_wheels, files_of_set
from rocwright.sdk.build import BuiltPackages
from rocwright.store.layout import Kind, file_key, run_prefix
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import beneath, download
from rocwright.store.pool import describe_files
from rocwright.store.runs.upload import upload_run
from rocwright.store.sets.stage import stage_set
from rocwright.system import venv
from rocwright.system.files import make_directory, remove_tree

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
        adopted = _by_others(packages, options)
        asked = CheckRequest(tuple(packages.paths), closed=True, jobs=options.jobs, adopted=adopted)
        report = check_set(asked, note=note)
        checked = _checked(report)
        _require_code(report, options)
        return checked

    return Step(
        id="check-rocm",
        result=Checked,
        act=act,
        needs=needs,
        rooms=_CHECKING,
        facts=lambda: {"targets": options.targets, "rocm": options.rocm.kind},
        summary=_check_summary,
    )


def _by_others(rocm: BuiltPackages, options: RunOptions) -> frozenset[str]:
    """Names of ROCm's packages where somebody else made them."""
    return frozenset(file.name for file in rocm.files) if options.rocm.by_others else frozenset()


def _require_code(report: Report, options: RunOptions) -> None:
    """Raise `ContractBroken` for targets that no library of this ROCm has code for."""
    generic = options.table("families", Families).generic
    held = base_targets(target for one in report.looked for target in one.targets if is_target(target))
    serves = {*held, *(target for one in held for target in generic.get(one, ()))}
    without = [target for target in base_targets(options.targets) if target not in serves]
    if without:
        raise ContractBroken(
            f"this ROCm has no code for {', '.join(without)}; it has code for {', '.join(held) or 'no GPU'}",
            next_step="take a ROCm that has: --rocm index:nightly, or leave these families out",
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
            adopted=_by_others(inputs.get("rocm-packages", BuiltPackages), options),
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
        facts=lambda: {
            "targets": options.targets,
            "python": options.interpreter.full,
            "rocm": options.rocm.kind,
        },
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


# -- into the run's folder


class UploadedRun(msgspec.Struct, frozen=True):
    """Packages of a run in the store: prefix, the page for --find-links, digests by file name.

    `rocm` is the prefix of the ROCm packages that they were built against.
    """

    prefix: str
    find_links: str
    files: dict[str, str]
    rocm: str = ""


def upload_rocm_step(options: RunOptions, needs: tuple[str, ...] = ("rocm-packages", "check-rocm")) -> Step:
    """`upload-rocm`: the checked ROCm packages into `{run_id}-{platform}/python/{group}/`."""

    def act(inputs: Inputs, note: Note) -> UploadedRun:
        packages = inputs.get("rocm-packages", BuiltPackages)
        return _upload(options, packages.paths, options.group or packages.family, "python", note)

    return _upload_step("upload-rocm", act, options, needs)


def upload_torch_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`upload-pytorch`: the checked wheels into `{run_id}-{platform}/pytorch/{group}/`."""

    def act(inputs: Inputs, note: Note) -> UploadedRun:
        packages = inputs.get("rocm-packages", BuiltPackages)
        rocm = inputs.get("upload-rocm", UploadedRun)
        group = options.group or packages.family
        done = _upload(options, family_wheels(inputs), group, "pytorch", note)
        return msgspec.structs.replace(done, rocm=rocm.prefix)

    return _upload_step("upload-pytorch", act, options, needs)


def _upload_step(
    name: str, act: Callable[[Inputs, Note], UploadedRun], options: RunOptions, needs: tuple[str, ...]
) -> Step:
    def outputs(value: UploadedRun) -> tuple[Path, ...]:
        # Only of a store of one's own is it certain that nobody else looks after it.
        root = options.workspace.store
        names = (*value.files, "index.html") if options.own else ()
        return tuple(root / value.prefix / file for file in names)

    return Step(
        id=name,
        result=UploadedRun,
        act=act,
        needs=needs,
        rooms=("store",),
        facts=lambda: {"run": options.run_id, "platform": options.platform, "group": options.group},
        outputs=outputs,
        summary=lambda value: f"{len(value.files)} files in {value.prefix}",
    )


def _upload(options: RunOptions, files: Sequence[Path], group: str, kind: Kind, note: Note) -> UploadedRun:
    store = options.store
    folder = beneath(store)
    if options.own and isinstance(folder, LocalStore):
        # The demo rebuilds under one run id; a run of CI refuses other bytes under a name it has.
        remove_tree(folder.root / run_prefix(options.run_id, options.platform, kind, group))
    done = upload_run(store, files, options.run_id, options.platform, group, kind, note=note)
    return UploadedRun(done.prefix, done.url, {entry.name: entry.sha256 for entry in done.files})


# -- as a set into the staging channel


class StagedSet(msgspec.Struct, frozen=True):
    """A checked set in the staging channel and the statements about it; `why` says why it is not there."""

    set_id: str
    prefix: str
    index_url: str
    manifest: SetManifest
    said: tuple[Statement, ...] = ()
    why: str = ""


def stage_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`stage`: the checked set into `v2-staging/<family>/`; where the run may not, only what the set is."""
    folder = options.workspace.root / "staged"

    def act(inputs: Inputs, note: Note) -> StagedSet:
        packages = inputs.get("rocm-packages", BuiltPackages)
        uploaded = inputs.get("upload-pytorch", UploadedRun)
        remove_tree(folder)
        note("reading what was uploaded")
        files = [*packages.paths, *_wheels(options, uploaded, folder)]
        locked = inputs.get("lock-sources", LockedSources).lock.sources
        manifest = new_set(
            family=packages.family,
            targets=options.targets,
            platform=options.platform,
            files=describe_files(files),
            sources={
                "rocm": packages.version,
                **{source.project: source.commit for source in locked},
                **sources_of_extensions(inputs, files),
            },
        )
        said = (
            about_set(manifest, FINDINGS, inputs.get("check", Checked).report),
            about_set(manifest, BUILD, {"result": "success"}),
        )
        try:
            return _staged(options, manifest, files, said)
        finally:
            remove_tree(folder)

    return Step(
        id="stage",
        result=StagedSet,
        act=act,
        needs=needs,
        rooms=("store", "model"),
        facts=lambda: {
            "channels": options.publication.channels,
            "channel": options.channel,
            "own": options.overlaid("channels"),
        },
        outputs=lambda value: _staged_files(options, value),
        summary=_stage_summary,
    )


def _staged(
    options: RunOptions, manifest: SetManifest, files: Sequence[Path], said: tuple[Statement, ...]
) -> StagedSet:
    if not options.publication.channels:
        return StagedSet(set_id(manifest), "", "", manifest, said, options.publication.why or "dry run")
    store = options.store
    channels = options.table("channels", Channels)
    folder = beneath(store)
    if options.own and isinstance(folder, LocalStore):
        # The demo rebuilds under one version; a real channel refuses other bytes under a published name.
        for channel in channels.channel:
            remove_tree(folder.root / channel.prefix)
    staging = channels.named(options.channel or "staging")
    staged = stage_set(store, staging, manifest, files, said, datetime.now(timezone.utc))
    return StagedSet(staged.set_id, staged.prefix, staged.index_url, manifest, said)


def _wheels(options: RunOptions, uploaded: UploadedRun, folder: Path) -> list[Path]:
    """The wheels out of the run's folder: exactly those that are tested."""
    make_directory(folder)
    for name, digest in uploaded.files.items():
        download(options.store, uploaded.prefix + name, folder / name, digest)
    return [folder / name for name in uploaded.files]


def keys_of(files: Sequence[FileEntry]) -> tuple[str, ...]:
    """Where files lie in the store."""
    return tuple(file_key(entry.sha256, entry.name) for entry in files)


def _staged_files(options: RunOptions, value: StagedSet) -> tuple[Path, ...]:
    keys = keys_of(value.manifest.files) if options.own else ()
    return tuple(options.workspace.store / key for key in keys)


def _stage_summary(value: StagedSet) -> str:
    files = f"set {value.set_id[:12]}: {len(value.manifest.files)} files"
    return f"{files}, not staged: {value.why}" if value.why else f"{files} in {value.prefix}"
