"""Steps that test a run's packages as a user would meet them, and say what they saw as statements."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec

from rocwright.compat.detector import detect
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.gputest import smoke
from rocwright.gputest.emulated.preload import preloaded
from rocwright.gputest.smoke import TestedEnvironment, Verdicts, smoke_tests
from rocwright.model.gpu import base_targets
from rocwright.model.sets import SetManifest, Statement
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.sources import family_projects
from rocwright.sdk.build import BuiltPackages
from rocwright.store.objects.serve import serving
from rocwright.store.statements import (
    Bypass,
    Required,
    Result,
    SuiteResult,
    bypass_statement,
    result_statement,
)
from rocwright.system import venv
from rocwright.system.files import content_digest, remove_tree, require_space, shipped_directory
from rocwright.system.venv import Closed
from rocwright.wheel.tags import parse_wheel_name

TEST_TOOLS = ("pytest==8.4.2",)
# Of a reason why a test was skipped.
WANT_OF_GPU = re.compile(r"\bno (AMD )?GPU\b")
# The suites that a release needs; the last needs a GPU.
ROCM_SUITE, HOST_SUITE, GPU_SUITE = "rocm-sdk", "smoke-host", "smoke-gpu"


class Tested(TestedEnvironment, frozen=True):
    """What was installed and tested; `files` are the digests of the family's wheels that were offered.

    `find_links` is the page of these wheels, `rocm` that of ROCm's packages.
    """

    files: dict[str, str] = msgspec.field(default_factory=dict)
    find_links: str = ""
    rocm: str = ""


def installation_step(options: RunOptions, installer: str, needs: tuple[str, ...]) -> Step:
    """`test-pip` / `test-uv`: install from both pages of the run into a fresh environment, run its tests."""
    workspace = options.workspace
    name = f"test-{installer}"

    def act(inputs: Inputs, note: Note) -> Tested:
        packages = inputs.get("rocm-packages", BuiltPackages)
        uploaded = inputs.get("upload-pytorch", UploadedRun)
        need = sum(file.installed for file in packages.files) * (2 if installer == "uv" else 1)
        require_space(workspace.root, need, purpose=f"the environment of {name}")
        log = workspace.log(name)
        root = workspace.environment(name)
        cache = workspace.root / f"{installer}-cache"
        try:
            with serving(options.store) as url:
                note(f"installing with {installer}")
                pages = (f"{url}{uploaded.rocm}index.html", f"{url}{uploaded.prefix}index.html")
                environment, seconds = smoke.install_fresh(
                    root,
                    wheel_requirements(uploaded.files, family_projects(options), options.extensions),
                    Closed(find_links=pages),
                    python=Path(options.interpreter.path),
                    installer=installer,
                    cache=cache,
                    log=log,
                )
            venv.pip_install(environment, TEST_TOOLS, closed=None, log=log)
            note("testing")
            result = Tested(
                installer=installer,
                installed=venv.installed(environment),
                install_s=round(seconds, 2),
                gpus=gpus_here(),
                rocm_sdk=smoke.run_rocm_sdk_test(environment, log=log),
                smoke=smoke.run_pytest(
                    environment,
                    _smoke_tests(options),
                    workspace.root / "reports" / f"{name}.xml",
                    env={"EXPECT_TARGETS": ";".join(options.targets)},
                    log=log,
                ),
                files=uploaded.files,
                find_links=uploaded.find_links,
                rocm=options.store.url(f"{uploaded.rocm}index.html"),
            )
        finally:
            # Two gigabytes each; what they showed is in the result and the log.
            remove_tree(root)
            remove_tree(cache)
        return result

    return Step(
        id=name,
        result=Tested,
        act=act,
        needs=needs,
        rooms=("gputest", "system/venv.py", "store/objects"),
        facts=lambda: {
            "tests": content_digest(_smoke_tests(options)),
            "targets": options.targets,
            "python": options.interpreter.name,
        },
        summary=_test_summary,
    )


def gpus_here() -> tuple[str, ...]:
    """Targets of this machine's GPUs; none in a process whose GPUs an emulator plays."""
    return () if preloaded(os.environ) else tuple(gpu.target for gpu in detect().gpus)


def _smoke_tests(options: RunOptions) -> Path:
    """Those of the family that is built: the miniature's know what it leaves out."""
    if options.sources == "miniature":
        return shipped_directory("examples") / "mini-pytorch" / "smoke-tests"
    return smoke_tests()


