"""What a run of the pipeline is asked for (a profile), and what it consists of: cells, jobs, publications.

Only values.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Literal

import msgspec
from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion, Version

from rocwright.errors import InvalidData, InvalidInput
from rocwright.model.platforms import PLATFORMS

Tier = Literal["presubmit", "postsubmit", "nightly"]
# From the families that every change is tried on to all of them.
TIERS: tuple[Tier, ...] = ("presubmit", "postsubmit", "nightly")
Sources = Literal["miniature", "upstream"]
# All families of a platform in one build, or a build for each of them.
Grouping = Literal["multi-arch", "family"]
PYTHON = re.compile(r"3\.[0-9]+t?")
_NAME = re.compile(r"[a-z][a-z0-9-]*")


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """One version of a project that stands on torch."""

    project: str
    version: str

    def __str__(self) -> str:
        return f"{self.project}=={self.version}"


def parse_extensions(texts: Iterable[str]) -> tuple[Wanted, ...]:
    """`name==version`, each project once, names and versions as an index writes them.

    Raises `InvalidInput` naming the text that is no such thing.
    """
    found: dict[str, Wanted] = {}
    for text in texts:
        name, _, number = text.partition("==")
        try:
            wanted = Wanted(canonicalize_name(name.strip(), validate=True), str(Version(number)))
        except (InvalidName, InvalidVersion):
            raise InvalidInput(
                f"{text!r}, which names no project and its version",
                next_step="write it like torch-scatter==2.1.2",
            ) from None
        if wanted.project in found:
            raise InvalidInput(
                f"{text!r} besides {found[wanted.project]}", next_step="give each project once"
            )
        found[wanted.project] = wanted
    return tuple(found.values())


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row: the axes of a run, and where its results may go.

    `tier` includes the families of the tiers before it. `projects` are those of the family, all of the
    platform's without any. `grouping`: a platform's families are built together, or each on its own; a group
    is tested on every family either way. `device_groups` cuts the GPU targets of a group into so many builds,
    1 for none. `rocm` is where ROCm comes from for PyTorch itself, as `--rocm` takes it; the miniature family
    is built with the distribution's. `stage` and `promote` name channels, empty for none. `publish`: a
    channel is changed `never`, only where the store is the run's own folder (`embedded`), or also elsewhere
    when it is `asked` for. `role` names the variable with the role that a workflow assumes to write.
    `emulated`: tests are those on emulated GPUs, which need no machine with a GPU. `extensions` stand on
    torch, each as `name==version`; with `extensions_may_fail` the set goes on without those that failed.
    """

    name: str
    release_type: str
    platforms: tuple[str, ...]
    pythons: tuple[str, ...]
    refs: tuple[str, ...]
    tier: Tier
    sources: Sources = "upstream"
    rocm: str = "index:stable"
    projects: tuple[str, ...] = ()
    refs_windows: tuple[str, ...] = ()
    grouping: Grouping = "family"
    split: bool = False
    device_groups: int = 1
    stage: str = ""
    promote: str = ""
    publish: Literal["never", "embedded", "asked"] = "never"
    role: str = ""
    emulated: bool = False
    extensions: tuple[str, ...] = ()
    extensions_may_fail: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is not a valid name of a profile: write lower-case letters, digits and -"
            )
        for field in ("platforms", "pythons", "refs"):
            values = getattr(self, field)
            if not values:
                raise ValueError(f"profile {self.name} has no {field}: its run would be empty")
            if len(set(values)) < len(values):
                raise ValueError(f"profile {self.name} gives one of its {field} twice")
        for platform in self.platforms:
            if platform not in PLATFORMS:
                raise ValueError(
                    f"profile {self.name} has the platform {platform!r}; known: {' '.join(PLATFORMS)}"
                )
        for python in self.pythons:
            if not PYTHON.fullmatch(python):
                raise ValueError(
                    f"profile {self.name} has the Python {python!r}: write it like 3.12 or 3.14t"
                )
        if self.device_groups < 1:
            raise ValueError(f"profile {self.name} has device_groups = {self.device_groups}: write 1 or more")
        if self.promote and not self.stage:
            raise ValueError(f"profile {self.name} promotes to {self.promote} and stages nowhere: add stage")
        try:
            parse_extensions(self.extensions)
        except InvalidInput as error:
            raise ValueError(f"profile {self.name} has the extension {error.what}") from error
        if self.publish == "asked" and not self.stage:
            raise ValueError(f"profile {self.name} can be asked to publish and has no channel: add stage")

    def refs_on(self, platform: str) -> tuple[str, ...]:
        """References of torch on a platform."""
        return (self.refs_windows or self.refs) if platform == "windows" else self.refs


class ProfileTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table; a later row of the same name takes the place of an earlier one."""

    profile: tuple[Profile, ...]

    def named(self, name: str) -> Profile:
        """The profile of that name; raises `InvalidInput` listing the known ones."""
        for profile in reversed(self.profile):
            if profile.name == name:
                return profile
        known = list(dict.fromkeys(profile.name for profile in self.profile))
        near = get_close_matches(name, known, n=1)
        listed = f"profiles: {' '.join(known)}"
        raise InvalidInput(
            f"there is no profile {name!r}", next_step=f"perhaps {near[0]}; {listed}" if near else listed
        )


SCHEMA = 1
# What a cell changes outside of its machine: nothing but its record, the run's folder, a channel.
Changes = Literal["nothing", "run", "channel"]
# How much of the tests on GPUs is asked for.
TestLevel = Literal["quick", "standard", "comprehensive", "full"]
TEST_LEVELS: tuple[TestLevel, ...] = ("quick", "standard", "comprehensive", "full")


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An artifact group: what is built together. `families` are tested each on a runner of its own.

    Without `platform` it is the same on each.
    """

    name: str
    targets: tuple[str, ...]
    families: tuple[str, ...]
    platform: str = ""


RocmKind = Literal["distribution", "prefix", "tarball", "command", "index", "page", "packages", "artifacts"]


