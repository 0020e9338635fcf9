"""Which libraries see each other's symbols when the loader brings them in, and what none of them defines.

The loader looks through all that the first library loaded, directly or not. A library that others need can so
use what those define; only what none of its users' libraries has is missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import PurePosixPath

import msgspec

from rocwright.binary.symbols import Symbols, Want, known_symbols
from rocwright.check.facts import ElfFacts, Facts
from rocwright.check.libraries import Libraries
from rocwright.data import load_table
from rocwright.model.patterns import fits
from rocwright.model.platforms import Platforms
from rocwright.model.symbols import RuntimeRow, RuntimeSymbols

# What is always loaded: by a program, and by an interpreter.
_EVERYWHERE, _BY_PYTHON = ("libc.so.6",), ("libc.so.6", "libm.so.6")
# Versions whose numbers grow by their last part alone (GLIBC_2.41, GLIBCXX_3.4.33).
_SERIES = ("GLIBC", "GLIBCXX", "CXXABI")
_NUMBERED = re.compile(r"([A-Z]+)_([0-9]+(?:\.[0-9]+)*)")


class Held(msgspec.Struct, frozen=True):
    """A library and the file it is in."""

    facts: Facts
    elf: ElfFacts


class Loaded(msgspec.Struct):
    """What the loader brings in for a library, at hand and of the system, and whether there is more."""

    held: dict[int, Held] = msgspec.field(default_factory=dict)
    system: dict[str, Symbols] = msgspec.field(default_factory=dict)
    unknown: bool = False

    def add(self, other: Loaded) -> None:
        """Take in what another library loads."""
        self.held.update(other.held)
        self.system.update(other.system)
        self.unknown = self.unknown or other.unknown

    def symbols(self) -> list[Symbols]:
        """Of all that is known."""
        return [*self.system.values(), *(one.elf.symbols for one in self.held.values() if one.elf.symbols)]


class Scopes(msgspec.Struct, frozen=True, dict=True):
    """An index over the libraries of all files that are checked together.

    `opening` are projects that open libraries for all that is loaded after them.
    """

    libraries: Libraries
    platforms: Platforms
    opening: frozenset[str] = frozenset()

    def missing(self, facts: Facts, elf: ElfFacts, *, closed: bool) -> tuple[Want, ...]:
        """What a library wants and nothing defines that it, or any who needs it, loads.

        Unless the set is `closed`, a library that neither a program nor an extension module needs is not
        judged: whoever opens it may define what it wants. What another library at hand defines counts as
        missing only where extension modules alone load this one.
        """
        if elf.symbols is None or self.libraries.reach(facts).blind:
            return ()
        scope = self._loaded(facts, elf)
        wanted = list(elf.symbols.wanted)
        wants = _undefined(wanted, scope.symbols())
        lost = self._lacking(wanted, scope)
        if lost or not wants:
            return tuple(lost)
        users = list(self._users(elf))
        for user in users:
            scope.add(self._loaded(user.facts, user.elf))
        if scope.unknown or not (closed or any(map(_is_start, (elf, *(user.elf for user in users))))):
            # What is wanted of a library by name and version comes from nowhere else.
            wants = [want for want in wants if self._sure(want, scope)]
        wants = [want for want in wants if not self._newer(want, scope)]
        wants = _undefined(wants, scope.symbols()) if wants else wants
        if wants and not self._only_by_modules(facts, [elf, *(user.elf for user in users)]):
            wants = _undefined(wants, self._around(facts, elf))
        return tuple(wants)

    def _only_by_modules(self, facts: Facts, loading: Iterable[ElfFacts]) -> bool:
        """Whether Python opens these, and each by itself: what others have loaded before is of no use."""
        starts = [elf for elf in loading if _is_start(elf)]
        modules = all(elf.symbols is not None and elf.symbols.inits for elf in starts)
        return bool(starts) and modules and not self.opening & self.libraries.reach(facts).projects

    def undefined(self, facts: Facts, elf: ElfFacts, names: Iterable[str]) -> list[str]:
        """Those of the interpreter's names that no loaded library has; none where that is not known."""
        scope = self._loaded(facts, elf)
        if scope.unknown:
            return []
        return [want.name for want in _undefined(map(Want, names), self._around(facts, elf))]

    def interpreter(self, minor: int) -> frozenset[str] | None:
        """The names of its own that Python 3.`minor` defines; None where they are not recorded."""
        return self._runtimes.interpreter.names.get(minor)

    def serves_modules(self, elf: ElfFacts) -> bool:
        """Whether a library is an extension module, or one needs it."""
        return any(
            one.symbols is not None and one.symbols.inits
            for one in chain((elf,), (user.elf for user in self._users(elf)))
        )

    # Who loads whom.

    @cached_property
    def _own(self) -> dict[int, Loaded]:
        return {}

    @cached_property
    def _named(self) -> Mapping[str, list[Held]]:
        found: defaultdict[str, list[Held]] = defaultdict(list)
        for facts in self.libraries.files:
            for elf in facts.elf:
                for name in {PurePosixPath(elf.member).name, elf.soname or ""} - {""}:
                    found[name].append(Held(facts, elf))
        return found

    @cached_property
    def _users_of(self) -> Mapping[str, list[Held]]:
        found: defaultdict[str, list[Held]] = defaultdict(list)
        for facts in self.libraries.files:
            for elf in facts.elf:
                for name in elf.needed:
                    found[name].append(Held(facts, elf))
        return found

    def _users(self, elf: ElfFacts) -> Iterator[Held]:
        """All that need a library, over any number of steps."""
        seen, waiting = {id(elf)}, [elf]
        while waiting:
            one = waiting.pop()
            for name in {PurePosixPath(one.member).name, one.soname or ""} - {""}:
                for user in self._users_of.get(name, ()):
                    if id(user.elf) not in seen and user.elf.machine == elf.machine:
                        seen.add(id(user.elf))
                        waiting.append(user.elf)
                        yield user

    def _loaded(self, facts: Facts, elf: ElfFacts) -> Loaded:
        """What a library loads, itself included; a value of the caller's own."""
        if id(elf) not in self._own:
            self._own[id(elf)] = self._walk(Held(facts, elf))
        own = self._own[id(elf)]
        return Loaded(dict(own.held), dict(own.system), own.unknown)

    def _walk(self, start: Held) -> Loaded:
        found = Loaded({id(start.elf): start})
        machine = self._machine(start.elf)
        always = _EVERYWHERE if _is_program(start.elf) else _BY_PYTHON
        waiting = [(start, name) for name in (*always, *start.elf.needed)]
        seen = set[str]()
        while waiting:
            user, name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            held = self._at_hand(user, name)
            for one in held:
                found.unknown = found.unknown or one.elf.symbols is None
                if id(one.elf) not in found.held:
                    found.held[id(one.elf)] = one
                    waiting += [(one, needed) for needed in one.elf.needed]
            row = self._runtimes.row(name, machine)
            if row is not None:
                found.system[row.package] = self._symbols(row)
                waiting += [(user, needed) for needed in row.needed]
            elif not held and not fits(name, self.platforms.linux.interpreter):
                found.unknown = True
        return found

    def _at_hand(self, user: Held, name: str) -> list[Held]:
        reach = self.libraries.reach(user.facts).projects
        return [
            one
            for one in self._named.get(name, ())
            if one.elf.machine == user.elf.machine and one.facts.project in reach
        ]

    def _around(self, facts: Facts, elf: ElfFacts) -> list[Symbols]:
        """The symbols of every library in a file and in those that its requirements lead to."""
        reach = self.libraries.reach(facts).projects
        return [
            one.symbols
            for project in reach
            for other in self.libraries.by_project.get(project, ())
            for one in other.elf
            if one.symbols is not None and one.machine == elf.machine
        ]

    # What systems have.

    @cached_property
    def _runtimes(self) -> RuntimeSymbols:
        return load_table("platform_symbols", RuntimeSymbols)

    @cached_property
    def _read(self) -> dict[tuple[str, str], Symbols]:
        return {}

    def _symbols(self, row: RuntimeRow) -> Symbols:
        key = (row.machine, row.package)
        if key not in self._read:
            pairs = [symbol.partition("@") for symbol in row.defined]
            names = {name for name, _, _ in pairs} | set(row.defined)
            self._read[key] = known_symbols(names, versions={version for _, _, version in pairs if version})
        return self._read[key]

    def _machine(self, elf: ElfFacts) -> str:
        machines = self.platforms.linux.machines
        return next((name for name, number in machines.items() if number == elf.machine), "")

    def _newer(self, want: Want, scope: Loaded) -> bool:
        """Whether a version of the system's runtimes was not there when they were recorded."""
        row = self._runtimes.row(want.library, next(iter(self._machines(scope)), ""))
        return row is not None and want.version not in self._symbols(row).versions

    def _lacking(self, wants: Iterable[Want], scope: Loaded) -> list[Want]:
        # Many symbols are of few versions of few libraries.
        told: dict[tuple[str, str], bool] = {}
        found = []
        for want in wants:
            key = (want.library, want.version)
            if key not in told:
                told[key] = _lacks(want, scope) or self._never(want, scope)
            if told[key]:
                found.append(want)
        return found

    def _never(self, want: Want, scope: Loaded) -> bool:
        """Whether the system's runtimes neither have a version nor could have it later."""
        if want.library in (one.elf.soname for one in scope.held.values()):
            return False
        row = self._runtimes.row(want.library, next(iter(self._machines(scope)), ""))
        return row is not None and _never(want.version, self._symbols(row).versions)

    def _sure(self, want: Want, scope: Loaded) -> bool:
        if not want.version:
            return False
        if any(
            want.library in (one.elf.soname, PurePosixPath(one.elf.member).name) and one.elf.symbols
            for one in scope.held.values()
        ):
            return True
        return self._runtimes.row(want.library, next(iter(self._machines(scope)), "")) is not None

    def _machines(self, scope: Loaded) -> Iterator[str]:
        return (self._machine(one.elf) for one in scope.held.values())


