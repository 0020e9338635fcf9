"""PyTorch's own tests and ROCm's, at the level that a run asks for, on the packages of this very run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.gputest import smoke
from rocwright.gputest.components import CTEST, find_components, run_component
from rocwright.gputest.level import Desk, run_config, run_files
from rocwright.gputest.setting import read_checkout
from rocwright.gputest.shards.level import NONE_OF_MINIATURE, NONE_TO_RUN, parse_shard
from rocwright.gputest.skips.entries import families_table
from rocwright.gputest.smoke import Verdicts
from rocwright.gputest.units import unit_files
from rocwright.model.gpu import base_targets
from rocwright.model.platforms import platform_named
from rocwright.model.project import TORCH
from rocwright.model.suites import LevelRow, SuiteTable
from rocwright.model.testing import Ran, RunRecord, on_device
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.records import LeftOut
from rocwright.pipeline.reports import durations_of, report_of, write_report
from rocwright.pipeline.steps.publish import UploadedRun
from rocwright.pipeline.steps.sources import SourceTree
from rocwright.pipeline.steps.testing import TEST_TOOLS, wheel_requirements
from rocwright.sources.lock import LockedSource
from rocwright.store.objects.serve import serving
from rocwright.system import venv
from rocwright.system.files import remove_tree
from rocwright.system.venv import Closed, Environment

# Where a torch was built by this run, in these steps' order: its sources are checked out as they were then.
CHECKOUT = f"checkout-{TORCH}"
# On a host, and on each target.
UNITS_SUITE = "units"
_NOTHING = Verdicts(0, 0, 0)


class SuiteRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """One suite on one target (empty: on the host), as its verdicts; without a report nothing passed.

    `none` says why there is nothing to run: that is neither a pass nor a failure. `emulated` is one on a GPU
    that an emulator plays.
    """

    suite: str
    target: str
    verdicts: Verdicts
    complete: bool
    none: str = ""
    emulated: bool = False

    @property
    def good(self) -> bool:
        """Whether it ran to its end and at least one test passed and none failed."""
        return self.complete and not self.none and self.verdicts.passed > 0 and self.verdicts.failed == 0

    @property
    def told(self) -> str:
        """For people, in a line."""
        where = on_device(self.target, emulated=self.emulated)
        on = f"{self.suite}{f' on {where}' if where else ''}"
        if self.none:
            return f"{on}: {self.none}"
        lost = "" if self.complete else ", did not run to its end"
        return f"{on} {self.verdicts.passed} passed, {self.verdicts.failed} failed{lost}"


class GpuTested(msgspec.Struct, frozen=True):
    """What a machine saw, with a GPU of `family`, or on its CPU; `files` are the wheels that it was offered.

    `find_links` is the page of what was tested, `rocm` that of ROCm's packages. `asked` is the level of tests
    that the run was asked for, with tests by name, and `shard` the part of it that this is; what was run
    stands in `suites`. `reports` are the statements of it in the store.
    """

    family: str
    installed: dict[str, str]
    find_links: str
    suites: tuple[SuiteRun, ...]
    files: dict[str, str]
    rocm: str = ""
    asked: str = ""
    shard: str = ""
    reports: tuple[str, ...] = ()


def none_of_miniature() -> SuiteRun:
    """What a level comes to where the miniature family is tested."""
    return SuiteRun(UNITS_SUITE, "", _NOTHING, True, NONE_OF_MINIATURE)


def asked_level(options: RunOptions) -> tuple[LevelRow, tuple[str, ...]]:
    """The level of tests of these options, and the parts of ROCm that are named besides.

    Raises `InvalidInput` for a level that is none.
    """
    name, *named = options.tests.split() or ["quick"]
    return options.table("tests", SuiteTable).at(name), tuple(named)


# Suites and the keys of their reports: from the environment, what the step needs, the reports' directory.
SuitesOf = Callable[[Environment, Inputs, Path, Note], tuple[tuple[SuiteRun, ...], tuple[str, ...]]]


def tested_wheels(
    options: RunOptions, name: str, inputs: Inputs, projects: tuple[str, ...], suites_of: SuitesOf, note: Note
) -> GpuTested:
    """Install the run's wheels of these projects into an environment, test them, and remove it again."""
    workspace, uploaded = options.workspace, inputs.get("upload-pytorch", UploadedRun)
    root = workspace.environment(name)
    try:
        note("installing")
        environment = tested_environment(options, root, uploaded, projects, workspace.log(name))
        note("testing")
        suites, reports = suites_of(environment, inputs, workspace.root / "reports" / name, note)
        found = venv.installed(environment)
    finally:
        remove_tree(root)
    return GpuTested(
        family=options.gpu_family,
        installed=found,
        find_links=uploaded.find_links,
        suites=suites,
        files=uploaded.files,
        rocm=options.store.url(f"{uploaded.rocm}index.html"),
        asked=options.tests,
        shard=options.shard,
        reports=reports,
    )