class Rocm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where ROCm comes from.

    `at` is the prefix, the path or URL of the tarball, the command that builds one, the URL of the index or
    page, or the id of the run whose packages or artifacts are taken. `repository` is the run's where it is
    another one's, `store` where the run lies if not in this run's store. `version` is what a prefix does not
    say, or which of an index is meant (empty: the newest). `by_family`: the packages lie below the index in a
    folder for each family of GPUs.
    """

    kind: RocmKind = "distribution"
    at: str = ""
    repository: str = ""
    version: str = ""
    store: str = ""
    by_family: bool = False

    @property
    def taken(self) -> bool:
        """Whether its Python packages are taken as they are."""
        return self.kind == "packages" or self.by_others

    @property
    def by_others(self) -> bool:
        """Whether somebody else made and published these packages."""
        return self.kind in ("index", "page")

    @property
    def words(self) -> str:
        """Everything that it says, as the settings of a step hold it."""
        said = (self.kind, self.at, self.repository, self.version, self.store)
        return " ".join(filter(None, (*said, "by family" if self.by_family else "")))

    @property
    def told(self) -> str:
        """For people: `index https://…`, `packages of run 42`."""
        of = f" of {self.repository}" if self.repository else ""
        if self.kind == "distribution":
            return "of the distribution"
        if self.kind in ("packages", "artifacts"):
            return f"{self.kind} of run {self.at}{of}{f' in {self.store}' if self.store else ''}"
        return f"{self.kind} {self.at}{f', version {self.version}' if self.version else ''}"


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run is asked for beside its profile; empty and None: as the profile has it.

    `families` are built as `grouping` says, together where `group` names it; those of `families_on` take
    their place on one platform. `tested` are those that are tested, all that are built for None, and `tests`
    those that are asked for by name, besides `test_level`. `bump`: ROCm itself may have changed, so that
    families that are tested only then are. `extensions` are as `parse_extensions` takes them.
    """

    profile: str
    run_id: str
    tier: Tier | None = None
    bump: bool = True
    platforms: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    families_on: dict[str, tuple[str, ...]] = {}
    group: str = ""
    grouping: Grouping | None = None
    tested: tuple[str, ...] | None = None
    test_level: TestLevel | None = None
    tests: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    extensions: tuple[str, ...] | None = None
    sources: Sources | None = None
    rocm: Rocm | None = None
    build_pytorch: bool = True
    split: bool | None = None
    device_groups: int | None = None
    publish: bool = False


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the run may write to its store's run folders (`upload`) and to channels, and why not."""

    upload: bool
    channels: bool
    why: str = ""


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step at one place of the matrix: what one machine does at a time.

    Axes that a kind of step does not have are empty. `settings` is what decides the result besides the
    results of `needs`, and the `run` that it goes to; `digest` is over all of that but the run, so equal ones
    in two runs stand for equal results. A cell with `skip` is not run, and says why; one that is `last` also
    runs when what it needs failed or was left out, and any does without those of its needs that are `spare`.
    `runner` is the label of a machine with a GPU, where it
    needs one.
    """

    id: str
    kind: str
    job: str
    platform: str = ""
    group: str = ""
    python: str = ""
    ref: str = ""
    part: str = ""
    family: str = ""
    shard: str = ""
    needs: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    changes: Changes = "nothing"
    last: bool = False
    runner: str = ""
    skip: str = ""
    digest: str = ""


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cells that one machine does one after the other; `id` is the job's name and the place in the matrix."""

    id: str
    name: str
    platform: str
    group: str
    python: str
    ref: str
    part: str
    family: str
    cells: tuple[str, ...]
    needs: tuple[str, ...]
    last: bool = False
    runner: str = ""
    skip: str = ""
    shard: str = ""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A whole run, each cell after what it needs; `notes` are for people: what was left out, and why."""

    schema: int
    profile: str
    run_id: str
    sources: Sources
    rocm: Rocm
    publication: Publication
    groups: tuple[Group, ...]
    cells: tuple[Cell, ...]
    jobs: tuple[Job, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def _by_id(self) -> dict[str, Cell]:
        return {cell.id: cell for cell in self.cells}

    @cached_property
    def _jobs_by_id(self) -> dict[str, Job]:
        return {job.id: job for job in self.jobs}

    @cached_property
    def kinds(self) -> dict[str, set[str]]:
        """The kinds of cells that there are, by platform."""
        found: dict[str, set[str]] = {}
        for cell in self.cells:
            found.setdefault(cell.platform, set()).add(cell.kind)
        return found

    @cached_property
    def spare(self) -> frozenset[str]:
        """Ids of cells that the run does without where they failed: what needs them does, or is one."""
        found: set[str] = set()
        users: dict[str, list[Cell]] = {}
        for cell in reversed(self.cells):
            mine = users.get(cell.id, [])
            if mine and all(cell.id in one.spare or one.id in found for one in mine):
                found.add(cell.id)
            for need in cell.needs:
                users.setdefault(need, []).append(cell)
        return frozenset(found)

    def cell(self, id_: str) -> Cell:
        """The cell of an id; raises `InvalidInput` naming the nearest ones."""
        if id_ not in self._by_id:
            raise unknown_step(id_, list(self._by_id))
        return self._by_id[id_]

    def left_out(self, cell: Cell) -> str:
        """Why nobody has to do a cell; empty where somebody has to.

        What leads to a channel may be done where none may be changed, and says so; workflows have no job
        for it.
        """
        idle = "channel" in cell.settings and not self.publication.channels
        return cell.skip or (self.publication.why if idle else "")

    def group(self, name: str, platform: str = "") -> Group:
        """The group of a name, on a platform where they differ."""
        found = [group for group in self.groups if group.name == name]
        return next((group for group in found if platform and group.platform == platform), found[0])

    def cells_of(self, id_: str) -> tuple[Cell, ...]:
        """The cell of an id, or those of a job, in their order; raises `InvalidInput` for neither."""
        job = self._jobs_by_id.get(id_)
        if job is not None:
            return tuple(map(self.cell, job.cells))
        if id_ not in self._by_id:
            raise unknown_step(id_, [*self._by_id, *self._jobs_by_id])
        return (self.cell(id_),)


def unknown_step(id_: str, known: Sequence[str]) -> InvalidInput:
    """The error for an id that a plan does not have; names those that are like it."""
    from difflib import get_close_matches

    near = get_close_matches(id_, known, n=3, cutoff=0.5) or known[:5]
    return InvalidInput(
        f"this run has no step {id_!r}",
        next_step=f"perhaps: {' '.join(near)}; all of them: rocwright pipeline plan",
    )


def parse_plan(data: bytes, *, where: str) -> Plan:
    """A plan from its JSON; raises `InvalidData` naming what does not fit, or the other schema."""
    try:
        plan = msgspec.json.decode(data, type=Plan)
    except msgspec.MsgspecError as error:
        raise InvalidData(
            f"{where} is not a plan of a run: {error}",
            where=where,
            next_step="make it with: rocwright pipeline plan --json",
        ) from error
    if plan.schema != SCHEMA:
        raise InvalidData(
            f"{where} is a plan of schema {plan.schema}; this rocwright reads {SCHEMA}",
            where=where,
            next_step="use the same version of rocwright in the whole run",
        )
    if wrong := _contradiction(plan):
        raise InvalidData(
            f"{where} is not a plan of a run: {wrong}",
            where=where,
            next_step="make it with: rocwright pipeline plan --json",
        )
    return plan


def _contradiction(plan: Plan) -> str:
    """A step that appears twice or before what it needs; a part of a plan may lack what it needs."""
    there = {cell.id for cell in plan.cells}
    before: set[str] = set()
    for cell in plan.cells:
        if cell.id in before:
            return f"the step {cell.id} appears twice"
        if late := [need for need in cell.needs if need in there and need not in before]:
            return f"{cell.id} needs {late[0]}, which does not come before it"
        before.add(cell.id)
    for job in plan.jobs:
        if lost := [id_ for id_ in job.cells if id_ not in there]:
            return f"the job {job.id} has the step {lost[0]}, which the plan does not have"
    return ""


def cell_digest(kind: str, settings: Mapping[str, str], needs: Iterable[str]) -> str:
    """sha256 of what decides a result: the kind of step, its settings, the digests of what it needs."""
    return hashlib.sha256(msgspec.json.encode([kind, settings, sorted(needs)], order="sorted")).hexdigest()
