"""The smoke tests: those of the host once, those of a GPU on each chosen one, as runs of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from rocwright.errors import InvalidInput
from rocwright.gputest.devices import DeviceGroup, device_env, rocm_of
from rocwright.gputest.environment import child_environment, unwanted
from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.skips.hold import entries_that_hold
from rocwright.model.platforms import Platform
from rocwright.model.skips import Here, SkipEntry
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import Ran, RunRecord, TorchFacts
from rocwright.system.files import shipped_directory

# A release needs both; the second for each of its targets.
HOST_SUITE, GPU_SUITE = "smoke-host", "smoke-gpu"
# Read by the tests: on another GPU, or on none, they fail.
EXPECTED = "SMOKE_TARGET"


@dataclass(frozen=True)
class SmokeRun:
    """One run: what it is called, what is isolated, and where its record goes."""

    ran: Ran
    isolation: Isolation
    directory: Path


@dataclass(frozen=True)
class SmokeSetting:
    """What is tested with what: the torch of `python`, the options for pytest, the entries that may hold.

    `test_s` are the seconds that one test may take. `inherited` is the caller's environment.
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
    """The host's run, which sees no GPU, and one for each group of GPUs; nothing is run or written."""
    host, gpu = _files(tests, "test_host_*.py"), _files(tests, "test_gpu_*.py")
    runs = [_run(tests, setting, table, families, host, None, "default")]
    for group in groups:
        alike = [one for one in groups if one.target == group.target]
        # Several GPUs of one target have runs of their own, which names must tell apart.
        config = "default" if len(alike) == 1 else f"gpu{group.devices[0].index}"
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
        "removed": list(plan.drop_env),
        "skip entries": [entry.id for entry in plan.entries],
        "limit of one test": plan.test_s,
        "record": str(run.directory),
    }
