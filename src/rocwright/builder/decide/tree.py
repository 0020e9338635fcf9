"""What a build has to know of a checkout."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from rocwright.builder.decide.cmake import has_hip_language
from rocwright.builder.decide.recipe import Recipe
from rocwright.errors import InvalidData, InvalidInput, UsageError
from rocwright.model.build_env import variable_problem
from rocwright.model.version import InvalidVersion, parse_version
from rocwright.system.git import Git
from rocwright.wheel.source_tree import build_requires, pkg_info, pyproject_table, read_text

_UPSTREAM = "refs/tags/THEROCK_UPSTREAM_DIFFBASE"
_HIPIFIED = "refs/tags/THEROCK_HIPIFY_DIFFBASE"
# What a tree is asked for when no pyproject.toml names a backend (PEP 517).
_SETUPTOOLS = "setuptools.build_meta"


class SourceFacts(msgspec.Struct, frozen=True):
    """A checkout as a build sees it.

    `version` is the text of the version file (empty where the recipe has none; of an sdist whose wheel gets a
    local version what PKG-INFO says), `commit` the upstream commit
    (empty outside git), `source_date` its time in seconds since 1970. `setup` is the directory that holds
    setup.py, below the tree (`.`: the tree itself), and `has_setup` whether there is one: a pyproject.toml
    alone will do, too. `requires` are pyproject's build requirements, `cmake`
    whether a CMakeLists.txt is there, `hip_language` whether HIP is one of its languages, so that CMake calls
    clang itself, `llvm_hash` what `cmake/llvm-hash.txt` begins with (triton).
    """

    directory: str
    version: str = ""
    commit: str = ""
    source_date: int | None = None
    setup: str = "."
    has_setup: bool = True
    backend: str = _SETUPTOOLS
    requires: tuple[str, ...] = ()
    build_env: dict[str, str] = {}
    requirements_files: tuple[str, ...] = ()
    cmake: bool = False
    hip_language: bool = False
    llvm_hash: str = ""


def absent_tree(recipe: Recipe, directory: Path) -> SourceFacts:
    """What a plan may take for a tree that could not be read, so that everything else can still be judged."""
    return SourceFacts(str(directory), version="0" if recipe.version_file else "", commit="0" * 40)


def read_tree(recipe: Recipe, directory: Path) -> SourceFacts:
    """Read what the recipe needs of the checkout in `directory`.

    Raises `UsageError` for a directory that is not there, `InvalidInput` for one without a version, without
    setup.py or without the package that ROCm's module goes into, `InvalidData` for a `build_env.json` or
    pyproject.toml that does not parse; each names the file.
    """
    if not directory.is_dir():
        raise UsageError(
            f"{recipe.project}: {directory} is not a directory",
            next_step=f"check it out: rocwright checkout {recipe.project}",
        )
    project = pyproject_table(directory, "build-system")
    setup = next((name for name in recipe.setup if (directory / name).is_file()), None)
    if setup is None and not project:
        raise InvalidInput(
            f"{recipe.project} has no {' and no '.join(recipe.setup)}, so there is nothing to build",
            where=directory,
            next_step="name the directory that has setup.py or pyproject.toml; of a repository with "
            "#subdirectory=DIRECTORY"
            if recipe.local_version
            else f"is this {recipe.project}? check it out: rocwright checkout {recipe.project}",
        )
    version = _base_version(recipe, directory)
    if recipe.rocm_init and not (directory / recipe.rocm_init).parent.is_dir():
        raise InvalidInput(
            f"the {recipe.project} wheel contains {recipe.rocm_init}, but there is no directory for it here",
            where=directory,
            next_step=f"is this {recipe.project}? name the directory of its checkout",
        )
    commit, date = _commit(directory)
    return SourceFacts(
        directory=str(directory),
        version=version,
        commit=commit,
        source_date=date,
        setup="." if setup is None else Path(setup).parent.as_posix(),
        has_setup=setup is not None,
        backend=str(project.get("build-backend", _SETUPTOOLS)),
        requires=build_requires(directory),
        build_env=_build_env(directory / "build_env.json"),
        requirements_files=tuple(name for name in recipe.requirements_files if (directory / name).is_file()),
        cmake=(directory / "CMakeLists.txt").is_file(),
        hip_language=has_hip_language(directory),
        llvm_hash=_llvm_hash(directory / "cmake" / "llvm-hash.txt"),
    )


def _base_version(recipe: Recipe, directory: Path) -> str:
    if not recipe.version_file:
        return _sdist_version(directory) if recipe.local_version else ""
    path = directory / recipe.version_file
    text = read_text(path)
    if text is None:
        raise InvalidInput(
            f"{recipe.version_file} is missing, so the version of the {recipe.project} wheel is unknown",
            where=path,
            next_step=f"is this {recipe.project}? check it out: rocwright checkout {recipe.project}",
        )
    try:
        version = parse_version(text.strip())
    except InvalidVersion as error:
        raise InvalidInput(
            f"{recipe.version_file} says {text.strip()[:60]!r}, which is not a version",
            where=path,
            next_step="write the base version there, such as 2.9.0",
        ) from error
    if version.local:
        raise InvalidInput(
            f"{recipe.version_file} says {text.strip()!r}; what follows the + comes from the ROCm",
            where=path,
            next_step=f"write {version.public} there",
        )
    return text.strip()


def _sdist_version(directory: Path) -> str:
    """What PKG-INFO of an unpacked sdist says, without a local part; empty where only the build knows."""
    _, version = pkg_info(directory)
    try:
        return parse_version(version).public if version else ""
    except InvalidVersion:
        return ""


def _build_env(path: Path) -> dict[str, str]:
    """What the checkout wrote for a commit that comes from a pin."""
    text = read_text(path)
    if text is None:
        return {}
    try:
        variables = msgspec.json.decode(text, type=dict[str, str])
    except msgspec.DecodeError as error:
        raise InvalidData(f"{path.name} is not a table of variables: {error}", where=path) from error
    for name, value in variables.items():
        if why := variable_problem(name, value):
            raise InvalidData(
                f"{path.name} sets {name!r}, which {why}", where=path, next_step="check the sources out again"
            )
    return variables


def _llvm_hash(path: Path) -> str:
    text = (read_text(path) or "").strip()
    return text[:8] if re.match(r"[0-9a-f]{8}", text) else ""


def _commit(directory: Path) -> tuple[str, int | None]:
    """The commit that was checked out and its time.

    A hipified tree has a commit of this machine on top, which says nothing to anybody else.
    """
    if not (directory / ".git").exists():
        return "", None
    git = Git(directory / ".git", directory)
    head = git.resolve("HEAD")
    if head is None:
        return "", None
    tags = git.refs(_UPSTREAM, _HIPIFIED)
    commit = tags.get(_UPSTREAM, head) if tags.get(_HIPIFIED) == head else head
    shown = git.run("log", "-1", "--format=%ct", commit).strip()
    return commit, int(shown)
