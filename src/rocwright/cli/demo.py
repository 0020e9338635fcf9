"""`rocwright demo`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rocwright.cli.answer import Answer, answers
from rocwright.cli.numbers import OptionalCount
from rocwright.cli.show_demo import finished, say_beginning, show
from rocwright.data import load_table
from rocwright.engine.run import run
from rocwright.model.gpu import parse_targets
from rocwright.pipeline.demo import demo_graph, preflight, record_demo
from rocwright.pipeline.options import RunOptions, Workspace, default_cache
from rocwright.system import console
from rocwright.system.cores import available_cores


class _Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    targets: tuple[str, ...]
    torch_ref: str


@answers(before="list_steps")
def demo(
    *,
    work_dir: Path = Path("demo"),
    cache_dir: Path | None = None,
    rocm_prefix: Path | None = None,
    rocm_version: str | None = None,
    family: str | None = None,
    targets: str | None = None,
    jobs: OptionalCount = None,
    refresh: bool = False,
    list_steps: bool = False,
) -> Iterator[Answer]:
    """Take real ROCm to a tested release of a miniature PyTorch family, on this machine, as any user.

    Needs no root, GPU, ROCm or Docker. Run it again to resume; what has not changed is not done again.

    Parameters
    ----------
    work_dir
        Everything the run makes; delete it to start afresh.
    cache_dir
        Downloaded ROCm packages (default: ~/.cache/rocwright).
    rocm_prefix
        A ROCm installation to package instead of the distribution's.
    rocm_version
        Its version, where the installation does not say.
    family
        Name of the target family; becomes part of rocm-sdk-libraries-NAME.
    targets
        GPU targets to compile for, separated by commas.
    jobs
        Steps and compilers at once (default: this machine's cores).
    refresh
        Ask the distribution for newer packages.
    json
        Print each step's figures and result, and what is told at the end, as JSON on stdout.
    list_steps
        Only print the steps and what each needs.
    """
    defaults = load_table("demo", _Defaults)
    chosen = parse_targets(targets) if targets is not None else parse_targets(" ".join(defaults.targets))
    options = RunOptions(
        workspace=Workspace(work_dir.resolve()),
        cache=(cache_dir or default_cache()).resolve(),
        targets=tuple(map(str, chosen)),
        torch_ref=defaults.torch_ref,
        rocm_prefix=rocm_prefix.resolve() if rocm_prefix else None,
        rocm_version=rocm_version,
        family=family,
        jobs=jobs or available_cores(),
        refresh=refresh,
        own=True,
    )
    graph = demo_graph(options)
    if list_steps:
        console.table("Steps", ("step", "needs"), [(step.id, " ".join(step.needs)) for step in graph.steps])
        return None
    preflight(options)
    say_beginning(options, len(graph.steps))
    progress = console.Progress(total=len(graph.steps), cached=False, beats=True, every_s=10)
    report = run(graph, options.workspace.state, jobs=options.jobs, progress=progress)
    ended = finished(report, options, record_demo(graph, report, options))
    yield Answer(ended, lambda: show(ended, options))
