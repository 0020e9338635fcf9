"""The smoke tests: as isolated runs for the host and for each chosen GPU, and of a freshly installed set.

A set is installed from an index into a fresh environment, where its own tests run. Three outcomes are kept
apart: passed, failed, and skipped for want of a GPU. A run in which every test was skipped is not a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from rocwright.emulator.session import Session
from rocwright.errors import CommandFailed, InvalidInput
from rocwright.gputest.devices import DeviceGroup, device_env, rocm_of
from rocwright.gputest.environment import child_environment, unwanted
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.report.junit import read_junit
from rocwright.gputest.skips.hold import entries_that_hold
from rocwright.model.platforms import Platform
from rocwright.model.suites import Here, SkipEntry, SuiteTable
from rocwright.model.testing import CaseResult, Ran, RunRecord, TorchFacts
from rocwright.system import venv
from rocwright.system.files import shipped_directory
from rocwright.system.venv import Closed, Environment

# A release needs both; the second for each of its targets.
HOST_SUITE, GPU_SUITE = "smoke-host", "smoke-gpu"
# Read by the tests: on another GPU, or on none, they fail.
EXPECTED = "SMOKE_TARGET"


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

    A half-made environment of an interrupted run is replaced. `python` is whose (default: this Python).
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


def rocm_sdk_checks(
    text: str, *, where: str
) -> tuple[tuple[str, Literal["passed", "failed", "skipped"], str], ...]:
    """Id, verdict and cause of each check of `rocm-sdk test --json`; raises `InvalidInput` for no report."""
    return tuple((one.id, one.verdict, one.cause or "") for one in _sdk_report(text, where=where).checks)


def _sdk_report(text: str, *, where: str) -> _SdkReport:
    try:
        return msgspec.json.decode(text, type=_SdkReport)
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"rocm-sdk test printed no report: {error}",
            where=where,
            next_step="see in that log what it printed, then run again",
        ) from error


def parse_rocm_sdk_report(text: str, *, where: str) -> Verdicts:
    """The JSON of `rocm-sdk test --json` as verdicts; raises `InvalidInput` when there is no report."""
    report = _sdk_report(text, where=where)

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
        raise InvalidInput(
            f"the tests did not run to their end: {error.what}",
            where=log,
            next_step="see in that log where they ended, then run again",
        ) from error
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


class SmokeRun(msgspec.Struct, frozen=True):
    """One run: what it is called, what is isolated, and where its record goes."""

    ran: Ran
    isolation: Isolation
    directory: Path


class SmokeSetting(msgspec.Struct, frozen=True):
    """What is tested with what: the torch of `python`, the options for pytest, the entries that may hold.

    `test_s` are the seconds that one test may take. `inherited` is the caller's environment. In a `session`
    the GPU is one that an emulator plays. `config` is what runs on the only GPU of a target are called.
    """

    python: Path
    facts: TorchFacts
    platform: Platform
    test_s: float
    reports: Path
    miopen_cache: Path
    inherited: Mapping[str, str]
    today: date
    pytest_args: tuple[str, ...] = ()
    entries: tuple[SkipEntry, ...] = ()
    session: Session | None = None
    config: str = "default"


def smoke_tests() -> Path:
    """The directory of the smoke tests."""
    return shipped_directory("external-builds") / "pytorch" / "smoke-tests"


def plan_smoke(
    tests: Path,
    setting: SmokeSetting,
    groups: Sequence[DeviceGroup],
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
) -> tuple[SmokeRun, ...]:
    """The host's run, which sees no GPU, and one for each group of GPUs; nothing is run or written.

    In a session of an emulator there is none of the host, which would tell nothing of it.
    """
    host, gpu = _files(tests, "test_host_*.py"), _files(tests, "test_gpu_*.py")
    runs = []
    if setting.session is None:
        runs.append(_run(tests, setting, table, families, host, None, "default"))
    for group in groups:
        alike = [one for one in groups if one.target == group.target]
        # Several GPUs of one target have runs of their own, which names must tell apart.
        config = setting.config if len(alike) == 1 else f"gpu{group.devices[0].index}"
        runs.append(_run(tests, setting, table, families, gpu, group, config))
    return tuple(runs)


def _files(tests: Path, pattern: str) -> tuple[str, ...]:
    found = tuple(sorted(path.name for path in tests.glob(pattern)))
    if not found:
        raise InvalidInput(f"{tests} has no {pattern}", where=tests, next_step="reinstall rocwright")
    return found


def _run(
    tests: Path,
    setting: SmokeSetting,
    table: SuiteTable,
    families: Mapping[str, tuple[str, ...]],
    files: tuple[str, ...],
    group: DeviceGroup | None,
    config: str,
) -> SmokeRun:
    facts = setting.facts
    target = "" if group is None else group.target
    rocm = rocm_of(facts.version)
    environment = child_environment(
        table,
        tests_dir=tests,
        miopen_cache=setting.miopen_cache,
        platform=setting.platform,
        inherited=setting.inherited,
        device="cpu" if group is None else "cuda",
        rocm=bool(facts.hip),
    )
    # What the caller expects of some GPU holds for none of these runs but its own.
    environment = environment.with_({EXPECTED: target})
    ran = Ran(
        suite=HOST_SUITE if group is None else GPU_SUITE,
        config=config,
        target=target,
        torch=facts.version,
        rocm=rocm,
        python=facts.python,
        platform=setting.platform,
        device="gpu" if setting.session is None else "emulated",
    )
    here = Here(target, setting.platform, facts.version, facts.python, rocm)
    directory = setting.reports / ran.key
    isolation = Isolation(
        python=setting.python,
        root=tests,
        files=files,
        # The tests may lie in an installation that is not ours to write to.
        pytest_args=("-p", "no:cacheprovider", *setting.pytest_args),
        env=environment.set,
        drop_env=tuple(sorted({*environment.removed, *unwanted(setting.inherited, facts.variable)})),
        workers=({facts.variable: ""} if group is None else device_env(group, facts),),
        entries=entries_that_hold(setting.entries, here, families, setting.today),
        test_s=setting.test_s,
        collect_s=table.limits.collect_s,
        end_s=table.limits.end_s,
        log_dir=directory / "logs",
    )
    if setting.session is not None:
        isolation = isolation.under(setting.session)
    return SmokeRun(ran, isolation, directory)


def chosen(records: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """The records without those that a selection left nothing of (`-k stream` is about GPUs alone).

    All of them where nothing ran at all.
    """
    kept = tuple(one for one in records if one.results or not one.complete or not one.deselected)
    return kept if any(one.results for one in kept) else tuple(records)


def shown_smoke(run: SmokeRun) -> dict[str, object]:
    """A run as plain values, for `--dry-run`."""
    plan = run.isolation
    return {
        "run": run.ran.key,
        "python": str(plan.python),
        "directory": str(plan.root),
        "files": list(plan.files),
        "pytest arguments": list(plan.pytest_args),
        "environment": {**plan.env, **plan.workers[0]},
        **({"behind": list(plan.before)} if plan.before else {}),
        "removed": list(plan.drop_env),
        "skip entries": [entry.id for entry in plan.entries],
        "limit of one test": plan.test_s,
        "record": str(run.directory),
    }
