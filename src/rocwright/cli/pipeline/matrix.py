"""`rocwright pipeline families | matrix | tests`: families, and the matrices of builds and tests.

Also known as `amdgpu_family_matrix.py`, `expand_amdgpu_families.py`, `configure_pytorch_release_matrix.py`
and `configure_pytorch_test_matrix.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from rocwright.cli.options import Text, Words
from rocwright.cli.reply import Reply, replies
from rocwright.data.overlay import read_overlay
from rocwright.model.platforms import Platform, this_platform
from rocwright.pipeline.define.inputs import known, profiles, words
from rocwright.pipeline.setup.families import build_matrix, expanded, family_rows, matrix_of_tests
from rocwright.system import console
from rocwright.system.workflow import tell_workflow


@replies
def pipeline_families(
    *,
    amdgpu_families: Words = (),
    output_mode: Literal["table", "targets", "device-extras"] | None = None,
    platform: Platform | None = None,
    tier: Literal["presubmit", "postsubmit", "nightly"] = "nightly",
    config: Path | None = None,
) -> Reply:
    """Show the families that the pipeline builds, where they are tested, and why some are not.

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
        return Reply(rows, lambda: console.table("families", head, [row.shown() for row in rows]))
    names = expanded(tables, amdgpu_families, platform, tier, extras=mode == "device-extras")
    if mode == "device-extras":
        tell_workflow([f"device_extras={','.join(names)}"])
    return Reply(names, lambda: console.out(",".join(names)))


@replies
def pipeline_matrix(
    *,
    release_type: Annotated[str, Parameter(env_var="RELEASE_TYPE")] = "dev",
    platform: Platform | None = None,
    python_versions: Words = (),
    pytorch_git_refs: Words = (),
    amdgpu_families: Words = (),
    config: Path | None = None,
) -> Reply:
    """Write the matrix of PyTorch builds: a row for each Python and branch, with the families that fit it.

    The line pytorch_matrix=[…] is appended to $GITHUB_OUTPUT, or printed where that is not set. `rocwright
    pipeline plan` shows which steps a run has.

    Parameters
    ----------
    release_type
        ci, dev, nightly or prerelease: the profile that decides what is not given.
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

    return Reply(rows, show)


@replies
def pipeline_tests(
    *,
    build_amdgpu_families: str,
    test_amdgpu_families: Text = "auto",
    platform: Platform | None = None,
    run_id: Annotated[str, Parameter(env_var="GITHUB_RUN_ID", show_default=False)] = "",
    config: Path | None = None,
) -> Reply:
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
        Decides which of several pools of machines a family gets.
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

    return Reply({"include": rows}, show)
