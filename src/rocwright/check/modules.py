"""Which modules wheels bring, what importing their packages imports, and which imports lead nowhere; pure.

Only what is certain is told: a package that may get names or modules in ways its source does not show answers
every question with "perhaps".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Literal

import msgspec
from packaging.utils import canonicalize_name

from rocwright.check.facts import Facts, Import, PythonFacts
from rocwright.wheel.read import place_of

Kind = Literal["package", "module", "folder"]
_MODULE = re.compile(r"(?P<stem>(?:[^/.]+/)*[^/.]+)(?:\.py|\.pyc|(?:\.[^/]+)?\.(?:so|pyd))")
_INIT = "__init__"
# Of types and of Cython.
_DECLARATIONS = (".pyi", ".pxd")


class Lost(msgspec.Struct, frozen=True):
    """A module that an import asks for and nothing brings; `importer` is the member with the import.

    `package` says that its folder is there and only the `__init__` is missing, in which `names` are looked
    for.
    """

    module: str
    importer: str
    line: int
    package: bool = False
    names: tuple[str, ...] = ()


class ModuleTable:
    """The modules of one wheel, by their dotted names."""

    def __init__(self, facts: Facts) -> None:
        self.project = facts.project
        self.kinds: dict[str, Kind] = {}
        self.sources: dict[str, PythonFacts] = {}
        # Those that an extension brings: Python takes it before a source.
        self.built: set[str] = set()
        # Those that a declaration is about: where they have no file, an extension of another name makes them.
        self.declared: set[str] = set()
        folders: set[str] = set()
        for member in facts.members:
            place = place_of(member.name)
            above = place.split("/")[:-1]
            # Also one of data alone can be imported, as a namespace.
            folders |= {".".join(above[:end]) for end in range(1, len(above) + 1)}
            match = _MODULE.fullmatch(place)
            if match is None:
                if place.endswith(_DECLARATIONS):
                    self.declared.add(place.rpartition(".")[0].removesuffix(f"/{_INIT}").replace("/", "."))
                continue
            parts = match["stem"].split("/")
            is_package = parts[-1] == _INIT
            name = ".".join(parts[:-1] if is_package else parts)
            if not place.endswith((".py", ".pyc")):
                self.built.add(name)
            # Python takes a package before a module of the same name.
            if self.kinds.get(name) != "package":
                self.kinds[name] = "package" if is_package else "module"
        for folder in folders:
            self.kinds.setdefault(folder, "folder")
        for source in facts.python:
            self.sources[dotted(source.member)] = source

    @property
    def top_levels(self) -> frozenset[str]:
        """What the names of all modules begin with that it can be asked for."""
        return frozenset(name.partition(".")[0] for name in (*self.kinds, *self.sources, *self.declared))

    @cached_property
    def tops(self) -> frozenset[str]:
        """Packages at the top that are no namespaces, and a module that has the project's name."""
        found = {name for name, kind in self.kinds.items() if "." not in name and kind == "package"}
        own = {
            name
            for name, kind in self.kinds.items()
            if kind == "module" and canonicalize_name(name) == self.project
        }
        return frozenset(found | own)


def dotted(member: str) -> str:
    """The name under which a member is imported: `a/b/__init__.py` is `a.b`."""
    parts = place_of(member).removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == _INIT else parts)


def is_init(member: str) -> bool:
    """Whether a member makes its folder a package."""
    return member.rpartition("/")[2] == f"{_INIT}.py"