def _undefined(wants: Iterable[Want], symbols: list[Symbols]) -> list[Want]:
    left = [
        (
            want,
            hash(want.name.encode("utf-8", "surrogateescape")),
            hash(want.versioned) if want.version else 0,
        )
        for want in wants
    ]
    for one in symbols:
        if not left:
            break
        # Who has versions, but not this one, has the name without any or in another; of a name alone any
        # will do.
        defined, versions = one.defined, one.versions
        left = [row for row in left if (row[2] if row[0].version in versions else row[1]) not in defined]
    return [want for want, _, _ in left]


def _lacks(want: Want, scope: Loaded) -> bool:
    """Whether the library that a symbol is expected of has versions, but not this one.

    The loader gives up.
    """
    if not want.version:
        return False
    holders = [one.elf for one in scope.held.values() if one.elf.soname == want.library and one.elf.symbols]
    return bool(holders) and all(
        elf.symbols is not None and elf.symbols.versions and want.version not in elf.symbols.versions
        for elf in holders
    )


def _never(version: str, known: frozenset[str]) -> bool:
    """Whether a version cannot be one of those to come: it is not above all, or not numbered like them."""
    match = _NUMBERED.fullmatch(version)
    if version in known or match is None:
        return False
    others = [_numbers(one[2]) for name in known if (one := _NUMBERED.fullmatch(name)) and one[1] == match[1]]
    if not others:
        return False
    newest, numbers = max(others), _numbers(match[2])
    return numbers < newest or (match[1] in _SERIES and len(numbers) != len(newest))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _is_start(elf: ElfFacts) -> bool:
    """Whether loading begins here: a program, or an extension module."""
    return _is_program(elf) or bool(elf.symbols and elf.symbols.inits)


def _is_program(elf: ElfFacts) -> bool:
    return elf.interp is not None or elf.kind == "exec"
