"""The demo: the pipeline's own steps, from real ROCm to a tested release of the miniature family."""

from __future__ import annotations

from rocwright.errors import UsageError
from rocwright.model.gpu import parse_targets
from rocwright.pipeline.graph import Graph, make_graph
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.release import (
    check_step,
    promote_step,
    stage_step,
    test_step,
    upload_rocm_step,
    upload_torch_step,
)
from rocwright.pipeline.steps.rocm import rocm_steps
from rocwright.pipeline.steps.torch import build_steps, projects, source_steps


def demo_graph(options: RunOptions) -> Graph:
    """ROCm → packages → sources → wheels → check → store → test → promote, as one graph."""
    if not options.targets:
        raise UsageError("no GPU target to build for", next_step="give --targets, e.g. gfx90a")
    parse_targets(" ".join(options.targets))
    family = projects()
    return make_graph(
        [
            *rocm_steps(options),
            upload_rocm_step(options),
            *source_steps(options),
            *build_steps(options),
            check_step(options, family),
            upload_torch_step(options, family),
            stage_step(options, family),
            test_step(options, family, "pip"),
            test_step(options, family, "uv"),
            promote_step(options, family),
        ]
    )
