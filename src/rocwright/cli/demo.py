"""`rocwright demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from rocwright.data import load_table
from rocwright.model.gpu import parse_targets
from rocwright.pipeline.demo import demo_graph, preflight
from rocwright.pipeline.local import RunReport, run
from rocwright.pipeline.options import RunOptions, Workspace, default_cache
from rocwright.pipeline.steps.promote import Released
from rocwright.pipeline.steps.upload import UploadedRun
from rocwright.sdk.build import BuiltPackages
from rocwright.system import console
from rocwright.system.cores import available_cores


class _Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    targets: tuple[str, ...]
    torch_ref: str


def demo(
    *,
    work_dir: Path = Path("demo"),
    cache_dir: Path | None = None,
    rocm_prefix: Path | None = None,
    rocm_version: str | None = None,
    family: str | None = None,
    targets: str | None = None,
    jobs: int | None = None,
    refresh: bool = False,
    json: Annotated[bool, Parameter(name="--json")] = False,
    list_steps: bool = False,
) -> None:
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
        Print each step's figures and result as JSON on stdout.
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
    if not list_steps:
        preflight(options)
    else:
        console.table("Steps", ("step", "needs"), [(step.id, " ".join(step.needs)) for step in graph.steps])
        return
    progress = console.Progress(total=len(graph.steps))
    report = run(graph, options.workspace.state, jobs=options.jobs, progress=progress)
    if json:
        console.out_json(report)
    else:
        _show(report, options)


def _show(report: RunReport, options: RunOptions) -> None:
    released = msgspec.json.decode(report.steps[-1].value, type=Released)
    rows = [(step.id, step.state, f"{step.wall_s:.1f}", step.summary) for step in report.steps]
    console.out("")
    console.table("What was done", ("step", "state", "seconds", "result"), rows, right=(2,))
    console.out("")
    console.out(
        f"{report.wall_s:.1f} s, {report.cpu_s:.1f} CPU s, largest process {report.peak_rss / 1e6:.0f} MB"
    )
    workspace = options.workspace
    console.out("")
    console.out(f"ROCm packages  {workspace.rocm_wheels}")
    console.out(f"wheels         {workspace.torch_wheels}")
    console.out(f"store          {workspace.store}")
    console.out(f"logs           {workspace.root / 'log'}")
    console.out(f"gate           {released.decision.rule}: {released.decision.reason}")
    console.out("")
    console.out(
        "Install what was released (the miniature family: stand-ins under the real names, not PyTorch):"
    )
    console.out(f"  {released.pip_line}")
    console.out("")
    places = msgspec.json.decode(
        next(step.value for step in report.steps if step.id == "upload-rocm"), type=UploadedRun
    )
    rocm = msgspec.json.decode(
        next(step.value for step in report.steps if step.id == "rocm-packages"), type=BuiltPackages
    )
    console.out(_REAL.format(find_links=places.find_links, rocm=rocm.version))


_REAL = """\
The real PyTorch goes the same way, in an empty directory, with ROCm from any index or from
`rocwright sdk import`:
  rocwright checkout all --pytorch-version 2.9
  rocwright build --lock sources.lock.json --find-links {find_links} \\
      --pytorch-rocm-arch gfx90a --output-dir wheels
It needs the network, a ROCm as new as PyTorch's release notes ask for (the one above is {rocm}), about 5 CPU
hours for one target with most options off and 1.5 more for each further target (measured on translation
units of PyTorch 2.6, not on a whole build), and 20 GB of disk (estimate). Nothing here was ever run on an
AMD GPU."""
