"""`rocwright store upload | policy`: what a run built goes to the store; whether it may go to the release."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.reply import Reply, replies
from rocwright.cli.store.options import RunOptions
from rocwright.errors import UsageError
from rocwright.store.layout import Kind
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.runs.artifacts import (
    artifact_files,
    describe_artifacts,
    plan_artifacts,
    upload_artifacts,
)
from rocwright.store.runs.policy import known, may_upload
from rocwright.store.runs.run import Result, Run
from rocwright.store.runs.upload import (
    UploadPlan,
    install_line,
    outputs,
    package_files,
    plan_packages,
    step_summary,
    upload_run,
)
from rocwright.system import console
from rocwright.system.workflow import tell_workflow

_WHOSE = RunOptions()


@replies
def store_upload(
    *,
    input_dir: Annotated[Path, Parameter(name=("--input-packages-dir", "--input-dir"))],
    run_id: Annotated[str, Parameter(env_var="GITHUB_RUN_ID")],
    artifact_group: str | None = None,
    multiarch: bool = False,
    kind: Literal["python", "pytorch", "artifacts"] = "python",
    output_dir: Path | None = None,
    result: Result = "success",
    dry_run: bool = False,
    whose: RunOptions = _WHOSE,
) -> Reply:
    """Upload what a run built, with a page for pip's --find-links, as ROCm's CI lays it out.

    Files go to RUN_ID-PLATFORM/python/GROUP/ (pytorch/GROUP/ for wheels of PyTorch), a page of both to
    RUN_ID-PLATFORM/_combined/GROUP/. The outputs package_find_links_url, kpack_split and run_find_links_url
    are printed and appended to $GITHUB_OUTPUT, a summary to $GITHUB_STEP_SUMMARY. A file that the run
    has already is never replaced by another one.

    Parameters
    ----------
    input_dir
        The folder of wheels and sdists, or one with them in dist/; of archives for the kind artifacts.
    run_id
        The run, a number or a name.
    artifact_group
        The family that the packages are for, not used with --multiarch.
    multiarch
        The packages are for all GPUs: they lie in python/ itself.
    kind
        ROCm's packages (python), wheels of PyTorch (pytorch), or archives of artifacts.
    output_dir
        A folder instead of a bucket: the same layout, with nothing uploaded.
    result
        How the run's build ended; `rocwright store fetch` takes successful ones for the latest.
    dry_run
        Say what would be uploaded, and write nothing.
    json
        Print the result as JSON.
    """
    if not (multiarch or artifact_group):
        raise UsageError(
            "nothing says which GPUs the packages are for",
            next_step="give --artifact-group, or --multiarch for packages of all GPUs",
        )
    group = None if multiarch else artifact_group
    run = Run(run_id, whose.on(), whose.external_repo())
    store = whose.opened(output_dir, reading=dry_run)
    if kind == "artifacts":
        return _artifacts_reply(store, input_dir, run, group, result, dry_run=dry_run)
    if dry_run:
        return _plan_reply(plan_packages(store, input_dir, run, group, kind, note=console.say))
    return _packages_reply(store, input_dir, run, group, kind, result)


@replies
def store_policy() -> Reply:
    """Say whether a job of a workflow may upload wheels to the release: upload=true or upload=false.

    It reads $BUILD_RESULT, $TEST_RESULT, $TEST_RUNS_ON (the runner's label), $BYPASS_TESTS_FOR_RELEASES and
    $GITHUB_REF_NAME. The line is printed and appended to $GITHUB_ENV. Sets are promoted by `rocwright set
    promote`, which looks at the tested bytes; this is for workflows that have results only.

    Parameters
    ----------
    json
        Print the decision as JSON.
    """
    decision = may_upload(known(os.environ))
    line = f"upload={str(decision.upload).lower()}"
    if not tell_workflow([line], "GITHUB_ENV"):
        console.say("warning: GITHUB_ENV is not set; the decision is printed only")

    def show() -> None:
        console.say(f"rule {decision.rule}: {decision.reason}")
        console.out(line)

    return Reply(decision, show)


def _packages_reply(
    store: ObjectStore, folder: Path, run: Run, group: str | None, kind: Kind, result: Result
) -> Reply:
    done = upload_run(
        store,
        package_files(folder),
        run.run_id,
        run.platform,
        group,
        kind,
        external_repo=run.external_repo,
        result=result,
        note=console.say,
    )
    said = outputs(done)
    lines = [f"{name}={value}" for name, value in said.items()]
    if not tell_workflow(lines):
        console.say("warning: GITHUB_OUTPUT is not set; the outputs are printed only")
    if not tell_workflow(step_summary(done, kind), "GITHUB_STEP_SUMMARY"):
        console.say(f"install: {install_line(done, kind)}")
    return Reply({**said, "prefix": done.prefix, "files": done.files}, lambda: console.out("\n".join(lines)))


def _artifacts_reply(
    store: ObjectStore,
    folder: Path,
    run: Run,
    group: str | None,
    result: Result,
    *,
    dry_run: bool,
) -> Reply:
    paths = artifact_files(folder)
    if dry_run:
        files = plan_artifacts(store, describe_artifacts(paths), run)
        where = store.url(run.folder)
    else:
        done = upload_artifacts(store, paths, run, group, result=result, note=console.say)
        files, where = done.files, done.url

    def show() -> None:
        rows = [(console.human_bytes(file.size), file.name) for file in files]
        console.table(f"{'would go' if dry_run else 'in'} {where}", ("size", "artifact"), rows, right=(0,))

    return Reply({"url": where, "files": files, "dry_run": dry_run}, show)


def _plan_reply(plan: UploadPlan) -> Reply:

    def show() -> None:
        known = {entry.name for entry in plan.known}
        rows = [
            (console.human_bytes(entry.size), "already there" if entry.name in known else "new", entry.name)
            for entry in plan.files
        ]
        console.table(f"would go to {plan.prefix}", ("size", "", "file"), rows, right=(0,))

    return Reply({"prefix": plan.prefix, "new": plan.new, "known": plan.known, "dry_run": True}, show)
