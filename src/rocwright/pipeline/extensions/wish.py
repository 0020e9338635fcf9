"""What a user wishes to build on torch, made an order for the builder, with all that is wrong with it before
anything is built: the story of `build --project`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import InvalidVersion

from rocwright.builder.before.extension import (
    ExtensionFacts,
    extension_notes,
    extension_problems,
    look_at_extension,
)
from rocwright.builder.before.needs import Problem
from rocwright.builder.decide.extension import ExtensionTable, in_force, with_extensions
from rocwright.builder.decide.recipe import Recipe, RecipeTable
from rocwright.builder.order import Order, parse_build_targets, wanted_trees
from rocwright.builder.rocm.install import satisfies
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.rocm.rocm import unknown_rocm
from rocwright.builder.run.family import alone_at_work
from rocwright.errors import RocwrightError, UsageError
from rocwright.model.project import TORCH
from rocwright.pipeline.extensions.beside import beside_rocm
from rocwright.pipeline.extensions.given import Foundation, find_given
from rocwright.pipeline.extensions.sources import Note, bring_sources, offers_of
from rocwright.sources.project import ProjectSource, ProjectTree
from rocwright.system.interpreters import find_interpreter
from rocwright.system.venv import Closed
from rocwright.wheel.tags import parse_wheel_name


def python_names(pythons: Sequence[str]) -> tuple[str, ...]:
    """The Pythons asked for as tags spell them, `3.12`; of the running one where none is.

    Raises `MissingTool` for a path where no interpreter is.
    """
    is_name = re.compile(r"3\.\d+t?").fullmatch
    named = [text if is_name(text) else find_interpreter(text).name for text in pythons or ("",)]
    return tuple(dict.fromkeys(named))


class Wish(msgspec.Struct, frozen=True):
    """What is to be built on torch.

    `sources` are the projects, `index` is where sdists are, `torch` which one is meant: a version, or the
    path of a wheel or of a directory of wheels.
    """

    sources: tuple[ProjectSource, ...]
    index: str
    torch: str | None = None
    allow_downloads: bool = False


def ordered(
    order: Order, recipes: RecipeTable, table: ExtensionTable, wish: Wish, *, folder: Path, note: Note
) -> tuple[Order, RecipeTable]:
    """The order and the recipes with what is wished for; sources and fetched wheels go below `folder`.

    Raises `UsageError` for what has no effect.
    """
    if order.wanted.build_number > 1 and not wanted_trees(order):
        raise UsageError(
            "--pytorch-build-number is for PyTorch's own packages, and none is built here",
            next_step="leave it out, or tell the wheels apart with --version-suffix",
        )
    # What another run builds from and against there must not change below it.
    with alone_at_work(folder, note):
        return _ordered(order, recipes, table, wish, folder=folder, note=note)


def _ordered(
    order: Order, recipes: RecipeTable, table: ExtensionTable, wish: Wish, *, folder: Path, note: Note
) -> tuple[Order, RecipeTable]:
    trees = bring_sources(wish.sources, table, index=wish.index, folder=folder / "src", note=note)
    given = Foundation(())
    built = _built(order, trees)
    needs = _needed_besides(trees, table, built)
    if TORCH in built:
        if wish.torch is not None:
            raise UsageError(
                f"--torch {wish.torch}: this run builds a torch itself",
                next_step="leave --torch out, or the checkout of torch",
            )
        if needs:
            raise UsageError(
                f"{needs[0]} is needed, for the torch of this run, and is not built here",
                next_step=f"build it as well: --project {needs[0]}==VERSION",
            )
    else:
        path = None if wish.torch is None else _as_path(wish.torch)
        if order.place.kind == "environment" and not order.place.install and path is None:
            there = beside_rocm(order.place, python_names(order.pythons), wish.torch, needs, built)
            given, order = there.given, msgspec.structs.replace(order, seen=there.seen)
        else:
            given = _offered(order, wish.torch, path, needs, built, folder=folder / "given", note=note)
        if given.exact and (order.place.kind == "own" or order.place.install):
            order = msgspec.structs.replace(order, place=_with_rocm(order.place, given.exact))
        if given.exact and order.place.kind == "prefix":
            order = msgspec.structs.replace(order, problems=(*order.problems, _on_packages(given.exact)))
    return stand_on(
        order,
        recipes,
        table,
        trees,
        given,
        allow_downloads=wish.allow_downloads,
        targets=_targets(order),
    )


def _with_rocm(place: RocmPlace, version: str) -> RocmPlace:
    """The place with the ROCm that torch requires; raises `UsageError` where another is asked for."""
    if not satisfies(version, place.spec):
        raise UsageError(
            f"the torch to build against requires ROCm {version}, and --rocm-sdk-version is {place.spec}",
            next_step="leave --rocm-sdk-version out, or give another --torch",
        )
    return place if place.exact_version else msgspec.structs.replace(place, spec=f"=={version}")


def _on_packages(version: str) -> Problem:
    return Problem(
        f"the torch to build against loads ROCm from its packages (rocm=={version}), not from --rocm-prefix",
        "give the place of those packages instead, --find-links or --index-url; or a torch that was built "
        "against a plain ROCm",
    )


def _targets(order: Order) -> int:
    """How many GPU targets are asked for; 1 where only the ROCm will tell."""
    try:
        return len(parse_build_targets(order.targets, os.environ, unknown_rocm()))
    except RocwrightError:
        # Whoever plans the build says it.
        return 1


def _offered(
    order: Order,
    torch: str | None,
    path: Path | None,
    needs: Sequence[str],
    built: Collection[str],
    *,
    folder: Path,
    note: Note,
) -> Foundation:
    """The torch that lies where ROCm's packages come from, or at `path`."""
    places, named = order.place.places, ""
    if path is not None:
        found = path if path.is_dir() else path.parent
        # First, so that no other file of that name is taken for it.
        places = Closed(places.index_url, (str(found), *places.find_links))
        named = "" if path.is_dir() else path.name
        torch = _version_in(named) if named else None
    if not places.find_links and places.index_url is None:
        raise UsageError(
            "no place to take torch from, which --project is built against",
            next_step="give the place of it and ROCm, --find-links or --index-url; or --torch DIRECTORY",
        )
    with offers_of(places, folder, note) as offers:
        return find_given(
            offers,
            torch=torch,
            pythons=python_names(order.pythons),
            platform=order.wanted.platform,
            named=named,
            needs=needs,
            built=built,
        )


