"""`rocwright pipeline families`, also known as `amdgpu_family_matrix.py` and `expand_amdgpu_families.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from rocwright.cli.answer import Answer, answers
from rocwright.cli.pipeline_options import Several
from rocwright.data.overlay import read_overlay
from rocwright.model.platforms import Platform
from rocwright.pipeline.define.known import known
from rocwright.pipeline.setup.matrix import expanded, family_rows
from rocwright.system import console
from rocwright.system.workflow import tell_workflow


@answers
def pipeline_families(
    *,
    amdgpu_families: Several = (),
    output_mode: Literal["table", "targets", "device-extras"] | None = None,
    platform: Platform | None = None,
    tier: Literal["presubmit", "postsubmit", "nightly"] = "nightly",
    config: Path | None = None,
) -> Answer:
    """Show the families that the pipeline builds, where they are tested, and what excuses them from it.

    With --amdgpu-families their GPU targets, separated by commas, or the extras that install device code for
    them; these are appended to $GITHUB_OUTPUT, too, as device_extras.

    Parameters
    ----------
    amdgpu_families
        Families or targets, separated by semicolons, commas or spaces (default: those of the tier).
    output_mode
        The table, targets, or extras (default: targets of families that are named, else the table).
    platform
        Only what is built there.
    tier
        Families of this tier and of those before it.
    config
        A rocwright.toml (default: that of the current directory, if there is one).
    json
        Print the rows as JSON, with the names that workflows know them by.
    """
    tables = known(read_overlay(config), os.environ)
    mode = output_mode or ("targets" if amdgpu_families else "table")
    if mode == "table":
        rows = family_rows(tables, amdgpu_families, platform, tier)
        head = ("family", "tier", "platform", "targets", "runners", "notes")
        return Answer(rows, lambda: console.table("families", head, [row.shown() for row in rows]))
    names = expanded(tables, amdgpu_families, platform, tier, extras=mode == "device-extras")
    if mode == "device-extras":
        tell_workflow([f"device_extras={','.join(names)}"])
    return Answer(names, lambda: console.out(",".join(names)))
