"""The demo: the pipeline's own steps, from real ROCm to a tested release of the miniature family."""

from __future__ import annotations

import shutil

from rocwright.build.decide.recipe import recipes
from rocwright.compat.doctor.building import PROGRAMS
from rocwright.errors import MissingTool, UsageError
from rocwright.model.gpu import parse_targets
from rocwright.pipeline.define.kinds import kinds
from rocwright.pipeline.graph import Graph, Step, make_graph
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.of_cell import steps_of_kind


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
    """ROCm → packages → sources → wheels → check → store → test → promote, as one graph.

    The kinds of a run on one machine, at one place, but for those that need a GPU.
    """
    if not options.targets:
        raise UsageError("no GPU target to build for", next_step="give --targets, e.g. gfx90a")
    # Options can be made without the command line, which parses them too.
    parse_targets(" ".join(options.targets))
    family = [(recipe.project, recipe.after) for recipe in recipes().recipe]
    found = kinds(family, split=False, parts=False, staged=True, promoted=True)
    wanted = [kind for kind in found if not kind.gpu]
    names = {kind.name for kind in wanted}
    steps: dict[str, Step] = {}
    for kind in wanted:
        needs = [need for need in kind.needs if need in names]
        steps |= {step.id: step for step in steps_of_kind(kind.name, options, needs) if step.id not in steps}
    return make_graph(steps.values())
