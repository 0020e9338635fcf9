"""A step on a machine without a GPU: the run's packages on GPUs that an emulator plays, target by target."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rocwright.emulator.find import find_emulator, find_runtime
from rocwright.emulator.objects import LoadedCode, load_objects
from rocwright.emulator.values import Emulator, HipRuntime
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import InvalidInput
from rocwright.gputest.emulated.played import Played, played
from rocwright.gputest.emulated.smoke import test_torch
from rocwright.gputest.emulated.suites import installed_in, test_rocm
from rocwright.gputest.shards.level import NONE_TO_RUN
from rocwright.gputest.skips.entries import families_table, generic_targets, load_entries
from rocwright.gputest.smoke import SmokeSetting, Verdicts, smoke_tests
from rocwright.model.gpu import base_targets, expand, is_target
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SuiteTable
from rocwright.model.testing import TorchFacts
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.records import LeftOut
from rocwright.pipeline.steps.gpu import rocm_version_of
from rocwright.pipeline.steps.own_tests import GpuTested, SuiteRun, install_of_run, suite_run, summary_of
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.sources import family_projects
from rocwright.pipeline.steps.testing import TEST_TOOLS, wheel_requirements
from rocwright.system import venv
from rocwright.system.days import today
from rocwright.system.files import remove_tree
from rocwright.system.venv import Environment

NAME = "test-emulated"
# Every code object of what is installed, loaded by the runtime.
KERNELS_SUITE = "kernels"
_NAMED = 20


def emulated_test_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`test-emulated`: ROCm and the wheels as their users install them, on emulated GPUs of a family.

    Every code object for a target is loaded, ROCm's device test runs, and torch's smoke tests where PyTorch
    was built. A family that the emulator has no configuration for is left out, by name; without an emulator
    the step has failed.
    """

    def act(inputs: Inputs, note: Note) -> GpuTested:
        rocm, wheels = inputs.get("upload-rocm", UploadedRun), inputs.get("upload-pytorch", UploadedRun)
        root, log = options.workspace.environment(NAME), options.workspace.log(NAME)
        wanted = [
            f"rocm[libraries,devel]=={rocm_version_of(rocm)}",
            *wheel_requirements(wheels.files, family_projects(options), options.extensions),
        ]
        try:
            note("installing")
            environment = install_of_run(options, root, wanted, [rocm.prefix, wheels.prefix], log)
            venv.pip_install(environment, TEST_TOOLS, closed=None, log=log)
            found = emulated_suites(options, environment, note)
            installed = venv.installed(environment)
        finally:
            remove_tree(root)
        return GpuTested(
            family=options.gpu_family,
            installed=installed,
            find_links=wheels.find_links,
            suites=found,
            files=wheels.files,
            rocm=options.store.url(f"{rocm.prefix}index.html"),
        )

    return Step(
        id=NAME,
        result=GpuTested,
        act=act,
        needs=needs,
        rooms=("gputest", "emulator", "system/venv.py", "data"),
        facts=lambda: {"family": options.gpu_family, "targets": options.targets},
        summary=summary_of,
    )


def emulated_suites(options: RunOptions, environment: Environment, note: Note) -> tuple[SuiteRun, ...]:
    """What came of an environment's packages on each target of the family that the emulator can be.

    Raises `LeftOut` where it can be none of them, `MissingTool` where there is no emulator.
    """
    emulator = find_emulator(None, os.environ, environment.python)
    targets = _targets(options, emulator)
    runtime = find_runtime(None, os.environ, environment.python)
    found: list[SuiteRun] = []
    for target in targets:
        found += _on(options, environment, emulator, runtime, target, note)
    return tuple(found)


def _targets(options: RunOptions, emulator: Emulator) -> tuple[str, ...]:
    """Those of the family that are built and that the emulator can be; raises `LeftOut` for none."""
    built, families = base_targets(options.targets), dict(families_table(options.overlay))
    named = options.gpu_family in families or is_target(options.gpu_family)
    # A family that is built for this machine alone has no row: its targets are what is built.
    wanted = base_targets(expand([options.gpu_family], families)) if named else built
    mine = [target for target in wanted if target in built]
    able = tuple(target for target in mine if target in emulator.configurations)
    if not able:
        raise LeftOut(f"{NONE_TO_RUN}: {emulator.name} has no configuration for {', '.join(mine)}")
    return able


def _on(
    options: RunOptions,
    environment: Environment,
    emulator: Emulator,
    runtime: HipRuntime,
    target: str,
    note: Note,
) -> list[SuiteRun]:
    reports, log = options.workspace.root / "reports" / NAME, options.workspace.log(NAME)
    note(f"testing on an emulated {target}")
    here = played(
        emulator,
        target,
        runtime,
        _with_programs(environment),
        cache=options.cache / "emulated",
        log=log,
        note=note,
    )
    table = options.table("tests", SuiteTable)
    suites = [_kernels(options, environment, here, log)]
    has = installed_in(environment.python)
    record = test_rocm(here, environment.python, has.python, reports, limit_s=table.limits.collect_s)
    suites.append(suite_run(record))
    if options.sources == "upstream":
        setting = SmokeSetting(
            python=environment.python,
            facts=TorchFacts(""),
            platform=this_platform(),
            test_s=table.limits.smoke_s,
            reports=reports,
            miopen_cache=Path(),
            inherited=os.environ,
            today=today(),
            entries=load_entries(overlay=options.overlay),
        )
        families, generic = dict(families_table(options.overlay)), generic_targets(options.overlay)
        records = test_torch(here, smoke_tests(), setting, table, families, generic, say=note)
        suites += map(suite_run, records)
    return suites


def _with_programs(environment: Environment) -> Mapping[str, str]:
    """The caller's variables with the environment's programs in front: its hipcc is the one that compiles."""
    path = os.pathsep.join(filter(None, (str(environment.bin), os.environ.get("PATH", ""))))
    return {**os.environ, "PATH": path}


def _kernels(options: RunOptions, environment: Environment, here: Played, log: Path) -> SuiteRun:
    """Every code object for the target in what is installed, as a suite."""
    try:
        loaded = load_objects(
            venv.package_directories(environment.root),
            here.emulator,
            here.target,
            here.runtime,
            here.table,
            generic=generic_targets(options.overlay),
            python=environment.python,
            log=log,
        )
    except InvalidInput as error:
        return SuiteRun(KERNELS_SUITE, here.target, Verdicts(0, 1, 0, (error.what,)), True, emulated=True)
    return SuiteRun(KERNELS_SUITE, here.target, verdicts_of_code(loaded), not loaded.problem, emulated=True)


def verdicts_of_code(loaded: LoadedCode) -> Verdicts:
    """Code objects as counts: those that load, those that are wrong, those for other features of the GPU."""
    bad = [f"{one.name}: {one.state}{f': {one.detail}' if one.detail else ''}" for one in loaded.bad]
    whole = sum(one.state == "loads" for one in loaded.objects)
    aside = len(loaded.objects) - whole - len(bad)
    absent = [f"{name}: its archives are not there" for name in loaded.absent]
    failures = (*bad, *absent, *loaded.unlike)
    return Verdicts(whole, len(failures), aside, failures[:_NAMED])