def _as_path(text: str) -> Path | None:
    if "/" not in text and "\\" not in text and not text.endswith(".whl"):
        return None
    path = Path(text).expanduser().absolute()
    if not path.exists() or (path.is_file() and path.suffix != ".whl"):
        raise UsageError(
            f"--torch {text}: there is no such wheel or directory",
            where=path,
            next_step="name a version or a wheel",
        )
    return path


def _version_in(name: str) -> str:
    """The version in the file name of a torch."""
    try:
        found = parse_wheel_name(name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise UsageError(f"--torch {name}: {error}", next_step="restore its name") from error
    if found.project != TORCH:
        raise UsageError(f"--torch {name} is a wheel of {found.project}", next_step="name one of torch")
    return str(found.version)


# -- the order


def _built(order: Order, trees: Sequence[ProjectTree]) -> set[str]:
    """The projects that a run builds."""
    return {tree.project for tree in trees} | set(map(canonicalize_name, wanted_trees(order)))


def _needed_besides(
    trees: Sequence[ProjectTree], table: ExtensionTable, built: Collection[str]
) -> tuple[str, ...]:
    """Projects that those of a run need, and that it does not build."""
    needs = [need for tree in trees for need in table.needs(tree.project)]
    return tuple(dict.fromkeys(need for need in needs if need not in built))


def stand_on(
    order: Order,
    recipes: RecipeTable,
    table: ExtensionTable,
    trees: Sequence[ProjectTree],
    given: Foundation,
    *,
    allow_downloads: bool = False,
    targets: int = 1,
) -> tuple[Order, RecipeTable]:
    """The order and the recipes with these projects, built against what is given."""
    found: dict[str, Recipe] = {}
    versions = {wheel.project: wheel.version for wheel in given.wheels}
    compilers = _compilers(recipes, order.wanted.platform)
    built = _built(order, trees)
    shown: set[str] = set()
    problems: list[Problem] = []
    notes: list[str] = []
    for tree in trees:
        row = table.get(tree.project)
        facts = look_at_extension(Path(tree.directory), row.kind)
        if allow_downloads:
            facts = msgspec.structs.replace(facts, downloads=())
        problems += extension_problems(row, facts, Path(tree.directory), versions)
        notes += extension_notes(row, facts, targets)
        recipe = row.recipe(facts.kind, device_code=_has_device_code(facts))
        required = {canonicalize_name(one.name) for one in in_force(facts.requires)}
        behind = {*table.needs(tree.project), *required} & built - {tree.project, TORCH}
        shown |= behind
        found[tree.project] = msgspec.structs.replace(
            recipe,
            env=compilers | recipe.env,
            after=tuple(dict.fromkeys((*recipe.after, *sorted(behind)))),
            optional=tuple(dict.fromkeys((*recipe.optional, *sorted(behind)))),
        )
    _require_new(order, found)
    sources = order.wanted.sources | {tree.project: tree.directory for tree in trees}
    wanted = msgspec.structs.replace(
        order.wanted,
        sources=sources,
        fenced=() if allow_downloads else tuple(found),
        shown=tuple(sorted(shown)),
    )
    order = msgspec.structs.replace(
        order,
        wanted=wanted,
        built=(*order.built, *given.wheels),
        needed=(*order.needed, *given.requirements),
        commits=order.commits
        | {tree.project: (tree.commit, tree.date) for tree in trees if tree.date is not None},
        problems=(*order.problems, *problems),
        notes=(*order.notes, *notes),
        rocm_version=given.rocm,
    )
    family = {*order.wanted.sources, *order.wanted.build}
    return order, with_extensions(recipes, table, found, family=family)


def _has_device_code(facts: ExtensionFacts) -> bool:
    # CMake projects may call device sources as they like.
    return facts.kind != "torch" or facts.device > 0


# What a recipe of torch may name: objects of another compiler's C++ do not go together with torch's.
_COMPILERS = ("CC", "CXX", "HIP_CLANG_PATH")


def _compilers(recipes: RecipeTable, platform: str) -> dict[str, str]:
    """The compilers that torch's recipe names, so that what stands on it is compiled with the same."""
    env = recipes.get(TORCH).environment(platform)
    return {name: env[name] for name in _COMPILERS if name in env}


def _require_new(order: Order, found: dict[str, Recipe]) -> None:
    """What a run builds against is not built in it as well."""
    double = sorted({canonicalize_name(name) for name in order.wanted.sources} & set(found))
    if double:
        raise UsageError(
            f"{double[0]} is given with --project and as a checkout", next_step="leave one of them out"
        )
