"""Install a set from an index into a fresh environment and run its own tests there.

Three outcomes are kept apart: passed, failed, and skipped for want of a GPU. A run in which every test was
skipped is not a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.errors import CommandFailed, InvalidInput
from rocwright.gputest.report.junit import read_junit
from rocwright.model.testing import CaseResult
from rocwright.system import venv
from rocwright.system.venv import Closed, Environment


class Verdicts(msgspec.Struct, frozen=True):
    """Counts of one test run, and the failures by name with their first line."""

    passed: int
    failed: int
    skipped: int
    failures: tuple[str, ...] = ()
    skip_reasons: tuple[str, ...] = ()


class TestedEnvironment(msgspec.Struct, frozen=True):
    """What was installed by which installer, on which GPUs (targets), and how its tests ended."""

    __test__ = False  # not a test class, whatever its name says to pytest

    installer: str
    installed: dict[str, str]
    install_s: float
    gpus: tuple[str, ...]
    rocm_sdk: Verdicts
    smoke: Verdicts


def install_fresh(
    root: Path,
    requirements: Sequence[str],
    places: Closed,
    *,
    installer: str,
    cache: Path,
    log: Path,
    python: Path | None = None,
) -> tuple[Environment, float]:
    """A new environment with `requirements` from the closed places; returns it and the seconds it took.

    A half-made environment of an interrupted run is replaced. `python` is whose (default: the running one).
    """
    environment = venv.create(root, python=python, log=log)
    if installer == "uv":
        done = venv.uv_install(environment, requirements, closed=places, cache=cache, log=log)
    else:
        done = venv.pip_install(environment, requirements, closed=places, log=log)
    return environment, done.wall_s


def run_rocm_sdk_test(environment: Environment, *, log: Path) -> Verdicts:
    """`rocm-sdk test --json` in the environment; a failing check is a verdict, not an exception."""
    done = environment.run([str(environment.bin / "rocm-sdk"), "test", "--json"], log=log, ok=(0, 1))
    return parse_rocm_sdk_report(done.stdout, where=str(log))


class _Check(msgspec.Struct, frozen=True):
    id: str
    verdict: Literal["passed", "failed", "skipped"]
    cause: str | None = None


class _SdkReport(msgspec.Struct, frozen=True):
    checks: tuple[_Check, ...]


def parse_rocm_sdk_report(text: str, *, where: str) -> Verdicts:
    """The JSON of `rocm-sdk test --json` as verdicts; raises `InvalidInput` when there is no report."""
    try:
        report = msgspec.json.decode(text, type=_SdkReport)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"rocm-sdk test printed no report: {error}", where=where) from error

    def ids(verdict: str) -> tuple[str, ...]:
        return tuple(
            f"{check.id}: {check.cause}" if check.cause else check.id
            for check in report.checks
            if check.verdict == verdict
        )

    failed, skipped = ids("failed"), ids("skipped")
    return Verdicts(len(ids("passed")), len(failed), len(skipped), failed, skipped)


def run_pytest(
    environment: Environment, tests: Path, report: Path, *, env: Mapping[str, str], log: Path
) -> Verdicts:
    """Run a directory of tests with pytest in the environment; verdicts come from its JUnit report.

    Raises `InvalidInput` when pytest did not run to its end or wrote no report: that is never a pass.
    """
    report.unlink(missing_ok=True)
    report.parent.mkdir(parents=True, exist_ok=True)
    try:
        environment.run(
            [str(environment.python), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
            + [f"--junit-xml={report}", str(tests)],
            cwd=report.parent,
            env=env,
            log=log,
            ok=(0, 1, 5),
        )
    except CommandFailed as error:
        # Interrupted, given up, killed: a report of the tests so far is no report of the run.
        raise InvalidInput(f"the tests did not run to their end: {error.what}", where=log) from error
    return verdicts_of(read_junit(report))


def verdicts_of(results: Iterable[CaseResult]) -> Verdicts:
    """The counts of a run; what an entry calls expected to fail says as little as what was skipped."""
    passed = 0
    failures: list[str] = []
    skips: list[str] = []
    for one in results:
        if one.bad:
            failures.append(f"{one.id}: {one.message}")
        elif one.verdict in ("skipped", "xfailed"):
            skips.append(f"{one.id}: {one.message}")
        else:
            passed += 1
    return Verdicts(passed, len(failures), len(skips), tuple(failures), tuple(skips))
