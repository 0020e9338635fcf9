"""Steps that test a staged set as a user would meet it, and say what they saw as statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

import msgspec

from rocwright.compat.detector import detect
from rocwright.gputest import smoke
from rocwright.gputest.smoke import TestedEnvironment, Verdicts
from rocwright.model.manifest import SetManifest
from rocwright.model.statement import TEST, Statement, about_set
from rocwright.pipeline.graph import Inputs, Note, Step
from rocwright.pipeline.options import RunOptions
from rocwright.sdk.build import BuiltPackages
from rocwright.store.gate import Bypass, Policy, Required
from rocwright.store.serve import serving
from rocwright.system import venv
from rocwright.system.files import content_digest, remove_tree, require_space, shipped_directory
from rocwright.system.venv import Closed

TEST_TOOLS = ("pytest==8.4.2",)
_WANT_OF_GPU = re.compile(r"\bno (AMD )?GPU\b")
# The suites that a release needs; the last one needs a GPU.
ROCM_SUITE, HOST_SUITE, GPU_SUITE = "rocm-sdk", "smoke-host", "smoke-gpu"


class StagedSet(msgspec.Struct, frozen=True):
    """A checked set in the staging channel."""

    set_id: str
    prefix: str
    index_url: str
    manifest: SetManifest


def installation_step(options: RunOptions, projects: Sequence[str], installer: str) -> Step:
    """`test-pip` / `test-uv`: install the staged set over HTTP into a fresh environment, run its tests."""
    workspace = options.workspace
    name = f"test-{installer}"

    def act(inputs: Inputs, note: Note) -> TestedEnvironment:
        packages = inputs.get("rocm-packages", BuiltPackages)
        staged = inputs.get("stage", StagedSet)
        need = sum(file.installed for file in packages.files) * (2 if installer == "uv" else 1)
        require_space(workspace.root, need, purpose=f"the environment of {name}")
        log = workspace.log(name)
        root = workspace.environment(name)
        cache = workspace.root / f"{installer}-cache"
        try:
            with serving(workspace.store) as url:
                note(f"installing with {installer}")
                environment, seconds = smoke.install_fresh(
                    root,
                    pinned_requirements(staged.manifest, projects),
                    Closed(index_url=f"{url}{staged.prefix}"),
                    installer=installer,
                    cache=cache,
                    log=log,
                )
            venv.pip_install(environment, TEST_TOOLS, closed=None, log=log)
            note("testing")
            tests = shipped_directory("examples") / "mini-pytorch" / "smoke-tests"
            result = TestedEnvironment(
                installer=installer,
                installed=venv.installed(environment),
                install_s=round(seconds, 2),
                gpus=tuple(gpu.target for gpu in detect().gpus),
                rocm_sdk=smoke.run_rocm_sdk_test(environment, log=log),
                smoke=smoke.run_pytest(
                    environment,
                    tests,
                    workspace.root / "reports" / f"{name}.xml",
                    env={"EXPECT_TARGETS": ";".join(options.targets)},
                    log=log,
                ),
            )
        finally:
            # Two gigabytes each; what they showed is in the result and the log.
            remove_tree(root)
            remove_tree(cache)
        return result

    return Step(
        id=name,
        result=TestedEnvironment,
        act=act,
        needs=("rocm-packages", "stage"),
        rooms=("gputest", "system/venv.py", "store/serve.py"),
        facts=lambda: {
            "tests": content_digest(shipped_directory("examples") / "mini-pytorch" / "smoke-tests"),
            "targets": options.targets,
        },
        summary=_test_summary,
    )


def pinned_requirements(manifest: SetManifest, projects: Sequence[str]) -> tuple[str, ...]:
    """Exact pins of the projects in the set; what they depend on follows."""
    versions = {entry.project: entry.version for entry in manifest.files}
    return tuple(f"{project}=={versions[project]}" for project in projects)


def _test_summary(value: TestedEnvironment) -> str:
    def counts(verdicts: Verdicts) -> str:
        text = f"{verdicts.passed} passed, {verdicts.failed} failed"
        return f"{text}, {verdicts.skipped} skipped" if verdicts.skipped else text

    return f"rocm-sdk {counts(value.rocm_sdk)}; smoke {counts(value.smoke)}; install {value.install_s:.1f} s"


def tested_statements(manifest: SetManifest, tested: Sequence[TestedEnvironment]) -> list[Statement]:
    """What the test environments showed, as statements about the set; the GPU suite by its skips."""
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
    statements.append(_gpu_statement(manifest, tested, host_passed=host_passed))
    return statements


def _gpu_statement(
    manifest: SetManifest, tested: Sequence[TestedEnvironment], *, host_passed: bool
) -> Statement:
    """GPU tests are part of the smoke tests, which skip them for want of a GPU and say so.

    Nothing counts as passed on a GPU that was not there, or that the tests did not use.
    """
    skipped = max(len(list(filter(_WANT_OF_GPU.search, one.smoke.skip_reasons))) for one in tested)
    if skipped or not all(one.gpus for one in tested):
        detail = f"{skipped} tests need a GPU; this machine has none that they could use"
        return _test(manifest, GPU_SUITE, "skipped", runner=False, detail=detail)
    result = "passed" if host_passed else "failed"
    where = " ".join(sorted({gpu for one in tested for gpu in one.gpus}))
    return _test(manifest, GPU_SUITE, result, runner=True, detail=f"ran with the host suite on {where}")


def _test(manifest: SetManifest, suite: str, result: str, *, runner: bool, detail: str) -> Statement:
    return about_set(
        manifest,
        TEST,
        {"suite": suite, "family": manifest.family, "result": result, "runner": runner, "detail": detail},
    )


def demo_policy(family: str, today: date) -> Policy:
    """The demo's own policy: all suites required; want of a GPU is bypassed for today, and said so."""
    return Policy(
        required=tuple(Required(suite, family) for suite in (ROCM_SUITE, HOST_SUITE, GPU_SUITE)),
        today=today,
        bypasses=(
            Bypass(
                required=Required(GPU_SUITE, family),
                reason="demonstration on a machine without an AMD GPU; the channel is a local folder",
                expires=today,
            ),
        ),
    )
