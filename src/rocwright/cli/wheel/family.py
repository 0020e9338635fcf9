"""`rocwright wheel sanity-check | torch-versions | cp-version`: what a build job asks of its wheels."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.check.loading import load_contract
from rocwright.check.run import sanity_check as check_folder
from rocwright.cli.help import names_family
from rocwright.cli.options import OptionalCount, given_targets
from rocwright.cli.reply import Reply, replies
from rocwright.cli.show_check import overlay_lines, show_report, verdict
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.model.platforms import Platform, this_platform
from rocwright.model.project import ProjectTable
from rocwright.system import console
from rocwright.system.limits import available_cores
from rocwright.system.workflow import tell_workflow
from rocwright.wheel.tags import cp_version as cp_of
from rocwright.wheel.tags import family_versions


@names_family
@replies
def sanity_check(
    wheel_dir: Path,
    /,
    *,
    expect: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    python_version: str | None = None,
    platform: Platform | None = None,
    targets: str | None = None,
    jobs: OptionalCount = None,
) -> Iterator[Reply]:
    """Check the wheels that a build of the PyTorch family has just made.

    Everything that `rocwright check` requires of each wheel; {required} must also be there, and fit this
    Python and platform. A wheel of less than 100 KiB, or with a version that does not name ROCm, is a
    warning.

    Parameters
    ----------
    wheel_dir
        The directory that the build wrote to.
    expect
        A project that must be there, instead of {required}; may be repeated.
    python_version
        The Python that the wheels are for, such as 3.12 (default: the one that runs this).
    platform
        linux or windows (default: this machine's).
    targets
        GPU targets that torch and its extensions must hold code for, separated by commas.
    jobs
        Threads (default: this machine's cores).
    """
    projects = load_table("projects", ProjectTable, read_overlay()).projects
    chosen = platform or this_platform()
    for line in overlay_lines(read_overlay()):
        console.say(line)
    report = check_folder(
        wheel_dir,
        projects=[project.name for project in projects],
        # What no platform may lack.
        expect=expect or [project.name for project in projects if not project.optional("windows")],
        python=python_version or f"{sys.version_info[0]}.{sys.version_info[1]}",
        platform=chosen,
        targets=given_targets(targets) or None,
        contract=load_contract(read_overlay()),
        jobs=jobs or available_cores(),
    )
    yield Reply(report.predicate(), lambda: show_report(report))
    verdict(report)


@names_family
@replies
def torch_versions(
    *,
    dist_dir: Path | None = None,
    platform: Platform | None = None,
) -> Reply:
    """Say which version of each project of the PyTorch family a directory holds.

    Prints {versions},
    and appends the same lines to the file `$GITHUB_OUTPUT`. A project that is not there, or there in several
    versions, is an error; on Windows {optional} may be missing.

    Parameters
    ----------
    dist_dir
        The directory with the wheels (default: $PACKAGE_DIST_DIR).
    platform
        linux or windows, where the wheels do not say (default: this machine's).
    """
    said = os.environ.get("PACKAGE_DIST_DIR")
    folder = dist_dir or (Path(said) if said else None)
    if folder is None:
        raise UsageError("no directory given", next_step="give --dist-dir, or set PACKAGE_DIST_DIR")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory", next_step="give the directory that holds the wheels")
    found = family_versions(
        (path.name for path in folder.iterdir() if path.suffix == ".whl"),
        load_table("projects", ProjectTable, read_overlay()).projects,
        platform or this_platform(),
    )
    for name in found.missing:
        console.say(f"note: there is no wheel of {name}, which is allowed on {found.platform}")
    named = {f"{name}_version": version for name, version in found.versions.items()}
    return _named_reply(named, "GITHUB_OUTPUT")


@replies
def cp_version(
    *,
    python_version: str,
    write_env_file: bool = True,
) -> Reply:
    """Say how wheel tags spell a version of Python: `cp_version=cp312-cp312` for 3.12.

    It is the name of the Python below /opt/python in manylinux images. The line is appended to the file
    `$GITHUB_ENV`, too.

    Parameters
    ----------
    python_version
        Such as 3.12, or 3.13t for the free-threaded build.
    write_env_file
        Write to $GITHUB_ENV.
    """
    named = {"cp_version": cp_of(python_version)}
    return _named_reply(named, "GITHUB_ENV" if write_env_file else None)


def _named_reply(named: dict[str, str], variable: str | None) -> Reply:
    """To the workflow and to stdout; a workflow that is not there is said."""
    lines = [f"{name}={value}" for name, value in named.items()]
    if variable is not None and not tell_workflow(lines, variable):
        console.say(f"warning: {variable} is not set, so this is only printed and no workflow reads it")
    return Reply(named, lambda: console.out("\n".join(lines)))
