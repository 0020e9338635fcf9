"""`rocwright demo`: what it says at its beginning, what it does, and what it says at its end."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from rocwright.cli.options import OptionalCount
from rocwright.cli.reply import Reply, replies
from rocwright.data import load_table
from rocwright.engine.run import RunReport, StepRecord, run
from rocwright.model.gpu import parse_targets
from rocwright.pipeline.demo import demo_graph, preflight, record_demo
from rocwright.pipeline.options import RunOptions, Workspace, default_cache
from rocwright.pipeline.steps.gate import Released
from rocwright.pipeline.steps.publish import StagedSet
from rocwright.pipeline.steps.testing import WANT_OF_GPU, Tested
from rocwright.system import console
from rocwright.system.limits import available_cores
from rocwright.system.progress import Progress
from rocwright.system.venv import uv_command

# Below the work directory. Split wheels have the names of whole ones, and no store has both under one name.
_SPLIT_STORE = "split-store"


class _Defaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    targets: tuple[str, ...]
    torch_ref: str
    projects: tuple[str, ...]


@replies(before="list_steps")
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
) -> Iterator[Reply]:
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
        Print each step's figures and result, and the closing report, as JSON on stdout.
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
        projects=defaults.projects,
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
    progress = Progress(total=len(graph.steps), cached=False)
    report = run(graph, options.workspace.state, jobs=options.jobs, progress=progress)
    ended = finished(report, options, record_demo(graph, report, options))
    yield Reply(ended, lambda: show(ended, options))


V = TypeVar("V", bound=msgspec.Struct)


class DemoReport(msgspec.Struct, frozen=True):
    """A finished demo: its steps as `RunReport` has them, where to look, and lines that work as they stand.

    `install` are lines by installer, `not_tested` the tests that wanted a GPU, by suite, `skipped` counts all
    others that were skipped, `next` are commands to try on what was made; the last of them serves it. The two
    lines of `by_gpu` install the device code of whatever GPU the machine has, once those of `next` were run.
    """

    steps: tuple[StepRecord, ...]
    wall_s: float
    cpu_s: float
    peak_rss: int
    release_page: str
    run_page: str
    install: dict[str, str]
    not_tested: dict[str, tuple[str, ...]]
    skipped: int
    next: tuple[str, ...]
    by_gpu: tuple[str, ...]


def say_beginning(options: RunOptions, steps: int) -> None:
    """What is about to happen, before anything does."""
    rocm = str(options.rocm_prefix) if options.rocm_prefix else "the distribution's ROCm packages"
    console.say(f"From {rocm} to a tested release of a miniature PyTorch family, in {steps} steps.")
    if not options.workspace.state.exists():
        console.say(f"Everything goes to {_short(options.workspace.root)}, downloads to {options.cache}.")
        console.say("It takes two to three minutes and 5 GB. Stop it at any time; the same command resumes.")


def finished(report: RunReport, options: RunOptions, page: Path) -> DemoReport:
    """The report with what a user does next."""
    released = _value(report, "promote", Released)
    work, store = options.workspace.root, options.workspace.store
    tests = [_value(report, f"test-{name}", Tested) for name in ("pip", "uv")]
    # Both installers run the same tests.
    reasons = {"rocm-sdk test": tests[0].rocm_sdk.skip_reasons, "smoke tests": tests[0].smoke.skip_reasons}
    wanting = {suite: tuple(filter(WANT_OF_GPU.search, held)) for suite, held in reasons.items()}
    pip_env, uv_env = (_short(work / f"try-{name}") for name in ("pip", "uv"))
    python, uv = _short(Path(sys.executable)), _program(Path(uv_command()))
    uv_line = released.uv_line.replace("uv pip install", f"{uv} pip install --python {uv_env}", 1)
    return DemoReport(
        *(report.steps, report.wall_s, report.cpu_s, report.peak_rss),
        release_page=store.joinpath("v2", "index.html").as_uri(),
        run_page=page.as_uri(),
        install={
            "pip": f"{python} -m venv {pip_env} && {pip_env}/bin/{released.pip_line}",
            "uv": f"{uv} venv --quiet --clear --python {python} {uv_env} && {uv_line}",
        },
        not_tested={suite: tuple(map(_test, held)) for suite, held in wanting.items() if held},
        skipped=sum(map(len, reasons.values())) - sum(map(len, wanting.values())),
        next=tuple(_next(report, options)),
        by_gpu=_by_gpu(report, options),
    )


def _next(report: RunReport, options: RunOptions) -> Iterator[str]:
    rocwright = _program(Path(sys.executable).with_name("rocwright"))
    workspace = options.workspace
    store, split = _short(workspace.store), _short(workspace.root / "split")
    family = _value(report, "stage", StagedSet).manifest.family
    torch = next(iter(workspace.torch_wheels.glob("torch-*.whl")))
    yield f"{rocwright} check {_short(workspace.rocm_wheels)} {_short(workspace.torch_wheels)}"
    yield f"{rocwright} wheel split {_short(torch)} --variants --output-dir {split}"
    yield f"{rocwright} kpack verify {split}"
    # The release itself stays whole: the HIP runtime of a distribution may be older than split device code.
    triton = _short(next(iter(workspace.torch_wheels.glob("triton-*.whl"))))
    yield (
        f"{rocwright} set create {_short(workspace.rocm_wheels)} {triton} {split} --family {family} "
        f"--no-install --stage --store {_short(workspace.root / _SPLIT_STORE)}"
    )
    index = _value(report, "promote", Released).index_url
    yield f"{rocwright} detect --target {options.targets[0]} --index {index}"
    yield f"{rocwright} set show release:{family} --store {store}"
    yield f"{rocwright} pipeline show --run-id {options.run_id} --store {store}"
    yield f"{rocwright} store serve --store {store} --port 0"


def _by_gpu(report: RunReport, options: RunOptions) -> tuple[str, ...]:
    """The line that makes a view of the split wheels for this machine, and that by which uv installs."""
    work = options.workspace.root
    family = _value(report, "stage", StagedSet).manifest.family
    index = (work / _SPLIT_STORE / "v2-staging" / family).as_uri()
    rocwright, uv = _program(Path(sys.executable).with_name("rocwright")), _program(Path(uv_command()))
    view, env, python = work / "view", _short(work / "try-view"), _short(Path(sys.executable))
    return (
        f"{rocwright} detect --index {index}/ --view {_short(view)}",
        f"{uv} venv --quiet --clear --python {python} {env} && {uv} pip install --python {env} "
        f"--preview-features wheel-variants --index {view.as_uri()} torch",
    )


def show(report: DemoReport, options: RunOptions) -> None:
    """The end, for people: how the steps went, on stderr; what was made and what to do with it."""
    console.say(_how_it_went(report))
    released = next(
        msgspec.json.decode(step.value, type=Released) for step in report.steps if step.id == "promote"
    )
    workspace = options.workspace
    console.out(f"\nReleased: set {released.set_id[:12]} (gate {released.decision.rule})")
    console.out(f"  release page  {report.release_page}")
    console.out(f"  run page      {report.run_page}")
    console.out(f"  packages      {_short(workspace.rocm_wheels)} {_short(workspace.torch_wheels)}")
    console.out(f"  logs          {_short(workspace.root / 'log')}")
    console.out("\nInstall it with pip or with uv (the miniature family: stand-ins, not PyTorch):")
    for line in report.install.values():
        console.out(f"  {line}")
    if report.not_tested:
        console.out("\nNot tested, because there is no AMD GPU; the gate accepts that for today:")
        for suite, tests in report.not_tested.items():
            console.out(f"  {suite}: {_folded(tests)}")
    if report.skipped:
        console.out(f"Skipped for other reasons: {report.skipped} tests; {_short(workspace.log('test-pip'))}")
    console.out("\nTry next:")
    for line in report.next:
        console.out(f"  {line}")
    console.out("\nThen, on a machine with an AMD GPU, its device code without naming it:")
    for line in report.by_gpu:
        console.out(f"  {line}")
    console.out("\nPyTorch itself, on a ROCm that it supports: docs/how-to/build-wheels.md")


def _how_it_went(report: DemoReport) -> str:
    cached = sum(step.state == "cached" for step in report.steps)
    count, took = len(report.steps), f"{report.wall_s:.1f} s"
    if cached == count:
        return f"{count} steps, all as before ({took})"
    before = f"{cached} as before, {count - cached} done" if cached else "all done"
    cost = f"{report.cpu_s:.0f} CPU s, largest process {console.human_bytes(report.peak_rss)}"
    return f"{count} steps, {before} in {took} ({cost})"


def _value(report: RunReport, id_: str, type_: type[V]) -> V:
    return msgspec.json.decode(next(step.value for step in report.steps if step.id == id_), type=type_)


def _test(reason: str) -> str:
    """A test's name without its file and the reason: `path/test_smoke.py::test_x[torch]: no GPU`."""
    return re.sub(r": .*", "", reason.rpartition("::")[2], count=1)


def _folded(tests: Sequence[str]) -> str:
    """Tests with their parameters together: `test_x (a, b), test_y`."""
    held: dict[str, list[str]] = {}
    for test in tests:
        name, _, parameter = test.partition("[")
        held.setdefault(name, []).append(parameter.rstrip("]"))
    return ", ".join(name + (f" ({', '.join(ones)})" if any(ones) else "") for name, ones in held.items())


def _program(path: Path) -> str:
    """How a shell calls a program: by its name where that finds this one."""
    found = shutil.which(path.name)
    return path.name if found and Path(found) == path else _short(path)


def _short(path: Path) -> str:
    """A path for a command line: relative where it is below the current directory."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
