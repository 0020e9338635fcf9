"""The first job of a run: what the event starts, as a plan, and what the other jobs are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.model.plan import Choice, Plan
from rocwright.model.platforms import PLATFORMS
from rocwright.model.profile import Profile
from rocwright.pipeline.define.known import Known
from rocwright.pipeline.define.plan import make_plan
from rocwright.pipeline.records.plans import plan_key, read_plan, record_plan
from rocwright.pipeline.render.github.rows import workflow_outputs
from rocwright.pipeline.setup.change import changed_files
from rocwright.pipeline.setup.choose import Chosen, Reusable, Tables, choose
from rocwright.pipeline.setup.event import Event, read_event
from rocwright.pipeline.setup.publication import publication
from rocwright.pipeline.setup.triggers import Triggers
from rocwright.pipeline.tell.setup import setup_summary
from rocwright.store.objects.protocol import ObjectStore
from rocwright.system.markdown import cell as text


@dataclass(frozen=True)
class SetUp:
    """A decision and its plan; None where nothing is run."""

    chosen: Chosen
    plan: Plan | None


def workflow_event(environment: Mapping[str, str], tree: Path) -> Event:
    """The event of a workflow, with the files that it changes as far as the checkout knows them."""
    event = read_event(environment)
    if event.trigger not in ("pull_request", "push"):
        return event
    merged = event.trigger == "pull_request"
    return msgspec.structs.replace(event, changed=changed_files(tree, event.base, merged=merged))


def load_triggers(overlay: Overlay | None = None) -> Triggers:
    """The table of triggers, with a `rocwright.toml`; raises `InvalidData` naming file and field."""
    return load_table("triggers", Triggers, overlay)


def set_up(
    event: Event,
    profile: Profile,
    base: Choice,
    known: Known,
    triggers: Triggers,
    *,
    store: str | None,
    environment: Mapping[str, str],
    reusable: Reusable,
) -> SetUp:
    """What the event starts; `store` is None for the folder in the run's own directory. Nothing is written.

    Raises `UsageError` and `InvalidTarget` as `choose` and `make_plan`.
    """
    components = {name for held in known.projects.values() for name, _ in held}
    projects = tuple(sorted(components))
    tables = Tables(triggers, known.families, known.runners, projects, known.miniature.name)
    chosen = choose(event, profile, base, tables, reusable)
    if not chosen.run:
        return SetUp(chosen, None)
    allowed = publication(profile, chosen.choice, store, environment)
    return SetUp(chosen, make_plan(profile, chosen.choice, known, allowed))


def recorded(store: ObjectStore, plan: Plan, environment: Mapping[str, str]) -> Plan:
    """Record the plan of a run. A run that is attempted again keeps its plan, whatever was built meanwhile.

    Raises `InvalidInput` where the run has another plan in the store.
    """
    again = environment.get("GITHUB_RUN_ATTEMPT", "") not in ("", "1")
    if again and store.exists(plan_key(plan.run_id)):
        return msgspec.structs.replace(read_plan(store, plan.run_id), publication=plan.publication)
    record_plan(store, plan)
    return plan


def summary(done: SetUp, profile: str) -> tuple[str, ...]:
    """The decision for the first page of a workflow, as Markdown."""
    chosen = done.chosen
    trigger, *others = chosen.reasons
    more = [*others, *chosen.highlights, *chosen.notes]
    if done.plan is not None:
        return setup_summary(done.plan, trigger=trigger, highlights=more)
    return (f"## {text(profile)}: nothing is run", "", *(f"* {text(one)}" for one in (trigger, *more)), "")


def outputs(done: SetUp) -> dict[str, str]:
    """What the workflow is told, by name: each a line of text, lists as JSON."""
    chosen, plan = done.chosen, done.plan
    nothing = {"run_id": chosen.choice.run_id, "lock_sources": "[]"}
    nothing |= {f"{platform}_groups": "[]" for platform in PLATFORMS}
    said = nothing if plan is None else workflow_outputs(plan)
    return {
        "run": _flag(chosen.run),
        "upload": _flag(plan is not None and plan.publication.upload),
        "test_level": chosen.test_level,
        "tests": msgspec.json.encode(chosen.tests).decode(),
        "artifact_run_id": chosen.choice.rocm.at if chosen.choice.rocm.kind == "packages" else "",
        "summary": " ".join("; ".join(chosen.reasons).split()),
        **said,
    }


def output_lines(done: SetUp) -> list[str]:
    """`outputs` as a workflow reads them."""
    return [f"{name}={value}" for name, value in outputs(done).items()]


def _flag(value: bool) -> str:
    return "true" if value else "false"
