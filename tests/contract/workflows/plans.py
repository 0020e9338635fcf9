"""Plans and commands for tests of workflows: what a run would have, and a command that only notes its id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from contract.workflows.github_runner import DONE, FAILED, Runner
from rocwright.model.plan import Job, Plan
from rocwright.pipeline.setup.run import workflow_outputs

CI = ".github/workflows/ci.yml"
RELEASE = ".github/workflows/release_portable_linux_pytorch_wheels.yml"


@dataclass
class Steps:
    """Does no step: notes which were asked for, in order, and lets those of `broken` fail."""

    plan: Plan
    broken: frozenset[str] = frozenset()
    did: list[str] = field(default_factory=list)
    seen: dict[str, dict[str, str]] = field(default_factory=dict)

    def __call__(self, command: str, env: Mapping[str, str]) -> dict[str, str] | None:
        if "rocwright pipeline" not in command:
            return {}
        if "pipeline setup" in command:
            self.seen["setup"] = dict(env)
            if env["ROCWRIGHT_ROLE_OUTCOME"] == FAILED:
                return None
            upload = "true" if self.plan.publication.upload else "false"
            return {"run": "true", "upload": upload, **workflow_outputs(self.plan)}
        assert command == '"$PYTHON" -m rocwright pipeline step "$ID"'
        id_ = env["ID"]
        assert id_ not in self.did, f"{id_} is done twice"
        self.did.append(id_)
        self.seen[id_] = dict(env)
        if id_ in self.broken:
            return None
        return {name: f"{name} of {id_}" for name in ("rocm_package_find_links_url", "torch_version")}


def run_plan(
    files: Mapping[str, dict[str, object]],
    plan: Plan,
    *,
    start: str = CI,
    broken: frozenset[str] = frozenset(),
) -> tuple[Steps, Runner, str]:
    """Start a workflow; what it did, how it was done, how it ended."""
    steps = Steps(plan, broken)
    runner = Runner(files, steps, {"workflow": "CI", "run_id": "1", "event_name": "push", "event": {}})
    return steps, runner, runner.start(start).result


def expected(plan: Plan, broken: frozenset[str]) -> dict[str, str]:
    """How each job of a plan ends, by its id: from the plan alone. Left out ones are not there."""
    ends: dict[str, str] = {}
    if not plan.publication.upload:
        return ends
    changing = {cell.job for cell in plan.cells if cell.changes == "channel"}
    for job in plan.jobs:
        if job.name == "ci_summary":
            continue
        if not plan.publication.channels and (job.name in changing or job.name == "gate"):
            continue
        if job.family and not job.runner and job.skip:
            continue
        ready = all(ends.get(need) == DONE for need in job.needs)
        if ready or _last(plan, job):
            ends[job.id] = FAILED if job.id in broken else DONE
    return ends


def _last(plan: Plan, job: Job) -> bool:
    return any(plan.cell(id_).last for id_ in job.cells)
