"""`rocwright pipeline tests`, also known as `configure_pytorch_test_matrix.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.pipeline_options import Text
from rocwright.data.overlay import read_overlay
from rocwright.model.platforms import Platform, this_platform
from rocwright.pipeline.define.known import known
from rocwright.pipeline.setup.matrix import matrix_of_tests
from rocwright.system import console
from rocwright.system.workflow import tell_workflow


@answers
def pipeline_tests(
    *,
    build_amdgpu_families: str,
    test_amdgpu_families: Text = "auto",
    platform: Platform | None = None,
    run_id: Annotated[str, Parameter(env_var="GITHUB_RUN_ID", show_default=False)] = "",
    config: Path | None = None,
) -> Answer:
    """Write the matrix of tests: a row for each family that was built and has a machine, with its label.

    The lines enabled= and matrix={"include": […]} are appended to $GITHUB_OUTPUT, or printed where that is
    not set; families without a runner are named.

    Parameters
    ----------
    build_amdgpu_families
        The families that were built, separated by semicolons, commas or spaces.
    test_amdgpu_families
        Those that are tested: auto (all that were built), none, or names.
    platform
        The platform (default: this one).
    run_id
        Which of several pools of machines a family gets follows from it.
    config
        A rocwright.toml (default: that of the current directory, if there is one).
    json
        Print the matrix as JSON.
    """
    rows, notes = matrix_of_tests(
        known(read_overlay(config), os.environ),
        built=[build_amdgpu_families],
        tested=test_amdgpu_families,
        platform=platform or this_platform(),
        seed=run_id,
    )
    for note in notes:
        console.say(note)
    enabled = "true" if rows else "false"
    lines = [f"enabled={enabled}", f"matrix={msgspec.json.encode({'include': rows}).decode()}"]
    told = tell_workflow(lines)

    def show() -> None:
        if not told:
            console.out("\n".join(lines))

    return Answer({"include": rows}, show)
