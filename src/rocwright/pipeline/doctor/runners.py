"""Which machines the jobs of a run ask for, and who serves them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from rocwright.model.plan import Plan
from rocwright.model.runners import OVERRIDE, Runners
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.doctor.conditions import Condition, Unasked
from rocwright.pipeline.doctor.github import GitHubFacts, Registered
from rocwright.pipeline.doctor.variables import TESTED


class Wanted(msgspec.Struct, frozen=True):
    """A label that jobs ask for: who does, and which variable names another; `gpu` for tests of families."""

    label: str
    whose: tuple[str, ...]
    variable: str = ""
    gpu: bool = False


def wanted_labels(
    plan: Plan, runners: Runners, table: WorkflowTable, variables: Mapping[str, str]
) -> tuple[Wanted, ...]:
    """Every label that a run of the plan may ask for; of several pools each may be chosen."""
    jobs = [job for job in plan.jobs if not job.skip]
    # What starts and sums up a run is on GitHub's machine of that label, whatever a variable says.
    first = table.machine_of("linux")
    found = [Wanted(first.label, ("setup", "summary"))]
    for row in table.machine:
        names = tuple(
            dict.fromkeys(job.name for job in jobs if job.platform == row.platform and not job.runner)
        )
        said = variables.get(row.variable, "").strip() or row.label
        if names:
            found.append(Wanted(said, names, row.variable))
    labels: dict[str, dict[str, None]] = {}
    for job in jobs:
        here = runners.on(job.family, job.platform) if job.runner else None
        for pool in here.pools if here else ():
            labels.setdefault(pool.label, {})[f"{job.family} on {job.platform}"] = None
    found += (Wanted(label, tuple(whose), gpu=True) for label, whose in labels.items())
    return tuple(found)


def judge_runners(
    wanted: Iterable[Wanted],
    facts: GitHubFacts,
    lent: Iterable[str],
    *,
    repository: str,
    read: Iterable[str],
) -> tuple[Condition, ...]:
    """Who serves each label: GitHub (`lent`), a runner that is online, or nobody. `read` are variables."""
    hosted = frozenset(label.lower() for label in lent)
    names = tuple(read)
    return tuple(_judge(one, facts, hosted, repository, names) for one in wanted)


def _judge(
    want: Wanted, facts: GitHubFacts, hosted: frozenset[str], repository: str, read: tuple[str, ...]
) -> Condition:
    id_, label = "gpu-runners" if want.gpu else "runners", want.label
    who = _some(want.whose)
    if label.lower() in hosted:
        return Condition(id_, "ok", f"GitHub lends machines for {who}", about=label)
    if isinstance(facts.machines, Unasked):
        return Condition(
            id_,
            "unlooked",
            f"whether a runner serves {who}: {facts.machines.why}",
            facts.machines.next_step,
            label,
        )
    serving = [one for one in facts.machines if _has(one, label)]
    online = [one.name for one in serving if one.status == "online"]
    if online:
        return Condition(id_, "ok", f"{_some(online)} for {who}", about=label)
    steps = ["register a runner with this label", *_steps(want, repository, read)]
    if serving:
        offline = _some([one.name for one in serving])
        return Condition(
            id_,
            "wrong",
            f"{offline} would serve {who}, and is offline: jobs wait for a day, then fail",
            "; or ".join(["start it", *steps[1:]]),
            label,
        )
    if facts.hidden is not None:
        return Condition(
            id_,
            "unlooked",
            f"no runner of the repository serves {who}, and those of the organisation are not shown: "
            f"{facts.hidden.why}",
            facts.hidden.next_step,
            label,
        )
    detail = f"nobody serves it: {who} would wait for a day, then fail (machines on demand show only then)"
    return Condition(id_, "missing", detail, "; or ".join(steps), label)


def _steps(want: Wanted, repository: str, read: tuple[str, ...]) -> Iterator[str]:
    """What else helps than a runner: another label, or no tests on such GPUs."""
    if want.variable:
        yield f"gh variable set {want.variable} --repo {repository} --body LABEL"
    if not want.gpu:
        return
    family = want.whose[0].partition(" ")[0]
    if TESTED in read:
        yield f"name the families that have one: gh variable set {TESTED} --repo {repository} --body FAMILIES"
    elif OVERRIDE in read:
        without = f"""'{{"{family}": ""}}'"""
        yield f"gh variable set {OVERRIDE} --repo {repository} --body {without}: its tests are left out"
    else:
        yield f"give {family} other pools, or none, in [[families.family]] of a rocwright.toml"


def _has(machine: Registered, label: str) -> bool:
    return any(one.name.lower() == label.lower() for one in machine.labels)


def _some(names: Iterable[str], most: int = 3) -> str:
    held = list(names)
    return ", ".join(held[:most]) + (f" and {len(held) - most} more" if len(held) > most else "")
