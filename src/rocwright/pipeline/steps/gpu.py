"""Steps on a machine with a GPU: ROCm's packages and the family's wheels as users of that GPU meet them."""

from __future__ import annotations

import os
from pathlib import Path

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.gputest import smoke
from rocwright.gputest.devices import probe, select
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.isolate.run import Teller, run_recorded
from rocwright.gputest.shards.level import parse_shard
from rocwright.gputest.skips.entries import families_table, generic_targets, load_entries
from rocwright.gputest.smoke import SmokeSetting, plan_smoke, smoke_tests
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SuiteTable
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.own_tests import (
    CHECKOUT,
    GpuTested,
    SuiteRun,
    component_suites,
    install_of_run,
    none_of_miniature,
    own_facts_of,
    own_suites,
    require_files,
    suite_run,
    summary_of,
    tested_wheels,
)
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.sources import family_projects
from rocwright.pipeline.steps.testing import gpus_here
from rocwright.system import venv
from rocwright.system.days import today
from rocwright.system.files import content_digest, remove_tree
from rocwright.system.venv import Environment


def rocm_test_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`test-rocm`: ROCm's packages in a fresh environment, `rocm-sdk test` there, and ROCm's own tests."""
    workspace = options.workspace
    name = "test-rocm"

    def act(inputs: Inputs, note: Note) -> GpuTested:
        uploaded = inputs.get("upload-rocm", UploadedRun)
        log, root = workspace.log(name), workspace.environment(name)
        try:
            note("installing")
            wanted = [f"rocm[libraries,devel]=={rocm_version_of(uploaded)}"]
            environment = install_of_run(options, root, wanted, [uploaded.prefix], log)
            note("testing")
            verdicts = smoke.run_rocm_sdk_test(environment, log=log)
            found = venv.installed(environment)
            gpus = gpus_here()
            components, reports = component_suites(options, environment, uploaded, gpus, log)
        finally:
            remove_tree(root)
        suites = (SuiteRun("rocm-sdk", "", verdicts, True), *components)
        page = uploaded.find_links
        return GpuTested(
            family=options.gpu_family,
            installed=found,
            find_links=page,
            suites=suites,
            files=uploaded.files,
            rocm=page,
            asked=options.tests,
            reports=reports,
        )

    return Step(
        id=name,
        result=GpuTested,
        act=act,
        needs=needs,
        rooms=("gputest", "system/venv.py"),
        facts=lambda: {"family": options.gpu_family, "asked": options.tests},
        summary=summary_of,
    )


def pytorch_test_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`test-pytorch`: the family's wheels from both pages, smoke tests and PyTorch's own on each target.

    The smoke tests, on the host too, belong to the first shard.
    """
    upstream = options.sources == "upstream"

    def suites_of(
        environment: Environment, inputs: Inputs, reports: Path, note: Note
    ) -> tuple[tuple[SuiteRun, ...], tuple[str, ...]]:
        suites = _smoke(options, environment, reports / "smoke", note)
        if not upstream:
            return (*suites, none_of_miniature()), ()
        own, told = own_suites(options, environment, inputs, reports / "own", note)
        return (*suites, *own), told

    def act(inputs: Inputs, note: Note) -> GpuTested:
        if upstream:
            require_files(options, inputs)
        return tested_wheels(options, "test-pytorch", inputs, family_projects(options), suites_of, note)

    return Step(
        id="test-pytorch",
        result=GpuTested,
        act=act,
        needs=(*needs, CHECKOUT) if upstream else needs,
        rooms=("gputest", "system/venv.py", "data"),
        facts=lambda: (
            own_facts_of(options) | {"family": options.gpu_family, "tests": content_digest(smoke_tests())}
        ),
        summary=summary_of,
    )


def _smoke(options: RunOptions, environment: Environment, reports: Path, note: Note) -> tuple[SuiteRun, ...]:
    shard = parse_shard(options.shard)
    if shard.config or shard.number > 1:
        return ()
    return run_smoke(environment.python, smoke_tests(), reports, options.gpu_family, note, options.overlay)


def rocm_version_of(uploaded: UploadedRun) -> str:
    """By the name of the selector, which is there once: `rocm-7.1.tar.gz`."""
    (name,) = (name for name in uploaded.files if name.startswith("rocm-"))
    return name.removeprefix("rocm-").removesuffix(".tar.gz").partition("-")[0]


def run_smoke(
    python: Path, tests: Path, reports: Path, family: str, note: Note, overlay: Overlay | None = None
) -> tuple[SuiteRun, ...]:
    """The smoke tests as `rocwright test smoke` runs them. Raises `NoGpu` where the family has none here."""
    table = load_table("tests", SuiteTable, overlay)
    families = dict(families_table(overlay))
    facts = probe(python, drop_env=table.environment.removed, note=note)
    groups = select(facts, family, families, generic=generic_targets(overlay))
    remove_tree(reports)
    with fresh_cache() as cache:
        setting = SmokeSetting(
            python=python,
            facts=facts,
            platform=this_platform(),
            test_s=table.limits.smoke_s,
            reports=reports,
            miopen_cache=Path(cache),
            inherited=os.environ,
            today=today(),
            entries=load_entries(overlay=overlay),
        )
        runs = plan_smoke(tests, setting, groups, table, families)
        records = [run_recorded(run.ran, run.isolation, run.directory, Teller.of(note, ())) for run in runs]
    return tuple(map(suite_run, records))
