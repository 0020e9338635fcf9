"""`rocwright install-rocm`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from rocwright.builder.rocm.install import INDEX_WAIT_S, RETRY_EVERY_S, rocm_requirement
from rocwright.builder.rocm.install import install_rocm as install
from rocwright.builder.rocm.place import closed_places, find_environment
from rocwright.builder.rocm.rocm import Rocm
from rocwright.cli.build_options import Packages, Place, words
from rocwright.cli.reply import Reply, replies
from rocwright.errors import UsageError
from rocwright.pipeline.options import default_cache
from rocwright.system import console, files
from rocwright.system.venv import Environment

_PACKAGES = Packages()


class Installed(msgspec.Struct, frozen=True):
    """What came of it."""

    environment: str
    rocm: Rocm
    log: str


@replies
def install_rocm(
    *,
    rocm_environment: Place = None,
    packages: Packages = _PACKAGES,
    install_retry_timeout_seconds: float = INDEX_WAIT_S,
    install_retry_wait_between_seconds: float = RETRY_EVERY_S,
) -> Reply:
    """Install ROCm's packages with everything that a build needs into a Python environment.

    Nothing but the given places is asked. What the environment has of ROCm already is installed anew.

    Parameters
    ----------
    rocm_environment
        Where to: a virtual environment or its interpreter (default: $VIRTUAL_ENV, else the one this runs in).
    install_retry_timeout_seconds
        How long an index may take to show what was just uploaded; 0 asks once.
    install_retry_wait_between_seconds
        How often it is asked.
    json
        Print the result as JSON.
    """
    done = install_into(
        find_environment(rocm_environment, os.environ),
        packages,
        wait_s=install_retry_timeout_seconds,
        every_s=install_retry_wait_between_seconds,
    )

    def show() -> None:
        rocm = done.rocm
        rows = [
            ("version", rocm.version),
            ("root", rocm.root),
            ("bin", rocm.bin),
            ("cmake", rocm.cmake),
            ("targets", " ".join(rocm.targets) or "no device code (add --rocm-extras device-gfx...)"),
            ("environment", done.environment),
        ]
        console.table("ROCm", ("what", "is"), rows)

    return Reply(done, show)


def install_into(
    environment: Environment,
    packages: Packages,
    *,
    wait_s: float = INDEX_WAIT_S,
    every_s: float = RETRY_EVERY_S,
    log: Path | None = None,
) -> Installed:
    """Install what the options ask for; talks on the way. `log` is written anew."""
    if wait_s < 0 or every_s <= 0:
        raise UsageError(
            "the seconds to wait for an index are negative, or 0 between two questions",
            next_step="give 0 or more to wait in all, and more than 0 between two questions",
        )
    places = closed_places(packages.index_url, packages.find_links)
    extras = words(packages.rocm_extras)
    rocm_requirement(packages.rocm_sdk_version, extras)
    log = log or default_cache() / "log" / "install-rocm.log"
    files.make_directory(log.parent)
    files.write_text(log, "")
    console.say(f"installing ROCm into {environment.root} (log: {log})")
    rocm = install(
        environment,
        places,
        spec=packages.rocm_sdk_version,
        extras=extras,
        pre=packages.pre,
        pip_cache_dir=packages.pip_cache_dir,
        index_wait_s=wait_s,
        index_every_s=every_s,
        log=log,
        note=console.say,
    )
    return Installed(str(environment.root), rocm, str(log))
