"""Options of every command that works on a run of the pipeline."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from rocwright.cli.options import OptionalCount, Text, Words
from rocwright.data.overlay import Overlay, read_overlay
from rocwright.errors import UsageError
from rocwright.model.plan import Choice, Grouping, Plan, TestLevel
from rocwright.pipeline.define.inputs import (
    Known,
    choose_rocm,
    extensions_asked,
    families_to_test,
    known,
    profiles,
    said_rocm,
    sources_of,
    words,
)
from rocwright.pipeline.define.plan import make_plan, read_plan_file
from rocwright.pipeline.setup.publication import publication
from rocwright.store.objects.protocol import ObjectStore

_WORK = Path("run")


@Parameter(name="*")
@dataclass(frozen=True)
class PlaceOptions:
    """Which run it is, and where its results travel."""

    run_id: Annotated[str, Parameter(env_var=("ROCWRIGHT_RUN_ID", "GITHUB_RUN_ID"))] = "local"
    """The run's name in the store."""

    store: Annotated[str | None, Parameter(env_var="ROCWRIGHT_STORE")] = None
    """A folder, or the URL of one: file://…, s3://bucket/prefix (default: store, in the work directory)."""

    plan: Annotated[Path | None, Parameter(env_var="ROCWRIGHT_PLAN")] = None
    """A plan as JSON that takes the place of all options that say what a run has."""

    work_dir: Annotated[Path, Parameter(env_var="ROCWRIGHT_WORK_DIR")] = _WORK
    """Everything that this machine makes; delete it to start afresh (default: $ROCWRIGHT_WORK_DIR, else
    run)."""

    config: Path | None = None
    """A rocwright.toml (default: that of the current directory, if there is one)."""

    def __post_init__(self) -> None:
        # A variable that a workflow has no value for reaches its steps as an empty one.
        object.__setattr__(self, "run_id", self.run_id or os.environ.get("GITHUB_RUN_ID") or "local")
        object.__setattr__(self, "store", self.store or None)
        object.__setattr__(self, "plan", None if self.plan == Path() else self.plan)
        if self.work_dir == Path() and os.environ.get("ROCWRIGHT_WORK_DIR") == "":
            object.__setattr__(self, "work_dir", _WORK)

    def address(self) -> str:
        """Where the store is."""
        return self.store or str(self.work_dir.resolve() / "store")

    def overlay(self) -> Overlay | None:
        """What a rocwright.toml adds to the tables."""
        return read_overlay(self.config)


def with_recorded(tables: Known, store: ObjectStore | None, run_id: str) -> Known:
    """The tables, with how long tests of earlier runs in a store took."""
    if store is None or tables.levels is None:
        return tables
    # A plan alone, which is asked for more often, reads none.
    from rocwright.pipeline.reports import recorded_for
    from rocwright.system import console

    recorded = recorded_for(store, run_id, tables.levels.shards.kept, console.say)
    return msgspec.structs.replace(tables, recorded=recorded)


@Parameter(name="*")
@dataclass(frozen=True)
class PlanOptions:
    """What a run is to have, beside what its profile says."""

    profile: Text = "ci"
    """The row of the profiles table: ci, dev, emulated, nightly, release, or one of your own."""

    platforms: Words = ()
    """linux, windows (default: the profile's)."""

    python_versions: Words = ()
    """Pythons that wheels are built for: 3.12 3.13."""

    pytorch_git_refs: Words = ()
    """Branches or tags of PyTorch: release/2.12 nightly."""

    families: Words = ()
    """GPU families or targets, separated by spaces, commas or semicolons."""

    group: Text = ""
    """Build the families together, under this name."""

    grouping: Grouping | None = None
    """Build all families of a platform together (multi-arch), or each on its own (default: the profile's)."""

    test_families: Annotated[str | None, Parameter(env_var="ROCWRIGHT_TEST_FAMILIES")] = None
    """The families that are tested: auto (all), none, or names (default: $ROCWRIGHT_TEST_FAMILIES, else
    auto)."""

    test_level: TestLevel | None = None
    """How much is tested: quick, standard, comprehensive, full (default: quick)."""

    projects: Words = ()
    """Projects of the PyTorch family: torch torchaudio … (default: all that the platform has)."""

    extensions: Words = ()
    """What stands on torch, each with its version: torch-scatter==2.1.2 …; none (default: the profile's)."""

    sources: Literal["miniature", "upstream"] | None = None
    """PyTorch's own repositories, or the miniature family that stands in for it (default: $ROCWRIGHT_SOURCES,
    else the profile's)."""

    rocm: Text = ""
    """Where ROCm comes from: index:NAME (or its address), page:URL, therock:RUN, packages:RUN, artifacts:RUN,
    tarball:FILE, prefix:DIR, command:LINE, distribution (default: $ROCWRIGHT_ROCM, else the profile's)."""

    rocm_prefix: str | None = None
    """The same as --rocm prefix:DIR."""

    rocm_version: Text = ""
    """Its version, of an installation that does not say; or which of an index (default: the newest)."""

    artifact_run_id: Text = ""
    """An earlier run whose ROCm is taken instead of building it."""

    reuse: Literal["packages", "artifacts"] | None = None
    """What to take from it: its Python packages, or its artifacts, to package again (default: packages)."""

    repository: Text = ""
    """The repository that the run belongs to, as owner/name."""

    split: bool | None = None
    """Put device code into wheels of its own (default: the profile's)."""

    device_groups: OptionalCount = None
    """Divide the GPU targets of each group among this many builds of torch, whose wheels are then merged."""

    pytorch: bool = True
    """Build PyTorch, not only ROCm's packages."""

    publish: bool = False
    """Change channels; of a shared store only where the profile allows it."""

    def choice(self, run_id: str, tables: Known) -> Choice:
        """As one value; raises `UsageError` for options that contradict each other."""
        return Choice(
            profile=self.profile,
            run_id=run_id,
            platforms=words(self.platforms),
            pythons=words(self.python_versions),
            refs=words(self.pytorch_git_refs),
            families=words(self.families),
            group=self.group,
            grouping=self.grouping,
            tested=None if self.test_families is None else families_to_test(self.test_families),
            test_level=self.test_level,
            projects=words(self.projects),
            extensions=extensions_asked(self.extensions),
            sources=self.sources or sources_of(os.environ),
            rocm=choose_rocm(
                tables,
                source=self.rocm,
                usual=said_rocm(os.environ),
                prefix=self.rocm_prefix,
                version=self.rocm_version,
                run_id=self.artifact_run_id,
                reuse=self.reuse,
                repository=self.repository,
            ),
            build_pytorch=self.pytorch,
            split=self.split,
            device_groups=self.device_groups,
            publish=self.publish,
        )

    def plan(self, place: PlaceOptions, store: ObjectStore | None = None) -> Plan:
        """The plan of these options, or the one in a file; nothing is read but that and the tables.

        Of a `store`, how long tests took is read, too.
        """
        if place.plan is not None:
            if self != PlanOptions():
                raise UsageError(
                    f"{place.plan} says what the run has, and so do other options",
                    next_step="leave out --plan, or the others",
                )
            return read_plan_file(place.plan)
        overlay = place.overlay()
        tables = with_recorded(known(overlay), store, place.run_id)
        profile, choice = profiles(overlay).named(self.profile), self.choice(place.run_id, tables)
        return make_plan(profile, choice, tables, publication(profile, choice, place.store, os.environ))
