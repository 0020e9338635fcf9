"""What belongs to somebody in a Python environment: modules, programs, places, files of its start."""

from __future__ import annotations

import msgspec

from rocwright.model.patterns import fits


class Stdlib(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Top-level modules of the standard library, from the Python `first` to `last` (`3.8`)."""

    first: str
    last: str
    names: frozenset[str]


class Owned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names, or patterns over them, that only these `projects` bring (patterns over canonical names)."""

    names: tuple[str, ...]
    projects: tuple[str, ...] = ()


class Startup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files in site-packages with code for Python's start, and the projects that are known to bring them."""

    files: tuple[str, ...]
    projects: tuple[str, ...]


class OwnedNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table `data/environment.toml`."""

    schemes: frozenset[str]
    places: tuple[str, ...]
    namespace_calls: frozenset[str]
    stdlib: tuple[Stdlib, ...]
    backport: tuple[Owned, ...]
    owner: tuple[Owned, ...]
    program: tuple[Owned, ...]
    startup: tuple[Startup, ...]

    @property
    def recorded(self) -> tuple[str, ...]:
        """The Pythons whose standard library is recorded."""
        oldest = min(_minor(row.first) for row in self.stdlib)
        newest = max(_minor(row.last) for row in self.stdlib)
        return tuple(f"3.{minor}" for minor in range(oldest, newest + 1))

    def pythons_with(self, module: str) -> tuple[str, ...]:
        """The Pythons (`3.8`) whose standard library has a module, of those that are recorded."""
        return tuple(
            f"3.{minor}"
            for row in self.stdlib
            if module in row.names
            for minor in range(_minor(row.first), _minor(row.last) + 1)
        )

    def is_backport(self, module: str, project: str) -> bool:
        """Whether a project brings a module of the standard library by design."""
        same = module.replace("_", "-").lower() == project
        return same or any(fits(module, row.names) and fits(project, row.projects) for row in self.backport)

    def owners(self, module: str, project: str) -> tuple[str, ...]:
        """Whose a top-level name in site-packages is, if not this project's."""
        return _others(self.owner, module, project) or ()

    def is_known(self, project: str) -> bool:
        """Whether the top-level names that a project brings are known, and those of what it requires."""
        return any(fits(project, row.projects) for row in self.owner)

    def program_owners(self, name: str, project: str) -> tuple[str, ...] | None:
        """Whose a program is, if not this project's; nobody's (empty) is the environment's own."""
        return _others(self.program, name, project)

    def known_startup(self, file: str, project: str) -> bool:
        """Whether a project is known to bring a file with code for Python's start."""
        return any(fits(file, row.files) and fits(project, row.projects) for row in self.startup)


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


def _others(rows: tuple[Owned, ...], name: str, project: str) -> tuple[str, ...] | None:
    for row in rows:
        if fits(name, row.names) and not fits(project, row.projects):
            return row.projects
    return None