def pinned_requirements(
    manifest: SetManifest, projects: Sequence[str], extensions: Sequence[str] = ()
) -> tuple[str, ...]:
    """Exact pins of the projects in the set, with all their device code; what they depend on follows.

    Of `extensions` those that are there: a run may go on without one that failed.
    """
    return _pins({entry.project: entry.version for entry in manifest.files}, projects, extensions)


def wheel_requirements(
    files: Iterable[str], projects: Sequence[str], extensions: Sequence[str] = ()
) -> tuple[str, ...]:
    """The same among wheels by their file names."""
    versions = {str(found[0]): str(found[1]) for found in map(parse_wheel_name, files)}
    return _pins(versions, projects, extensions)


def _pins(versions: Mapping[str, str], projects: Sequence[str], extensions: Sequence[str]) -> tuple[str, ...]:
    def extra(project: str) -> str:
        split = any(name.startswith(f"amd-{project}-device-") for name in versions)
        return "[device-all]" if split else ""

    named = (*projects, *(one for one in extensions if one in versions))
    return tuple(f"{project}{extra(project)}=={versions[project]}" for project in named)


def _test_summary(value: TestedEnvironment) -> str:
    def counts(verdicts: Verdicts) -> str:
        text = f"{verdicts.passed} passed, {verdicts.failed} failed"
        return f"{text}, {verdicts.skipped} skipped" if verdicts.skipped else text

    return f"rocm-sdk {counts(value.rocm_sdk)}; smoke {counts(value.smoke)}; install {value.install_s:.1f} s"


def tested_statements(manifest: SetManifest, tested: Sequence[TestedEnvironment]) -> list[Statement]:
    """What the test environments showed, as statements about the set; the GPU suite by target."""
    if not tested:
        return []
    statements: list[Statement] = []
    host_passed = True
    for suite, verdicts in (
        (ROCM_SUITE, [one.rocm_sdk for one in tested]),
        (HOST_SUITE, [one.smoke for one in tested]),
    ):
        good = all(one.failed == 0 and one.passed > 0 for one in verdicts)
        host_passed &= good
        detail = "; ".join(
            f"{one.installer}: {v.passed} passed, {v.failed} failed"
            for one, v in zip(tested, verdicts, strict=True)
        )
        statements.append(_test(manifest, suite, "passed" if good else "failed", runner=True, detail=detail))
    gpu = [
        _gpu_statement(manifest, target, tested, host_passed=host_passed)
        for target in manifest.targets or ("",)
    ]
    return [*statements, *gpu]


def _gpu_statement(
    manifest: SetManifest, target: str, tested: Sequence[TestedEnvironment], *, host_passed: bool
) -> Statement:
    """GPU tests are part of the smoke tests, which skip them for want of a GPU and say so.

    Nothing counts as passed on a GPU that was not there, or that the tests did not use.
    """
    skipped = max(len(list(filter(WANT_OF_GPU.search, one.smoke.skip_reasons))) for one in tested)
    if skipped or not all(_has(one, target) for one in tested):
        detail = f"{skipped} tests need a GPU; this machine has none that they could use"
        return _test(manifest, GPU_SUITE, "skipped", runner=False, detail=detail, target=target)
    detail = f"ran with the host suite on {' '.join(sorted({gpu for one in tested for gpu in one.gpus}))}"
    result: Result = "passed" if host_passed else "failed"
    return _test(manifest, GPU_SUITE, result, runner=True, detail=detail, target=target)


def _has(tested: TestedEnvironment, target: str) -> bool:
    """Whether the machine had a GPU of this target; any, where the set names none."""
    if not target:
        return bool(tested.gpus)
    return set(base_targets([target])) <= set(base_targets(tested.gpus))


def _test(
    manifest: SetManifest, suite: str, result: Result, *, runner: bool, detail: str, target: str = ""
) -> Statement:
    said = SuiteResult(suite, manifest.family, result, runner, detail=detail, target=target)
    return result_statement(manifest, said)


def demo_bypasses(manifest: SetManifest, today: date) -> list[Statement]:
    """The demo lifts want of a GPU for today, target by target, and says so."""
    return [
        bypass_statement(
            manifest,
            Bypass(
                required=Required(GPU_SUITE, manifest.family, target),
                reason="the miniature family, stand-ins and not PyTorch, on a machine without an AMD GPU",
                expires=today,
            ),
        )
        for target in manifest.targets or ("",)
    ]
