"""`rocwright pipeline doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rocwright.cli.options import Text
from rocwright.cli.pipeline.render import drifted
from rocwright.cli.reply import Reply, plain, replies
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import NotSetUp
from rocwright.model.workflows import WorkflowTable
from rocwright.pipeline.define.inputs import known, profiles
from rocwright.pipeline.doctor.conditions import Readiness
from rocwright.pipeline.doctor.repository import find_repository
from rocwright.pipeline.doctor.run import Visit, visit
from rocwright.pipeline.render.workflows import github_files
from rocwright.system import console


@replies
def pipeline_doctor(
    *,
    repository: Text = "",
    profile: Text = "ci",
    config: Path | None = None,
) -> Iterator[Reply]:
    """Examine a repository on GitHub: what its workflows still lack, each with the next step.

    GitHub is asked with the token of GITHUB_TOKEN or GH_TOKEN (at GITHUB_API_URL), AWS with the credentials
    here, the index of ROCm as it is. What cannot be asked is told as not looked at. Nothing is changed, but
    for a probe that is written to the store and removed again.

    Exit code 0 when nothing is missing or wrong, 16 otherwise.

    Parameters
    ----------
    repository
        As OWNER/NAME (default: $GITHUB_REPOSITORY, else by the remote origin of this checkout).
    profile
        The row of the profiles table whose runs are meant: ci, dev, emulated, nightly, release, or one of
        your own.
    config
        A rocwright.toml (default: that of the current directory, if there is one).
    json
        Print the result as JSON.
    """
    overlay, root = read_overlay(config), Path()
    name, host = find_repository(repository, root, os.environ)
    files = github_files(known().projects, profiles(), load_table("workflows", WorkflowTable))
    stale = [str(one.path) for one in drifted(files, root)] if (root / ".github").is_dir() else None
    found = visit(Visit(name, host, profiles(overlay).named(profile), files, stale, os.environ, overlay))
    yield Reply(found, lambda: show_readiness(found))
    if found.errors:
        what = "thing is" if found.errors == 1 else "things are"
        raise NotSetUp(f"{found.errors} {what} missing or wrong")


_HEAD = ("what", "verdict", "about", "detail")


def show_readiness(found: Readiness) -> None:
    """A table of how things stand, then what to do, a line each."""
    rows = [(one.id, one.verdict, one.about, one.detail) for one in found.conditions]
    console.table(f"{found.repository}, profile {found.profile}", _HEAD, rows)
    # Not in the table: a command is copied as a whole.
    for one in found.conditions:
        if one.next_step:
            about = f"{one.id} {one.about}".rstrip()
            console.out(plain(f"next for {about}: {one.next_step}"))
    if found.unlooked:
        console.say(f"{found.unlooked} of {len(found.conditions)} could not be looked at")
