"""What is to be built, for which GPUs, and its plan for whichever ROCm."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.builder.before.host import this_system
from rocwright.builder.before.needs import Problem
from rocwright.builder.decide.family import FamilyPlan, plan_family
from rocwright.builder.decide.plan import BuildRequest, BuiltWheel
from rocwright.builder.decide.recipe import RecipeTable
from rocwright.builder.decide.tree import SourceFacts, read_tree
from rocwright.builder.rocm.place import RocmPlace, present_rocm
from rocwright.builder.rocm.rocm import VERSION, Rocm, unknown_rocm
from rocwright.builder.units.launch import (
    Jobs,
    asked_jobs,
    choose_jobs,
    launcher_environment,
    require_launchers,
)
from rocwright.builder.units.logs import peaks
from rocwright.data import load_table
from rocwright.errors import UsageError
from rocwright.model.gpu import Families, InvalidTarget, base_targets, parse_target, parse_targets
from rocwright.model.project import TORCH
from rocwright.system.interpreters import find_interpreter
from rocwright.system.limits import available_cores, available_memory

# Stands in a plan for targets that only installed device packages will tell.
_TARGETS = "${PYTORCH_ROCM_ARCH}"


class Order(msgspec.Struct, frozen=True):
    """What is to be built: `wanted` without targets and Pythons, which `targets` and `pythons` spell.

    Directories are absolute. `pythons` are versions or paths of interpreters, empty for the running one;
    `targets` is None where nothing was said. `built` are wheels of other runs that these are built against,
    `commits` maps projects to the commit that their wheels name and its time (seconds since 1970) where that
    is known better than by looking at the tree, `include` are further directories of headers, `needed`
    requirements that are installed for every build, such as those of `built`. Without `proof` the wheels are
    not imported together in a fresh environment: whoever tests their set does that. `problems` and `notes`
    are what was found out while the order was made, `rocm_version` is the ROCm that `built` stands on.
    `seen` are distributions that builds see where ROCm's packages are installed, besides those.
    """

    place: RocmPlace
    wanted: BuildRequest
    output_dir: str
    work_dir: str
    targets: str | None = None
    pythons: tuple[str, ...] = ()
    resume: bool = True
    record: bool = True
    install_wheels: bool = False
    built: tuple[BuiltWheel, ...] = ()
    commits: dict[str, tuple[str, int]] = {}
    include: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    rocm_version: str = ""
    seen: tuple[str, ...] = ()
    proof: bool = True

    def read(self, project: str, table: RecipeTable) -> SourceFacts:
        """What its tree says; raises as `read_tree`."""
        facts = read_tree(table.get(project), Path(self.wanted.sources[project]))
        commit, date = self.commits.get(project, (facts.commit, facts.source_date))
        return msgspec.structs.replace(facts, commit=commit, source_date=date)


def find_sources(
    folders: Mapping[str, str], root: Path | None, given: Mapping[str, Path], *, beside: Path
) -> dict[str, str]:
    """Project → directory: those given, wherever they lead, and what lies in the root directory.

    `folders` are names of directories by project; `beside` is the root where none was asked for. Raises
    `UsageError` when there is nothing to build.
    """
    if root is not None and not root.is_dir():
        raise UsageError(f"there is no directory {root}", next_step="name the directory of the checkouts")
    base = (root or beside).absolute()
    found = {name: str(base / folder) for name, folder in folders.items() if (base / folder).is_dir()}
    found |= {name: str(path) for name, path in given.items()}
    if not found:
        raise UsageError(
            f"no source tree to build: {base} has none of {', '.join(folders.values())}",
            next_step="check them out with `rocwright checkout all`, or name one with --pytorch-dir",
        )
    return found


def plan_only(order: Order, table: RecipeTable) -> FamilyPlan:
    """The plan for a dry run: with the ROCm that is there, or placeholders where there is none.

    Raises what reading a source tree, or a ROCm that the options name, raises. Nothing is written.
    """
    rocm = _rocm_at_hand(order)
    pythons = tuple(find_interpreter(text).name if _is_path(text) else text for text in order.pythons)
    trees = {project: order.read(project, table) for project in wanted_trees(order)}
    return Planner(order, table, trees, pythons).plan(rocm)


def _rocm_at_hand(order: Order) -> Rocm:
    place = order.place
    unknown = unknown_rocm(place.exact_version)
    if place.kind == "own" or place.install:
        return unknown
    if place.directory is not None:
        return present_rocm(place, os.environ)
    if order.wanted.platform != this_system():
        return unknown
    try:
        return present_rocm(place, os.environ)
    except UsageError:
        # Nobody named it, and it is not there.
        return unknown


def wanted_trees(order: Order) -> dict[str, str]:
    """Directories of what is not explicitly left out."""
    return {
        project: where
        for project, where in order.wanted.sources.items()
        if order.wanted.build.get(project, True)
    }


def _is_path(text: str) -> bool:
    return "/" in text or os.sep in text


class Planner:
    """Plans the same order for whichever ROCm, as more of it becomes known."""

    def __init__(
        self,
        order: Order,
        table: RecipeTable,
        trees: Mapping[str, SourceFacts],
        pythons: tuple[str, ...],
    ) -> None:
        self.order, self.table, self.trees, self.pythons = order, table, trees, pythons
        self.jobs = self._jobs()

    def _jobs(self) -> Jobs:
        units = Path(self.order.work_dir) / "units"
        known = [size for project in self.trees for size in peaks(units, project)]
        return choose_jobs(
            available_memory(),
            available_cores(),
            known,
            default_peak=max((self.table.get(project).unit_memory for project in self.trees), default=0),
            asked=asked_jobs(self.order.wanted.jobs, os.environ),
        )

    def plan(self, rocm: Rocm, *, unsure: bool = False) -> FamilyPlan:
        """The plan; with `unsure` targets that only a ROCm would tell are left open."""
        order = self.order
        require_same_rocm(order.rocm_version, rocm)
        try:
            targets = parse_build_targets(order.targets, os.environ, rocm)
        except UsageError:
            if not (unsure and rocm.origin == "unknown"):
                raise
            targets = (_TARGETS,)
        wanted = msgspec.structs.replace(order.wanted, targets=targets, pythons=self.pythons)
        launchers = launcher_environment(
            Path(order.work_dir),
            cache=wanted.cache,
            cache_hip=wanted.cache_hip,
            record=order.record,
            platform=wanted.platform,
            caller=os.environ,
            roots=[Path(tree.directory) for tree in self.trees.values()],
            cache_settings=wanted.cache_settings,
            exact=wanted.exact_cache,
        )
        require_part(wanted.part, wanted.targets)
        if wanted.part:
            require_launchers(launchers)
        return plan_family(
            wanted,
            rocm,
            self.table,
            self.trees,
            caller=os.environ,
            jobs=self.jobs.number,
            launchers=launchers,
            include=order.include,
            built=list(dict.fromkeys(wheel.project for wheel in order.built)),
            needed=order.needed,
            torch=next((wheel.version for wheel in order.built if wheel.project == TORCH), ""),
        )


def require_same_rocm(wanted: str, rocm: Rocm) -> None:
    """Raise `UsageError` for a ROCm other than that which the given torch stands on; empty text: any.

    Of `6.4` every 6.4.x is one; a plus sign is a dot, as in local versions.
    """
    if not wanted or rocm.version == VERSION:
        return
    have, parts = rocm.version.replace("+", ".").replace("-", "."), wanted.split(".")
    if have.split(".")[: len(parts)] != parts:
        raise UsageError(
            f"the torch to build against stands on ROCm {wanted}, and the ROCm at hand is {rocm.version}",
            next_step=f"give the ROCm of that torch (--rocm-sdk-version =={wanted}), or another --torch",
        )


VARIABLE = "PYTORCH_ROCM_ARCH"
FLAG = "--pytorch-rocm-arch"
ALL = "all"


def parse_build_targets(flag: str | None, caller: Mapping[str, str], rocm: Rocm) -> tuple[str, ...]:
    """The targets to build for: the flag, else the caller's `PYTORCH_ROCM_ARCH`, else the ROCm's own.

    Separated by spaces, commas or semicolons; names of families stand for their targets, `all` for every
    target that the ROCm has device code for, or of the table where it does not say. Raises `UsageError`
    naming the flag when all three are empty, `InvalidTarget` for text that is neither target nor family.
    """
    for text, origin in ((flag, FLAG), (caller.get(VARIABLE), VARIABLE)):
        if text and (words := _words(text)):
            return _expanded(words, origin, rocm)
    if rocm.targets:
        return _not_brought(rocm.targets)
    raise UsageError(
        "no GPU target to build for: none was given, and the ROCm does not say which ones it has code for",
        next_step=f"give {FLAG}, for example {FLAG} gfx942,gfx1100",
    )


def require_part(part: Sequence[str], targets: Sequence[str]) -> None:
    """Raise `UsageError` unless every target of a part is among those of the build, by its base."""
    known = {text.partition(":")[0] for text in targets}
    foreign = sorted({parse_target(text).base for text in part} - known)
    if foreign:
        raise UsageError(
            f"{', '.join(foreign)} is not a target of this build, which is for {', '.join(targets)}",
            next_step=f"name with {FLAG} the targets of all parts, and with --device-part those of this one",
        )


def _not_brought(targets: tuple[str, ...]) -> tuple[str, ...]:
    """Without generic targets that are there because the package of one that they serve requires theirs."""
    generic = load_table("families", Families).generic
    return tuple(
        target for target in targets if not set(generic.get(target, ())) & set(base_targets(targets))
    )


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,;]+", text) if word]


def _expanded(words: list[str], origin: str, rocm: Rocm) -> tuple[str, ...]:
    families = load_table("families", Families).families
    found: list[str] = []
    for word in words:
        if word == ALL:
            known = {target for members in families.values() for target in members}
            found.extend(_not_brought(rocm.targets) or base_targets(known))
        elif word in families:
            found.extend(families[word])
        else:
            found.extend(str(target) for target in _targets(word, origin, families))
    return tuple(dict.fromkeys(found))


def _targets(word: str, origin: str, families: Mapping[str, object]) -> tuple[object, ...]:
    try:
        return parse_targets(word)
    except InvalidTarget as error:
        raise InvalidTarget(
            f"{origin}: {error.what}, nor a family",
            next_step="families: " + " ".join(sorted(families)),
        ) from error