def units_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`test-units`: PyTorch's own test files on the CPU of this machine, with the wheels of this run.

    The tests are those of the commit that the lock of the run names.
    """
    level, _ = asked_level(options)
    upstream = options.sources == "upstream"

    def act(inputs: Inputs, note: Note) -> GpuTested:
        if not upstream:
            raise LeftOut(NONE_OF_MINIATURE)
        require_files(options, inputs)
        return tested_wheels(options, "test-units", inputs, (TORCH,), partial(own_suites, options), note)

    return Step(
        id="test-units",
        result=GpuTested,
        act=act,
        needs=(*needs, CHECKOUT) if upstream else needs,
        rooms=("gputest", "system/venv.py", "data"),
        facts=lambda: own_facts_of(options) | {"files": level.host},
        summary=summary_of,
    )


def own_facts_of(options: RunOptions) -> dict[str, object]:
    """What decides which of PyTorch's own tests run, and as which shard."""
    facts: dict[str, object] = {
        "asked": options.tests,
        "shard": options.shard,
        "durations": options.durations,
    }
    return facts | options.overlaid("tests", "skips")


def tested_environment(
    options: RunOptions, root: Path, uploaded: UploadedRun, projects: Sequence[str], log: Path
) -> Environment:
    """The run's wheels from its own pages in a fresh environment, and what their tests need."""
    wanted = wheel_requirements(uploaded.files, projects)
    environment = install_of_run(options, root, wanted, [uploaded.rocm, uploaded.prefix], log)
    table = options.table("tests", SuiteTable)
    tools = [*TEST_TOOLS, *table.units.packages]
    if parse_shard(options.shard).config:
        tools += [tool for tool in table.upstream.packages if tool != "pytest"]
    venv.pip_install(environment, tools, closed=None, log=log)
    return environment


def install_of_run(
    options: RunOptions, root: Path, wanted: Sequence[str], prefixes: Sequence[str], log: Path
) -> Environment:
    """A fresh environment with packages from pages of the run alone."""
    with serving(options.store) as url:
        pages = dict.fromkeys(f"{url}{prefix}index.html" for prefix in prefixes if prefix)
        environment, _ = smoke.install_fresh(
            root,
            wanted,
            Closed(find_links=tuple(pages)),
            installer="pip",
            cache=root,
            log=log,
            python=Path(options.interpreter.path),
        )
    return environment


def _files(options: RunOptions) -> tuple[str, ...]:
    """The test files of this shard's level; none where it is a configuration of run_test.py."""
    level, _ = asked_level(options)
    if parse_shard(options.shard).config:
        return ()
    return level.files if options.gpu_family else level.host


def require_files(options: RunOptions, inputs: Inputs) -> None:
    """Raise `UsageError` naming every test file of the level that the run's sources lack."""
    if files := _files(options):
        unit_files(files, (), (), read_checkout(Path(inputs.get(CHECKOUT, SourceTree).directory)).tests)


