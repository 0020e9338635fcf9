"""`rocwright pipeline matrix`, also known as `configure_pytorch_release_matrix.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.pipeline_options import Several
from rocwright.data.overlay import read_overlay
from rocwright.model.platforms import Platform, this_platform
from rocwright.pipeline.define.inputs import words
from rocwright.pipeline.define.known import known, profiles
from rocwright.pipeline.setup.matrix import build_matrix
from rocwright.system import console
from rocwright.system.workflow import tell_workflow


@answers
def pipeline_matrix(
    *,
    release_type: Annotated[str, Parameter(env_var="RELEASE_TYPE")] = "dev",
    platform: Platform | None = None,
    python_versions: Several = (),
    pytorch_git_refs: Several = (),
    amdgpu_families: Several = (),
    config: Path | None = None,
) -> Answer:
    """Write the matrix of PyTorch builds: a row for each Python and branch, with the families that fit it.

    The line pytorch_matrix=[…] is appended to $GITHUB_OUTPUT, or printed where that is not set. Which steps a
    run has says rocwright pipeline plan.

    Parameters
    ----------
    release_type
        ci, dev, nightly or prerelease: the profile that says what is not given.
    platform
        The platform (default: this one).
    python_versions
        Pythons, separated by commas, semicolons or spaces.
    pytorch_git_refs
        Branches or tags of PyTorch.
    amdgpu_families
        Families; those that a branch does not support are left out of its rows.
    config
        A rocwright.toml (default: that of the current directory, if there is one).
    json
        Print the rows as JSON.
    """
    overlay = read_overlay(config)
    rows = build_matrix(
        known(overlay, os.environ),
        profiles(overlay),
        release_type=release_type,
        platform=platform or this_platform(),
        pythons=words(python_versions),
        refs=words(pytorch_git_refs),
        families=amdgpu_families,
    )
    line = f"pytorch_matrix={msgspec.json.encode(rows).decode()}"
    told = tell_workflow([line])

    def show() -> None:
        if told:
            console.say(f"{len(rows)} builds written to $GITHUB_OUTPUT")
        else:
            console.out(line)

    return Answer(rows, show)
