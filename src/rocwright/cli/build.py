"""`rocwright build`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.build.run.family import build_family, find_projects
from rocwright.data import load_table
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.model.gpu import parse_targets
from rocwright.model.project import ProjectTable
from rocwright.pipeline.options import available_cores
from rocwright.sources.changes import verify_checkouts
from rocwright.sources.lock import read_lock
from rocwright.system import console
from rocwright.system.venv import Closed


def build(
    *,
    output_dir: Path,
    pytorch_rocm_arch: str,
    index_url: str | None = None,
    find_links: list[str] | None = None,
    rocm_sdk_version: str = ">1.0",
    root_checkout_dir: Path = Path(),
    lock: Path | None = None,
    environment_dir: Path = Path("build-env"),
    release_type: str = "release",
    jobs: int | None = None,
    json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Build wheels of every project of the PyTorch family that is checked out, against ROCm from wheels.

    Order: triton, torch, torchaudio, torchvision, apex. Nothing but the given places is asked for ROCm.

    Parameters
    ----------
    output_dir
        Where the wheels go; made if it is not there.
    pytorch_rocm_arch
        GPU targets to compile for, separated by commas.
    index_url
        Index that has the ROCm packages.
    find_links
        Page or directory that has the ROCm packages; may be given several times.
    rocm_sdk_version
        Which ROCm, with its operator: ==7.10.0.
    root_checkout_dir
        Directory that holds pytorch, pytorch_audio, pytorch_vision, triton, apex.
    lock
        A lock of the sources: exactly its projects are built, and nothing is built unless every checkout is
        what the lock says.
    environment_dir
        The build environment; made anew.
    release_type
        ci, dev, nightly, prerelease or release; decides the wheels' version.
    jobs
        Compilers at once.
    json
        Print the result as JSON.
    """
    if not index_url and not find_links:
        raise UsageError("no place to take ROCm from", next_step="give --index-url or --find-links")
    sources = find_projects(_directories(root_checkout_dir.resolve(), lock))
    built = build_family(
        sources,
        Closed(index_url=index_url, find_links=tuple(find_links or ())),
        output_dir.resolve(),
        environment_dir=environment_dir.resolve(),
        targets=tuple(str(target) for target in parse_targets(pytorch_rocm_arch)),
        rocm_spec=rocm_sdk_version,
        release_type=release_type,
        jobs=jobs or available_cores(),
        log_dir=environment_dir.resolve().with_name(environment_dir.name + "-logs"),
        note=console.say,
    )
    if json:
        console.out_json(built)
    else:
        rows = [(w.project, w.path, console.human_bytes(w.size), f"{w.wall_s:.0f}") for w in built]
        console.table("Wheels", ("project", "wheel", "size", "seconds"), rows, right=(2, 3))


def _directories(root: Path, lock: Path | None) -> dict[str, Path]:
    """Where each project may lie; those of a lock are compared with it first."""
    if lock is None:
        rows = load_table("projects", ProjectTable, read_overlay()).projects
        return {row.name: root / row.directory for row in rows}
    held = read_lock(lock)
    directories = {source.project: root / source.directory for source in held.sources}
    verify_checkouts(held, directories)
    console.say(f"the checkouts in {root} are those of {lock}")
    return directories
