"""The text of a workflow, or of an action."""

from __future__ import annotations

import msgspec

from rocwright.errors import MissingTool
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.render.github.values import CompositeAction, Workflow

# What a reader of permissions asks.
_PERMITTED = "a role is assumed with it, to write to the store"
HEAD = "# Rendered by `rocwright pipeline render` from src/rocwright/pipeline/define; do not edit.\n"


def workflow_text(workflow: Workflow | CompositeAction, table: WorkflowTable) -> str:
    """As YAML, with the version of each action beside its commit. Raises `MissingTool` without PyYAML."""
    try:
        import yaml
    except ImportError as error:
        raise MissingTool(
            "workflows are written with PyYAML, which is not installed",
            next_step="pip install 'rocwright[pipeline]'",
        ) from error
    text: str = yaml.safe_dump(msgspec.to_builtins(workflow), sort_keys=False, width=110, allow_unicode=True)
    # A word that YAML 1.1 takes for true; GitHub reads 1.2.
    text = text.replace("'on':\n", "on:\n", 1)
    text = text.replace("id-token: write\n", f"id-token: write # {_PERMITTED}\n")
    for action in table.action:
        text = text.replace(f"{action.pinned}\n", f"{action.pinned} # {action.version}\n")
    return HEAD + text