def own_suites(
    options: RunOptions, environment: Environment, inputs: Inputs, reports: Path, note: Note
) -> tuple[tuple[SuiteRun, ...], tuple[str, ...]]:
    """PyTorch's own tests of this shard: what came of them, and the statements about them in the store."""
    level, _ = asked_level(options)
    table, shard = options.table("tests", SuiteTable), parse_shard(options.shard)
    files = _files(options)
    if not files and not shard.config:
        return (), ()
    tree = inputs.get(CHECKOUT, SourceTree)
    suite = "full" if shard.config else "units"
    remove_tree(reports)
    desk = Desk(
        python=environment.python,
        checkout=Path(tree.directory),
        reports=reports,
        family=options.gpu_family,
        locked=_commits(tree.locked),
        workers=options.jobs,
        durations=durations_of(options.store, options.durations, suite, note, kept=table.shards.kept),
        overlay=options.overlay,
    )
    found = run_config(desk, shard, note) if shard.config else run_files(desk, files, shard, note)
    if isinstance(found, str):
        return (SuiteRun(f"full-{shard.config}", "", _NOTHING, True, found),), ()
    uploaded = inputs.get("upload-pytorch", UploadedRun)
    keys = tuple(
        write_report(
            options.store,
            options.run_id,
            report_of(record, level.name, uploaded.files, kept=table.shards.kept),
        )
        for record in found
    )
    return tuple(map(suite_run, found)), keys


def _commits(locked: LockedSource) -> tuple[str, ...]:
    """Those that the checkout may be at: upstream's, hipified, with patches."""
    more = () if locked.outcome is None else (locked.outcome.hipify_commit, locked.outcome.tip)
    return tuple(dict.fromkeys(commit for commit in (locked.commit, *more) if commit))


def suite_run(record: RunRecord) -> SuiteRun:
    """A record as its counts; a configuration of run_test.py is part of the suite's name."""
    ran = record.ran
    target = base_targets([ran.target])[0] if ran.target.startswith("gfx") else ran.target
    name = f"{ran.suite}-{ran.config}" if ran.suite == "full" else ran.suite
    verdicts = smoke.verdicts_of(record.results)
    return SuiteRun(name, target, verdicts, record.complete, emulated=ran.emulated)


def component_suites(
    options: RunOptions, environment: Environment, uploaded: UploadedRun, gpus: Sequence[str], log: Path
) -> tuple[list[SuiteRun], tuple[str, ...]]:
    """ROCm's own tests as far as installed packages hold them, and the statements about them in the store.

    What the packages do not hold is named. `gpus` are the targets of those that this machine has.
    """
    level, named = asked_level(options)
    if not level.components and not named:
        return [], ()
    table, families = options.table("tests", SuiteTable), dict(families_table(options.overlay))
    root = environment.run([str(environment.bin / "rocm-sdk"), "path", "--bin"], log=log).stdout.strip()
    found = find_components(
        Path(root),
        table,
        platform=platform_named(options.platform),
        family=options.gpu_family,
        families=families,
        gpus=len(gpus),
        names=named,
    )
    suites: list[SuiteRun] = []
    keys = []
    if found.there:
        venv.pip_install(environment, [CTEST], closed=None, log=log)
    reports = options.workspace.root / "reports" / "components"
    for row in found.there:
        results, whole = run_component(environment, Path(root), row, level.name, reports, log=log)
        ran = Ran(f"rocm-{row.name}", target=next(iter(gpus), ""), platform=options.platform)
        record = RunRecord(ran, results, complete=whole)
        suites.append(suite_run(record))
        said = report_of(record, level.name, uploaded.files, kept=table.shards.kept)
        keys.append(write_report(options.store, options.run_id, said))
    if found.absent:
        titles = ", ".join(row.title for row in found.absent)
        none = f"{NONE_TO_RUN}: the packages hold no tests of {titles}"
        suites.append(SuiteRun("rocm-components", "", _NOTHING, True, none))
    known = {row.name for row in table.component}
    unfit = [*found.unfit, *(f"no part of ROCm is called {name}" for name in named if name not in known)]
    suites += [SuiteRun("rocm-components", "", _NOTHING, True, f"{NONE_TO_RUN}: {why}") for why in unfit]
    return suites, tuple(keys)


def summary_of(value: GpuTested) -> str:
    """In a line: what was asked for, and what came of it."""
    asked = f"{value.asked}{f', shard {value.shard}' if value.shard else ''}: " if value.asked else ""
    return asked + ("; ".join(one.told for one in value.suites) or "nothing ran")
