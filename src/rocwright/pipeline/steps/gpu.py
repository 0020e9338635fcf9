"""Steps on a machine with a GPU: ROCm's packages and the family's wheels as users of that GPU meet them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.data.overlay import Overlay
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.gputest import smoke
from rocwright.gputest.devices import probe, select
from rocwright.gputest.environment import fresh_cache
from rocwright.gputest.isolate.run import Teller, run_recorded
from rocwright.gputest.skips.entries import families_table, generic_targets, load_entries
from rocwright.gputest.smoke import SmokeSetting, Verdicts, plan_smoke, smoke_tests
from rocwright.model.gpu import base_targets
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import RunRecord
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.sources import family_projects
from rocwright.pipeline.steps.testing import TEST_TOOLS, wheel_requirements
from rocwright.store.objects.serve import serving
from rocwright.system import venv
from rocwright.system.days import today
from rocwright.system.files import content_digest, remove_tree
from rocwright.system.venv import Closed, Environment


class SuiteRun(msgspec.Struct, frozen=True):
    """One suite on one target (empty: on the host), as its verdicts; without a report nothing passed."""

    suite: str
    target: str
    verdicts: Verdicts
    complete: bool

    @property
    def good(self) -> bool:
        """Whether it ran to its end and at least one test passed and none failed."""
        return self.complete and self.verdicts.passed > 0 and self.verdicts.failed == 0


class GpuTested(msgspec.Struct, frozen=True):
    """What a machine with a GPU of `family` saw; `files` are the wheels that it was offered.

    `find_links` is the page of what was tested, `rocm` that of ROCm's packages. `asked` is the level of tests
    that the run was asked for, with tests by name; what was run stands in `suites`.
    """

    family: str
    installed: dict[str, str]
    find_links: str
    suites: tuple[SuiteRun, ...]
    files: dict[str, str]
    rocm: str = ""
    asked: str = ""


def rocm_test_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`test-rocm`: ROCm's packages in a fresh environment, and `rocm-sdk test` there."""
    workspace = options.workspace
    name = "test-rocm"

    def act(inputs: Inputs, note: Note) -> GpuTested:
        uploaded = inputs.get("upload-rocm", UploadedRun)
        log, root = workspace.log(name), workspace.environment(name)
        try:
            note("installing")
            wanted = [f"rocm[libraries,devel]=={_version_of_rocm(uploaded)}"]
            environment = _installed(options, root, wanted, [uploaded.prefix], log)
            note("testing")
            verdicts = smoke.run_rocm_sdk_test(environment, log=log)
            found = venv.installed(environment)
        finally:
            remove_tree(root)
        suites = (SuiteRun("rocm-sdk", "", verdicts, True),)
        page = uploaded.find_links
        return GpuTested(options.gpu_family, found, page, suites, uploaded.files, page)

    return Step(
        id=name,
        result=GpuTested,
        act=act,
        needs=needs,
        rooms=("gputest", "system/venv.py"),
        facts=lambda: {"family": options.gpu_family},
        summary=_summary,
    )


def pytorch_test_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`test-pytorch`: the family's wheels from both pages, smoke tests on the host and each architecture."""
    workspace = options.workspace
    name = "test-pytorch"

    def act(inputs: Inputs, note: Note) -> GpuTested:
        uploaded = inputs.get("upload-pytorch", UploadedRun)
        log, root = workspace.log(name), workspace.environment(name)
        try:
            note("installing")
            wanted = wheel_requirements(uploaded.files, family_projects(options))
            environment = _installed(options, root, wanted, [uploaded.rocm, uploaded.prefix], log)
            venv.pip_install(environment, TEST_TOOLS, closed=None, log=log)
            note("testing")
            reports = workspace.root / "reports" / name
            suites = run_smoke(
                environment.python, smoke_tests(), reports, options.gpu_family, note, options.overlay
            )
            found = venv.installed(environment)
        finally:
            remove_tree(root)
        page, rocm = uploaded.find_links, options.store.url(f"{uploaded.rocm}index.html")
        return GpuTested(options.gpu_family, found, page, suites, uploaded.files, rocm, options.tests)

    return Step(
        id=name,
        result=GpuTested,
        act=act,
        needs=needs,
        rooms=("gputest", "system/venv.py", "data"),
        facts=lambda: {
            "family": options.gpu_family,
            "tests": content_digest(smoke_tests()),
            "asked": options.tests,
        },
        summary=_summary,
    )


def _installed(
    options: RunOptions, root: Path, wanted: Sequence[str], prefixes: Sequence[str], log: Path
) -> Environment:
    with serving(options.store) as url:
        environment, _ = smoke.install_fresh(
            root,
            wanted,
            Closed(find_links=tuple(f"{url}{prefix}index.html" for prefix in prefixes)),
            installer="pip",
            cache=root,
            log=log,
            python=Path(options.interpreter.path),
        )
    return environment


def _version_of_rocm(uploaded: UploadedRun) -> str:
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
    return tuple(map(_suite_run, records))


def _suite_run(record: RunRecord) -> SuiteRun:
    target = base_targets([record.ran.target])[0] if record.ran.target else ""
    return SuiteRun(record.ran.suite, target, smoke.verdicts_of(record.results), record.complete)


def _summary(value: GpuTested) -> str:
    def told(one: SuiteRun) -> str:
        counts = f"{one.verdicts.passed} passed, {one.verdicts.failed} failed"
        return f"{one.suite}{f' on {one.target}' if one.target else ''} {counts}"

    asked = f"; {value.asked} tests were asked for" if value.asked not in ("", "quick") else ""
    return "; ".join(map(told, value.suites)) + asked
