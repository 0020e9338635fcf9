"""The whole visit: gather, judge, sum up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.errors import InvalidInput, RocwrightError, UsageError
from rocwright.model.channels import Channels
from rocwright.model.plan import Choice, Plan, Profile, Publication
from rocwright.model.runners import OVERRIDE
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import ROCM, Known, choose_rocm, families_to_test, known, sources_of
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.doctor import repository as judged
from rocwright.pipeline.doctor.bucket import ask_store, judge_store
from rocwright.pipeline.doctor.conditions import Condition, Readiness, Stand, Unasked
from rocwright.pipeline.doctor.github import GITHUB, GitHubFacts, ask_github
from rocwright.pipeline.doctor.role import ISSUER, ask_role, judge_role
from rocwright.pipeline.doctor.runners import judge_runners, wanted_labels
from rocwright.pipeline.doctor.variables import (
    REGION,
    STORE,
    TESTED,
    judge_images,
    judge_names,
    judge_values,
    longest_role,
    variables_read,
    with_plain_values,
)
from rocwright.pipeline.setup.offered import require_offered

# A plan is of a run; this one is never run.
_RUN_ID = "doctor"


class Visit(msgspec.Struct, frozen=True):
    """What is visited: the repository at a host, the profile, rendered files by path, stale ones."""

    repository: str
    host: str
    profile: Profile
    files: Mapping[PurePosixPath, str]
    stale: Sequence[str] | None
    environment: Mapping[str, str]
    overlay: Overlay | None = None
    table: WorkflowTable = msgspec.field(default_factory=lambda: load_table("workflows", WorkflowTable))


def visit(what: Visit) -> Readiness:
    """Ask GitHub, AWS and the index, change nothing but a probe, and say how everything stands.

    Raises `InvalidData` for tables of the user that do not fit.
    """
    facts = ask_github(what.repository, what.host, what.environment)
    read = variables_read(what.files)
    variables = _variables(facts, read, what.environment)
    tables = known(what.overlay, {OVERRIDE: variables.get(OVERRIDE, "") if OVERRIDE in read else ""})
    found = [judged.judge_checkout(what.stale), judged.judge_github(facts)]
    found += judged.judge_actions(facts, what.table, what.repository)
    paths = [str(path) for path in what.files if path.parts[:2] == (".github", "workflows")]
    found += judged.judge_workflows(facts, paths, what.repository)
    found += _of_variables(facts, variables, read, tables)
    found += judge_images(variables, what.table)
    found += _of_store(what, variables)
    found += _of_role(what, facts, variables)
    found += _of_plan(what, facts, variables, read, tables)
    return Readiness(what.repository, what.profile.name, tuple(found))


def _variables(
    facts: GitHubFacts, read: Mapping[str, object], environment: Mapping[str, str]
) -> Mapping[str, str]:
    """Those of the repository; where they are not told, what this shell has under the same names."""
    if not isinstance(facts.variables, Unasked):
        return facts.variables
    return {name: environment[name] for name in read if environment.get(name)}


def _of_variables(
    facts: GitHubFacts, variables: Mapping[str, str], read: Mapping[str, object], tables: Known
) -> Iterator[Condition]:
    if isinstance(facts.variables, Unasked):
        names = ", ".join(sorted(variables)) or "none is set"
        why = facts.variables.why
        detail = f"not those of the repository ({why}); of this shell: {names}"
        verdict: Stand = "wrong" if facts.variables.wrong else "unlooked"
        yield Condition("variables", verdict, detail, facts.variables.next_step)
        yield from judge_values(variables, tables)
        return
    problems = (*judge_names(variables, read), *judge_values(variables, tables))
    yield from with_plain_values(problems, variables)


def _of_store(what: Visit, variables: Mapping[str, str]) -> tuple[Condition, ...]:
    address = variables.get(STORE, "").strip()
    if not address:
        detail = "there is none: results are GitHub's artifacts of each run, and nothing is published"
        step = f"for an index: gh variable set {STORE} --repo {what.repository} --body s3://BUCKET/PREFIX"
        return (Condition("store", "note", detail, step),)
    if not address.lower().startswith("s3://"):
        # Told of as the value of its variable.
        return ()
    region = variables.get(REGION, "").strip() or what.table.region
    prefixes = {one.name: one.prefix for one in load_table("channels", Channels, what.overlay).channel}
    channels = [prefixes[name] for name in (what.profile.stage, what.profile.promote) if name]
    pages = [f"{prefix}/index.html" for prefix in channels]
    facts = ask_store(address, region, pages, what.environment)
    serves = what.profile.publish == "asked"
    return judge_store(facts, channels, serves=serves, role=what.profile.role or "a role")


def _of_role(what: Visit, facts: GitHubFacts, variables: Mapping[str, str]) -> tuple[Condition, ...]:
    variable = what.profile.role
    if not variable or not variables.get(STORE, "").strip():
        return ()
    arn = variables.get(variable, "").strip()
    if not arn:
        if isinstance(facts.variables, Unasked):
            why = f"whether {variable} is set: {facts.variables.why}"
            return (Condition("role", "unlooked", why, facts.variables.next_step, variable),)
        return (
            Condition(
                "role",
                "missing",
                f"{variable} is not set, so no run of {what.profile.name} may write to the store",
                f"gh variable set {variable} --repo {what.repository} --body arn:aws:iam::ACCOUNT:role/NAME",
                variable,
            ),
        )
    about = None if isinstance(facts.about, Unasked) else facts.about
    return judge_role(
        arn,
        ask_role(arn, what.environment),
        variable=variable,
        # A subject is compared letter by letter, as GitHub spells the name.
        repository=about.full_name if about else what.repository,
        branch=about.default_branch if about else "main",
        issuer=ISSUER if what.host == GITHUB else f"{what.host}/_services/token",
        longest=longest_role(what.files, variables),
    )


def _of_plan(
    what: Visit, facts: GitHubFacts, variables: Mapping[str, str], read: Mapping[str, object], tables: Known
) -> Iterator[Condition]:
    try:
        plan = _plan(what.profile, variables, read, tables)
    except UsageError:
        # Of a value that is told of with its variable.
        return
    lent = [one for row in what.table.lent for one in row.labels] if what.host == GITHUB else []
    wanted = wanted_labels(plan, tables.runners, what.table, variables)
    yield from judge_runners(wanted, facts, lent, repository=what.repository, read=read)
    yield from judge_rocm(plan, what.overlay)


def _plan(profile: Profile, variables: Mapping[str, str], read: Mapping[str, object], tables: Known) -> Plan:
    """What a run of the profile has, with the choices that its workflows make."""
    sources = sources_of(variables) or "upstream"
    # Workflows that read it test nothing on GPUs unless it asks for that.
    tested = families_to_test(variables.get(TESTED, "").strip() or "none") if TESTED in read else None
    choice = Choice(
        profile=profile.name,
        run_id=_RUN_ID,
        # The miniature family is Linux's alone.
        platforms=("linux",) if sources == "miniature" else (),
        tested=tested,
        sources=sources,
        rocm=choose_rocm(tables, usual=variables.get(ROCM, "").strip()),
    )
    return make_plan(profile, choice, tables, Publication(True, profile.publish == "asked"))


def judge_rocm(plan: Plan, overlay: Overlay | None = None) -> tuple[Condition, ...]:
    """Whether the index of a plan has what the plan builds for."""
    notes: list[str] = []
    try:
        require_offered(plan, overlay, note=notes.append)
    except InvalidInput as error:
        first, *rest = error.what.splitlines()
        lines = [line.strip("- ") for line in rest] or [first]
        return tuple(
            Condition("rocm", "missing", line, error.next_step or error.usual_step, line.partition(":")[0])
            for line in lines
        )
    except RocwrightError as error:
        return (Condition("rocm", "unlooked", error.what, error.next_step or error.usual_step),)
    if notes:
        return (Condition("rocm", "unlooked", notes[0].removeprefix("warning: "), "run it again"),)
    if not plan.rocm.by_others:
        return (Condition("rocm", "note", f"{plan.rocm.told}: it is looked at when a run begins"),)
    groups = len({group.name for group in plan.groups})
    return (Condition("rocm", "ok", f"{plan.rocm.told} has it for {groups} groups of families"),)
