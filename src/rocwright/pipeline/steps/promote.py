"""The step that lists a tested set in its channel."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.model.channels import Channels
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.gate import Gated
from rocwright.pipeline.steps.sources import family_projects
from rocwright.pipeline.steps.stage import StagedSet, keys_of
from rocwright.pipeline.steps.testing import pinned_requirements
from rocwright.store.gate.decide import Decision
from rocwright.store.index.verify import verify_listed
from rocwright.store.sets.promote import promote
from rocwright.system.days import today


class Released(msgspec.Struct, frozen=True):
    """A promoted set: where it is served from, its keys in the store, the decision, how to install it.

    `why` says why the set was not promoted; then there is nothing to install.
    """

    set_id: str
    index_url: str
    files: tuple[str, ...]
    decision: Decision
    requirements: tuple[str, ...]
    pip_line: str
    uv_line: str
    why: str = ""


def promote_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`promote`: the set from staging to `v2/<family>/`, as the gate decided."""

    def act(inputs: Inputs, note: Note) -> Released:
        staged = inputs.get("stage", StagedSet)
        gated = inputs.get("gate", Gated)
        manifest = staged.manifest
        requirements = pinned_requirements(manifest, family_projects(options))
        if staged.why or not options.publication.channels:
            why = staged.why or options.publication.why or "dry run"
            return Released(staged.set_id, "", (), gated.decision, requirements, "", "", why)
        store = options.store
        channel = options.table("channels", Channels).named(options.channel or "release")
        released = promote(
            store, channel, manifest, gated.decision, gated.statements, datetime.now(timezone.utc)
        )
        verify_listed(store, released.prefix, manifest)
        return Released(
            set_id=released.set_id,
            index_url=released.index_url,
            files=keys_of(released.files),
            decision=gated.decision,
            requirements=requirements,
            pip_line=f"pip install --index-url {released.index_url} {' '.join(requirements)}",
            uv_line=f"uv pip install --index-url {released.index_url} {' '.join(requirements)}",
        )

    return Step(
        id="promote",
        result=Released,
        act=act,
        needs=needs,
        rooms=("store", "model"),
        facts=lambda: {
            "today": today().isoformat(),
            "channels": options.publication.channels,
            "own": options.overlaid("channels"),
        },
        outputs=lambda value: _outputs(options, value),
        summary=_summary,
    )


def _outputs(options: RunOptions, value: Released) -> tuple[Path, ...]:
    return tuple(options.workspace.store / key for key in value.files) if options.own else ()


def _summary(value: Released) -> str:
    said = f"set {value.set_id[:12]}"
    return f"{said} not promoted: {value.why}" if value.why else f"{said} promoted: {value.decision.rule}"
