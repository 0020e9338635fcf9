"""The modules of a build script, and what names in them mean; read, never executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

# So many modules of a project are followed; PyTorch's setup.py imports about ten.
_MOST = 64
# A name that is handed on more often than this is not followed.
_HANDED_ON = 5
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Module(NamedTuple):
    """A parsed file: its definitions, what it imports by name (of `None` the module itself), from where it
    imports all, and the values that are given once.
    """

    path: Path
    tree: ast.Module
    defined: dict[str, ast.AST]
    imported: dict[str, tuple[Path, str | None]]
    stars: list[Path]
    values: dict[str, ast.expr]


# A function or class, with the module it stands in.
Definition = tuple[Module, ast.AST]


class Modules:
    """Those below a directory, as they are asked for; others are not followed."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.known: dict[Path, Module | None] = {}

    def get(self, path: Path) -> Module | None:
        """None for a file that does not parse, and behind the first many."""
        if path not in self.known:
            follow = len(self.known) < _MOST and path.is_relative_to(self.base)
            self.known[path] = _read(path, self.base) if follow else None
        return self.known[path]

    def named(self, node: ast.AST, module: Module) -> Definition | None:
        """The function or class that an expression names."""
        found = self._meant(node, module)
        return found if isinstance(found, tuple) else None

    def run_by(self, node: ast.Import | ast.ImportFrom, module: Module) -> Iterator[Path]:
        """Files that an import runs, packages before what is in them."""
        return _files(node, module.path, self.base)

    def _meant(self, node: ast.AST, module: Module) -> Definition | Path | None:
        if isinstance(node, ast.Name):
            return self._of(module, node.id)
        if isinstance(node, ast.Attribute):
            owner = self._meant(node.value, module)
            return self._in(owner, node.attr) if isinstance(owner, Path) else None
        return None

    def _of(self, module: Module, name: str, depth: int = 0) -> Definition | Path | None:
        """What a name of a module is; a path where that is a module."""
        if name in module.defined:
            return module, module.defined[name]
        if name in module.imported:
            path, what = module.imported[name]
            return path if what is None else self._in(path, what, depth + 1)
        for path in module.stars:
            found = self._in(path, name, depth + 1)
            if found is not None:
                return found
        return None

    def _in(self, path: Path, name: str, depth: int = 0) -> Definition | Path | None:
        if depth > _HANDED_ON:
            return None
        module = self.get(path) if path.suffix == ".py" else None
        found = self._of(module, name, depth) if module is not None else None
        return found or _place(_inside(path), [name])


def _read(path: Path, base: Path) -> Module | None:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        # What it does then, the build will say.
        return None
    module = Module(path, tree, {}, {}, [], {})
    methods = {
        each
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, FUNCTIONS)
    }
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node not in methods:
            module.defined.setdefault(node.name, node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                words = alias.name.split(".")
                place = _place(base, words if alias.asname else words[:1])
                if place is not None:
                    module.imported[alias.asname or words[0]] = (place, None)
        elif isinstance(node, ast.ImportFrom):
            place = _from(node, path, base)
            if place is None:
                continue
            for alias in node.names:
                if alias.name == "*":
                    module.stars.append(place)
                else:
                    module.imported[alias.asname or alias.name] = (place, alias.name)
    _add_values(module)
    return module


def _add_values(module: Module) -> None:
    several = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id in module.values:
                several.add(node.id)
            module.values[node.id] = node
    for statement in module.tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            (target,) = statement.targets
            if isinstance(target, ast.Name) and target.id not in several:
                module.values[target.id] = statement.value


def _place(below: Path, words: Sequence[str]) -> Path | None:
    """Where a module lies: its file, or its directory where that has none of its own."""
    path = below.joinpath(*words)
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if file.is_file():
            return file
    return path if path.is_dir() else None


def _from(node: ast.ImportFrom, path: Path, base: Path) -> Path | None:
    if node.level:
        base = path.parents[min(node.level, len(path.parents)) - 1]
    if node.module is None:
        return _place(base.parent, [base.name])
    return _place(base, node.module.split("."))


def _files(node: ast.Import | ast.ImportFrom, path: Path, base: Path) -> Iterator[Path]:
    """Files that an import runs, packages before what is in them."""
    places: list[Path | None] = []
    if isinstance(node, ast.Import):
        for alias in node.names:
            words = alias.name.split(".")
            places += [_place(base, words[:end]) for end in range(1, len(words) + 1)]
    else:
        words = (node.module or "").split(".") if not node.level else []
        places += [_place(base, words[:end]) for end in range(1, len(words))]
        place = _from(node, path, base)
        places.append(place)
        if place is not None:
            places += [_place(_inside(place), [alias.name]) for alias in node.names]
    yield from (place for place in places if place is not None and place.suffix == ".py")


def _inside(place: Path) -> Path:
    """Where the modules in a package lie."""
    return place.parent if place.name == "__init__.py" else place
