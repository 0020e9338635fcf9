"""`rocwright store artifacts`: the documented `artifact_manager.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.numbers import Count
from rocwright.cli.run_options import RunOptions
from rocwright.cli.store_fetch import fetched
from rocwright.cli.store_options import Text

store_artifacts = App(name="artifacts", help="Fetch the artifacts of a run as artifact_manager.py does.")
_WHOSE = RunOptions()


@store_artifacts.command
@answers
def fetch(
    *,
    output_dir: Path,
    run_id: str | None = None,
    stage: Literal["all"] = "all",
    amdgpu_families: Text = "",
    amdgpu_targets: Text = "",
    exclude: Annotated[
        tuple[str, ...], Parameter(consume_multiple=True, negative=(), show_default=False)
    ] = (),
    jobs: Count = 4,
    dry_run: bool = False,
    whose: RunOptions = _WHOSE,
) -> Answer:
    """Fetch the artifacts of a run into OUTPUT_DIR/artifacts; else as `rocwright store fetch`.

    Parameters
    ----------
    output_dir
        A directory of a build; the artifacts go to artifacts/ in it.
    run_id
        The run (default: the latest that succeeded and has what is wanted).
    stage
        Artifacts of all stages of the build.
    amdgpu_families
        Families, separated by spaces, commas or semicolons; all that the run has without it.
    amdgpu_targets
        Of the families only these targets.
    exclude
        Names or patterns of artifacts to leave out.
    jobs
        Downloads at once.
    dry_run
        Say what would be fetched, and fetch nothing.
    json
        Print the result as JSON.
    """
    return fetched(
        (),
        run_id,
        artifact_group=amdgpu_families,
        amdgpu_targets=amdgpu_targets,
        output_dir=output_dir / "artifacts",
        exclude=exclude,
        extract=True,
        jobs=jobs,
        dry_run=dry_run,
        whose=whose,
    )