class Imports:
    """What happens when each package of a wheel is imported, beside other projects at hand.

    `known` tells the tables of all files that may have a module.
    """

    def __init__(
        self, own: ModuleTable, known: Callable[[str], Iterable[ModuleTable]] = lambda _: ()
    ) -> None:
        self.own, self._known = own, known

    def _tables(self, module: str) -> tuple[ModuleTable, ...]:
        others = (table for table in self._known(module) if table.project != self.own.project)
        return (self.own, *others)

    @cached_property
    def reached(self) -> Mapping[str, PythonFacts]:
        """Modules of the wheel, of which there are facts, that importing its packages imports for certain."""
        return {name: self.own.sources[name] for name in self.imported if name in self.own.sources}

    @cached_property
    def imported(self) -> Collection[str]:
        """The names of all of these modules, in the order in which they are found."""
        found: dict[str, None] = {}
        waiting = sorted(self.own.tops)
        while waiting:
            name = waiting.pop()
            if name in found or self.own.kinds.get(name) is None:
                continue
            found[name] = None
            source = self.own.sources.get(name)
            if source is None:
                continue
            for one in source.imports:
                module = absolute(source.member, one)
                if module is not None:
                    waiting += _with_parents(module)
                    waiting += [
                        f"{module}.{each}" for each in one.names or () if f"{module}.{each}" in self.own.kinds
                    ]
        return found.keys()

    @cached_property
    def outside(self) -> Mapping[str, tuple[str, int]]:
        """Top levels that importing the wheel's packages imports and no table has: by whom, and the line."""
        found: dict[str, tuple[str, int]] = {}
        for source in self.reached.values():
            for one in source.imports:
                top = one.module.partition(".")[0]
                if not one.dots and top and not any(top in table.kinds for table in self._tables(top)):
                    found.setdefault(top, (source.member, one.line))
        return found

    def lost(self, source: PythonFacts) -> Iterator[Lost]:
        """What a module asks for in vain, by an import that holds whenever it is imported itself."""
        yield from dict.fromkeys(self._lost(source))

    def _lost(self, source: PythonFacts) -> Iterator[Lost]:
        for one in source.imports:
            module = absolute(source.member, one)
            if module is None:
                if one.dots and self._is_known(dotted(source.member).split(".")[0]):
                    yield Lost("." * one.dots + one.module, source.member, one.line)
                continue
            if not self._is_known(module.split(".")[0]) or self._is_made(module):
                continue
            kind = self._kind(module)
            if kind is None:
                if self._is_complete(module):
                    yield Lost(module, source.member, one.line)
            else:
                yield from self._names(source, one, module, kind)

    def _names(self, source: PythonFacts, one: Import, module: str, kind: Kind) -> Iterator[Lost]:
        wanted = [each for each in one.names or () if not each.startswith("__")]
        wanted = [each for each in wanted if not self._has(f"{module}.{each}")]
        if kind == "folder" and wanted:
            yield Lost(module, source.member, one.line, package=True, names=tuple(wanted))
        if kind == "folder":
            return
        init = self._source(module)
        if init is None or init.names is None or init.dynamic or init.spreads or init.problem is not None:
            return
        # A package that asks itself has the name only because it asks.
        itself = init.member == source.member
        for each in wanted:
            if itself or each not in init.names:
                yield Lost(f"{module}.{each}", source.member, one.line)

    def _is_known(self, top: str) -> bool:
        return any(table.kinds.get(top) == "package" for table in self._tables(top))

    def _kind(self, module: str) -> Kind | None:
        kinds = {table.kinds.get(module) for table in self._tables(module)}
        return next((kind for kind in ("package", "module", "folder") if kind in kinds), None)

    def _has(self, module: str) -> bool:
        return self._kind(module) is not None or self._is_declared(module)

    def _is_declared(self, module: str) -> bool:
        return any(module in table.declared for table in self._tables(module))

    def _is_made(self, module: str) -> bool:
        """Whether an extension makes a module while it runs, as far as one can see: no file is its own."""
        kind = self._kind(module)
        if kind is None and self._is_declared(module):
            return True
        # Folders below an extension hold its declarations: Python takes the extension.
        return kind in (None, "folder") and any(
            parent in table.built for table in self._tables(module) for parent in _with_parents(module)[:-1]
        )

    def _source(self, module: str) -> PythonFacts | None:
        tables = self._tables(module)
        if any(module in table.built for table in tables):
            return None
        return next((table.sources[module] for table in tables if module in table.sources), None)

    def _is_complete(self, module: str) -> bool:
        """Whether the innermost package that is there can have no modules but those of its folder."""
        parents = [
            parent for parent in reversed(_with_parents(module)[:-1]) if self._kind(parent) is not None
        ]
        if not parents or self._kind(parents[0]) != "package":
            return False
        init = self._source(parents[0])
        # An empty one has no facts but that it binds nothing.
        return init is not None and init.names is not None and not init.spreads and init.problem is None


def absolute(member: str, one: Import) -> str | None:
    """The whole name of the module that an import names; None where it leads out of the package."""
    module = one.module.removesuffix(_INIT).rstrip(".") if one.module.endswith(_INIT) else one.module
    if not one.dots:
        return module or None
    parts = dotted(member).split(".")
    up = one.dots - 1 if is_init(member) else one.dots
    if up >= len(parts):
        return None
    base = parts[: len(parts) - up]
    return ".".join([*base, *([module] if module else [])])


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
