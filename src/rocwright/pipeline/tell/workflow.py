"""What became of a workflow: its jobs judged by one job at the end, which a branch can require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from urllib.parse import quote

import msgspec

from rocwright.errors import InvalidData, RocwrightError, Unreachable, UsageError
from rocwright.store.runs.latest import api_address
from rocwright.system.http import Web
from rocwright.system.workflow import code, cut, link, table

State = Literal["passed", "left out", "tolerated", "failed", "cancelled", "missing"]
_MARKS = {
    "passed": "✅",
    "left out": "⏭️",
    "tolerated": "⚠️",
    "failed": "❌",
    "cancelled": "🚫",
    "missing": "⛔",
}
_TOLD = {
    "passed": "passed",
    "left out": "left out",
    "tolerated": "failed, which is allowed",
    "failed": "failed",
    "cancelled": "was cancelled",
    "missing": "is required, but was left out",
}
# The job of a rendered workflow that plans its run.
SETUP = "setup"
_LARGEST = 16 << 20
_PAGES, _PER_PAGE = 10, 100
_CANCELLED = (
    "Who cancelled it, or which limit of time, stands in the job's log. Run the jobs again to go on: what was"
    " done is kept. A job that takes longer than GitHub's own machines allow needs another machine: the"
    " variables ROCWRIGHT_LINUX_RUNNER and ROCWRIGHT_WINDOWS_RUNNER name it."
)
_TRUE = ("true", "1", "yes", "on", "y", "t")


class JobResult(msgspec.Struct, frozen=True):
    """One job: what GitHub calls its result, and what that comes to here."""

    name: str
    result: str
    state: State


class FailedJob(msgspec.Struct, frozen=True):
    """A job, perhaps inside of a called workflow, that failed: where its log is."""

    name: str
    url: str


class Outcome(msgspec.Struct, frozen=True):
    """Every job of a workflow; `inside` are those that failed, as far as GitHub says which.

    `idle` says why nothing was done, where something was to be done.
    """

    jobs: tuple[JobResult, ...]
    inside: tuple[FailedJob, ...] = ()
    note: str = ""
    idle: str = ""

    @property
    def bad(self) -> tuple[JobResult, ...]:
        """Jobs that must not have ended so."""
        return tuple(job for job in self.jobs if job.state in ("failed", "cancelled", "missing"))

    @property
    def unplanned(self) -> bool:
        """Whether the job that plans the run did not end well, so that no other can know what to do."""
        return any(job.name == SETUP and job.state not in ("passed", "tolerated") for job in self.jobs)


class _Need(msgspec.Struct, frozen=True):
    result: str
    outputs: dict[str, str | None] | None = None


def judge_jobs(needs: str, required: Sequence[str] = ()) -> Outcome:
    """Judge the JSON of a workflow's `needs`: `success` and `skipped` are fine.

    A job with the output `continue_on_error` may fail. A job that is `required` may not be skipped. Raises
    `InvalidData` for other JSON, `UsageError` for a required job that is none.
    """
    try:
        said = msgspec.json.decode(needs, type=dict[str, _Need])
    except msgspec.MsgspecError as error:
        raise InvalidData(
            f"--needs-json is not the needs context of a workflow: {error}",
            next_step='give toJSON(needs), such as {"build": {"result": "success"}}',
        ) from error
    for name in required:
        if name not in said:
            raise UsageError(
                f"the required job {name!r} is not among the jobs",
                next_step=f"jobs: {' '.join(said) or 'none'}; name it in the needs of this job, too",
            )
    return Outcome(
        tuple(JobResult(name, need.result, _state(need, name in required)) for name, need in said.items())
    )


def judge_environment(environment: Mapping[str, str]) -> Outcome | None:
    """The jobs that the last step of a rendered workflow is told of; None outside of a workflow.

    What a machine that was lost did is in no record, so GitHub's results count, too. Raises as `judge_jobs`.
    """
    needs = environment.get("NEEDS_JSON")
    if not needs:
        return None
    outcome = judge_jobs(needs)
    outcome = msgspec.structs.replace(outcome, idle=_idle(outcome))
    repository, run_id = (environment.get(f"GITHUB_{name}") for name in ("REPOSITORY", "RUN_ID"))
    if outcome.bad and repository and run_id:
        return find_failed(outcome, repository, run_id, environment)
    return outcome


def _idle(outcome: Outcome) -> str:
    """That all was skipped is no good end: of a run that had nothing to do this job is skipped, too."""
    if outcome.unplanned:
        return f"{SETUP} did not end well, so nothing was done: its log and its part of this page say why"
    if all(job.name == SETUP or job.state == "left out" for job in outcome.jobs):
        return (
            f"every job was left out: {SETUP}'s part of this page says what the run was to have, and what not"
        )
    return ""


def _state(need: _Need, required: bool) -> State:
    if need.result == "success":
        return "passed"
    if need.result == "cancelled":
        return "cancelled"
    if need.result == "skipped":
        return "missing" if required else "left out"
    tolerated = str((need.outputs or {}).get("continue_on_error") or "").strip().lower() in _TRUE
    return "tolerated" if tolerated else "failed"


class _RanJob(msgspec.Struct, frozen=True):
    name: str = ""
    conclusion: str | None = None
    html_url: str | None = None


class _JobsReply(msgspec.Struct, frozen=True):
    jobs: tuple[_RanJob, ...] = ()


def find_failed(
    outcome: Outcome, repository: str, run_id: str, environment: Mapping[str, str], web: Web | None = None
) -> Outcome:
    """With the failed jobs inside of called workflows, for which GitHub is asked, or a note why not."""
    found: list[FailedJob] = []
    page = f"{api_address(environment)}/repos/{quote(repository)}/actions/runs/{quote(run_id)}/jobs"
    try:
        with web or Web() as asked:
            for number in range(1, _PAGES + 1):
                url = asked.enter(f"{page}?filter=latest&per_page={_PER_PAGE}&page={number}")
                answer = asked.get(url, limit=_LARGEST, accept="application/vnd.github+json")
                jobs = _jobs(answer.body)
                found += [FailedJob(job.name, job.html_url or "") for job in jobs if _failed(job)]
                if len(jobs) < _PER_PAGE:
                    break
    except Unreachable as error:
        note = f"which jobs failed inside of called workflows is not known: {error.what}"
        return msgspec.structs.replace(outcome, inside=tuple(found), note=note)
    return msgspec.structs.replace(outcome, inside=tuple(found))


def _jobs(body: bytes) -> tuple[_RanJob, ...]:
    try:
        return msgspec.json.decode(body, type=_JobsReply).jobs
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreachable(f"the server does not answer as GitHub does ({error})") from error


def _failed(job: _RanJob) -> bool:
    return job.conclusion in ("failure", "timed_out", "cancelled", "startup_failure")


def workflow_summary(outcome: Outcome) -> tuple[str, ...]:
    """Markdown: the outcome, a table of the jobs, links to what failed."""
    head = _head(outcome)
    rows = [(f"{_MARKS[job.state]} {_TOLD[job.state]}", code(job.name), job.result) for job in outcome.jobs]
    lines = [f"## {head}", "", *table(("", "Job", "Result"), rows)]
    if outcome.idle:
        lines += [f"{outcome.idle}.", ""]
    if any(job.state == "cancelled" for job in outcome.jobs):
        lines += [_CANCELLED, ""]
    if outcome.inside:
        lines += ["### What failed", "", *(f"* {link(job.name, job.url)}" for job in outcome.inside), ""]
    if outcome.note:
        lines += [outcome.note, ""]
    return cut(lines)


def _head(outcome: Outcome) -> str:
    bad, total = outcome.bad, len(outcome.jobs)
    if bad and all(job.state == "cancelled" for job in bad):
        return f"🚫 The run was cancelled: {len(bad)} of {total} jobs"
    if bad:
        return f"❌ {len(bad)} of {total} jobs did not end well"
    return "❌ Nothing was done" if outcome.idle else "✅ All required jobs ended well"


def require_good(outcome: Outcome) -> None:
    """Raise `RocwrightError` (exit code 1) that names every job that must not have ended so."""
    if outcome.idle:
        raise RocwrightError(outcome.idle, next_step=f"see what {SETUP} says, and start the workflow again")
    if not outcome.bad:
        return
    told = ", ".join(f"{job.name} ({_ended(job)})" for job in outcome.bad)
    urls = [job.url for job in outcome.inside if job.url]
    raise RocwrightError(
        f"{len(outcome.bad)} of {len(outcome.jobs)} jobs did not end well: {told}",
        next_step=f"see {urls[0]}" if urls else "see their logs",
    )


def _ended(job: JobResult) -> str:
    return "required, but skipped" if job.state == "missing" else job.result
