"""The demo: the pipeline's own steps, from real ROCm to a tested release of the miniature family."""

from __future__ import annotations

import shutil

from rocwright.compat.doctor import PROGRAMS
from rocwright.errors import MissingTool, UsageError
from rocwright.model.gpu import parse_targets
from rocwright.pipeline.graph import Graph, make_graph
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.release import (
    check_rocm_step,
    check_step,
    promote_step,
    stage_step,
    upload_rocm_step,
    upload_torch_step,
)
from rocwright.pipeline.steps.rocm import rocm_steps
from rocwright.pipeline.steps.sources import projects, source_steps
from rocwright.pipeline.steps.testing import installation_step
from rocwright.pipeline.steps.torch import build_steps


def preflight(options: RunOptions) -> None:
    """Raise `MissingTool` that names every program the demo needs and this machine lacks, before any work."""
    needed = list(PROGRAMS)
    if options.rocm_prefix is None:
        needed += [("apt-get", "fetch ROCm", "apt"), ("dpkg-deb", "unpack ROCm", "dpkg")]
    missing = [row for row in needed if shutil.which(row[0]) is None]
    if not missing:
        return
    what = "; ".join(f"{program} (to {purpose})" for program, purpose, _ in missing)
    if {program for program, _, _ in missing} <= {"apt-get", "dpkg-deb"}:
        next_step = "give any ROCm installation with --rocm-prefix DIR"
    else:
        next_step = "install " + " ".join(package for _, _, package in missing) + " and run again"
    raise MissingTool(f"not found on PATH: {what}", next_step=next_step)


def demo_graph(options: RunOptions) -> Graph:
    """ROCm → packages → sources → wheels → check → store → test → promote, as one graph."""
    if not options.targets:
        raise UsageError("no GPU target to build for", next_step="give --targets, e.g. gfx90a")
    # Options can be made without the command line, which parses them too.
    parse_targets(" ".join(options.targets))
    family = projects()
    return make_graph(
        [
            *rocm_steps(options),
            check_rocm_step(options),
            upload_rocm_step(options),
            *source_steps(options),
            *build_steps(options),
            check_step(options, family),
            upload_torch_step(options, family),
            stage_step(options, family),
            installation_step(options, family, "pip"),
            installation_step(options, family, "uv"),
            promote_step(options, family),
        ]
    )
