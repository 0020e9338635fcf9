"""Look at the sources of a project that stands on torch: how its build switches HIP on, what it fetches, what
is missing; read, never executed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from rocwright.builder.before.downloads import find_downloads, listed, unknown
from rocwright.builder.before.fetching import Download
from rocwright.builder.before.needs import Problem
from rocwright.builder.decide.extension import Extension, Kind, contradicted
from rocwright.builder.decide.recipe import cpu_time
from rocwright.errors import RocwrightError
from rocwright.system.files import walk_files
from rocwright.wheel.source_tree import build_requires, pyproject_table

_DEVICE = (".cu", ".hip")
_TORCHS = frozenset(("BuildExtension", "CUDAExtension", "CppExtension"))
_FINDS_TORCH = re.compile(r"find_package\s*\(\s*Torch\b|\bTORCH_LIBRARIES\b|\bTorch_DIR\b", re.IGNORECASE)
_NO_SOURCES = frozenset(("build", "dist", ".git"))
_NOTHING: Mapping[str, str] = {}


class ExtensionFacts(msgspec.Struct, frozen=True):
    """The sources of an extension.

    `kind` is None where nothing tells it. `device` counts device sources, `compiled` is whether there is
    anything to compile, `requires` are its build requirements; `missing` are directories of headers that
    setup.py names and that are not there, perhaps for other machines.
    """

    kind: Kind | None
    device: int = 0
    compiled: bool = False
    downloads: tuple[Download, ...] = ()
    missing: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


def look_at_extension(directory: Path, kind: Kind | None = None) -> ExtensionFacts:
    """What is there; `kind` where it is known."""
    setup = _parsed(directory / "setup.py")
    kind = kind or _kind(directory, setup)
    suffixes = [
        path.suffix
        for path in walk_files(directory)
        if not _NO_SOURCES.intersection(path.relative_to(directory).parts)
    ]
    return ExtensionFacts(
        kind=kind,
        device=sum(suffix in _DEVICE for suffix in suffixes),
        compiled=any(suffix in (*_DEVICE, ".cpp", ".cc", ".cxx", ".c", ".pyx") for suffix in suffixes),
        downloads=find_downloads(directory, cmake=kind != "torch"),
        missing=tuple(_missing(directory, setup)),
        requires=_requires(directory),
    )


def extension_problems(
    row: Extension, facts: ExtensionFacts, directory: Path, given: Mapping[str, str] = _NOTHING
) -> Iterator[Problem]:
    """What stands in the way of its build, whatever the machine has; `given` are versions by project."""
    project, where = row.project, str(directory)
    if facts.kind is None and facts.compiled:
        yield Problem(
            f"{project}: nothing tells how its build switches HIP on: setup.py does not use torch's "
            "BuildExtension, there is no CMakeLists.txt that finds torch, and no scikit-build-core",
            f'give it a row in rocwright.toml: [[extensions.extension]], project = "{project}", kind = …',
            where,
        )
    for what, next_step in contradicted(project, facts.requires, given):
        yield Problem(what, next_step, where)
    certain = [each for each in unknown(facts.downloads, row.fetches) if each.certain]
    if certain:
        yield Problem(
            f"{project}: its build downloads: {listed(certain)}",
            "bring that by hand and let its build take it, or give --allow-downloads",
            where,
        )


def extension_notes(row: Extension, facts: ExtensionFacts, targets: int) -> Iterator[str]:
    """What the user should know of its build."""
    perhaps = [each for each in unknown(facts.downloads, row.fetches) if not each.certain]
    if perhaps:
        yield (
            f"{row.project}: its build may download, and is kept from the network: {listed(perhaps)} "
            "(--allow-downloads lets it)"
        )
    if facts.missing:
        yield (
            f"{row.project}: headers that setup.py looks for are not there: {listed(facts.missing)}; an "
            f"sdist may lack submodules, which the repository has (--project git+https://…@TAG#{row.project})"
        )
    yield from _cost(row, facts, max(targets, 1))


def _cost(row: Extension, facts: ExtensionFacts, targets: int) -> Iterator[str]:
    hours = row.hours_per_target
    if hours:
        cost = f"{cpu_time(hours)} for each GPU target"
        if targets > 1:
            cost += f", {cpu_time(hours * targets)} for {targets}"
    elif facts.device:
        count = "one device source" if facts.device == 1 else f"{facts.device} device sources"
        cost = f"{count}, compiled for each GPU target"
    else:
        return
    yield f"{row.project}: {cost}; its largest file takes {row.unit_memory / 1e9:.1f} GB (an estimate)"


# -- how HIP is switched on


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError):
        return None


def _kind(directory: Path, setup: ast.Module | None) -> Kind | None:
    if _backend(directory).startswith("scikit_build_core"):
        return "scikit-build-core"
    if any(_name(node) in _TORCHS for node in ast.walk(setup or ast.Module([], []))):
        return "torch"
    try:
        cmake = (directory / "CMakeLists.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return "cmake" if setup is not None and _FINDS_TORCH.search(cmake) else None


def _name(node: ast.AST) -> str:
    """The name that is imported or used."""
    if isinstance(node, ast.alias):
        return node.name
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _backend(directory: Path) -> str:
    try:
        return str(pyproject_table(directory, "build-system").get("build-backend", ""))
    except RocwrightError:
        # Whoever plans the build reads it again, and says what is wrong.
        return ""


def _requires(directory: Path) -> tuple[str, ...]:
    try:
        return build_requires(directory)
    except RocwrightError:
        return ()


# -- directories of headers that setup.py names


def _missing(directory: Path, setup: ast.Module | None) -> Iterator[str]:
    """Those of `include_dirs` that are written as plain texts below the tree, and are not there."""
    seen = set()
    for node in ast.walk(setup or ast.Module([], [])):
        for path in _include_paths(node):
            below = re.sub(r"^[./]+", "", path)
            if below and below not in seen and not (directory / below).exists():
                seen.add(below)
                yield below


def _include_paths(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.keyword) and node.arg == "include_dirs":
        values = node.value.elts if isinstance(node.value, ast.List) else []
    elif isinstance(node, (ast.Assign, ast.AugAssign)) and isinstance(node.value, ast.List):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        named = [getattr(target, "id", "") for target in targets]
        values = node.value.elts if "include_dirs" in named else []
    else:
        return
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            if not Path(value.value).is_absolute():
                yield value.value
        elif isinstance(value, (ast.Call, ast.BinOp)):
            yield from _joined(value)


def _joined(node: ast.AST) -> Iterator[str]:
    """`os.path.join(here, "csrc", "include")` and `Path(here) / "csrc" / "include"`, without `here`."""
    parts: list[str] = []
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "join" and len(node.args) > 1:
        texts = [each.value for each in node.args[1:] if isinstance(each, ast.Constant)]
        parts = [text for text in texts if isinstance(text, str)]
        if len(parts) != len(node.args) - 1 or not isinstance(node.args[0], ast.Name):
            return
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        if not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, str)):
            return
        parts.insert(0, node.right.value)
        node = node.left
        if not isinstance(node, (ast.BinOp, ast.Name, ast.Call)):
            return
    if parts:
        yield "/".join(parts)
