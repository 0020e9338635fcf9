"""Decide what a fat wheel for Linux has: the files of ROCm that it needs, and RPATHs by which each library
finds the others.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.builder.fat.platforms import ForPlatform
from rocwright.builder.fat.texts import ROCM_INIT, render_loader
from rocwright.builder.fat.tree import FatTable, Library, RocmFiles, TreeEntry, read_libraries, read_native
from rocwright.builder.fat.wheel import BundledFile, WheelFacts
from rocwright.device_code.host import MARKER_SECTION
from rocwright.device_code.kpack import SUFFIX, parse_marker
from rocwright.device_code.source import archives_among
from rocwright.errors import InvalidPrefix, InvalidWheel
from rocwright.model.patterns import any_pattern, fits
from rocwright.model.platforms import Platforms


class ForLinux(ForPlatform):
    """Libraries that are needed, with RPATHs that lead to each other."""

    def __init__(
        self, torch: WheelFacts, extensions: Sequence[WheelFacts], tree: RocmFiles, table: FatTable
    ) -> None:
        super().__init__(torch, extensions, tree, table)
        self.machine = _machine(torch, self.platforms)
        self.libraries = read_libraries(tree, table, self.machine)
        sonames = self._preloaded()
        own = self.own_names()
        needs = [
            (name, binary.place) for facts in self.all for binary in facts.binaries for name in binary.needed
        ]
        needs = [(name, who) for name, who in needs if name not in own]
        needs += [(soname, ROCM_INIT) for soname in sonames.values()]
        self.bundle: Bundle = choose_files(
            needs,
            tree.files,
            self.libraries,
            table,
            machine=self.machine,
            never=self._is_systems,
            on_every=self.platforms.on_every,
        )
        if not any(binary.needed for binary in torch.binaries) or not self.bundle.directories:
            raise InvalidWheel(
                f"no library of {torch.wheel.path.name} needs ROCm: it was built for something else",
                where=torch.wheel.path,
                next_step="give a wheel of torch built for ROCm",
            )
        self.require_found(self.bundle.missing)
        if self.bundle.bare:
            raise InvalidPrefix(
                f"the device code of {', '.join(self.bundle.bare)} was split off and is not here",
                where=tree.root,
                next_step="install device packages for the GPUs that the wheel serves: rocm[device-TARGET]",
            )
        self.preload = {
            short: posixpath.join(self.bundle.directories[soname], soname)
            for short, soname in sonames.items()
        }
        self.name_all(
            posixpath.join(directory, soname) for soname, directory in self.bundle.directories.items()
        )

    def _is_systems(self, name: str) -> bool:
        row = self.platforms.linux
        return fits(name, (*row.runtime, *row.drivers, *row.interpreter))

    def _preloaded(self) -> dict[str, str]:
        """Short name to SONAME of what torch preloads, as far as this ROCm has it."""
        found: dict[str, str] = {}
        # A name without a version may be that of a small library which only leads to the real one.
        names = sorted(self.libraries, key=lambda name: (name.endswith(".so"), name))
        for short in self.wanted_names():
            pattern = self.pattern_of(short)
            soname = next((name for name in names if pattern.fullmatch(name)), None)
            if soname is None:
                self.left_out(short)
            else:
                found[short] = soname
        return found

    def files(self) -> tuple[BundledFile, ...]:
        """Needed libraries under their SONAMEs, and data."""
        return tuple(
            BundledFile(f"{self.table.directory}/{path}", str(one.place), one.place.stat().st_size, one.rpath)
            for path, one in self.bundle.files.items()
        )

    def init(self, text: str) -> str:
        """Unchanged: RPATHs lead to ROCm, and what is loaded first stands in another module."""
        return text

    def loader(self) -> str:
        """Loads by path what torch's own module loaded by name."""
        return render_loader(list(self.preload), self.by_name)

    def rpaths(self, facts: WheelFacts) -> dict[str, tuple[str, ...]]:
        """Those of libraries that need something of ROCm."""
        inside = {posixpath.dirname(binary.place) for one in self.all for binary in one.binaries}
        found = {
            binary.member: extended_rpath(
                binary.place, binary.rpath, binary.needed, self.bundle, self.table.directory, inside
            )
            for binary in facts.binaries
        }
        return {name: entries for name, entries in found.items() if entries is not None}


def _machine(facts: WheelFacts, platforms: Platforms) -> int:
    """The ELF machine number of the wheel's platform tags; raises `InvalidWheel` for an unknown one."""
    for tag in sorted(facts.wheel.tags):
        if (machine := platforms.machine(tag.rpartition("-")[2])) is not None:
            return machine
    raise InvalidWheel(f"the tags of {facts.wheel.path.name} name no known machine", where=facts.wheel.path)


class Bundled(msgspec.Struct, frozen=True):
    """A file that goes in: `place` is where it is; `rpath` what it gets, None for what has none."""

    place: Path
    rpath: tuple[str, ...] | None = None


class Bundle(msgspec.Struct, frozen=True):
    """What goes in: files by path below the bundle's directory.

    `directories` maps SONAMEs to the directory that holds them, `missing` names that nothing brings to those
    who need them. `bare` are libraries whose device code was split off and is not there.
    """

    files: Mapping[str, Bundled]
    directories: Mapping[str, str]
    missing: Mapping[str, tuple[str, ...]]
    bare: tuple[str, ...] = ()


def choose_files(
    needs: Iterable[tuple[str, str]],
    rocm: Mapping[str, TreeEntry],
    libraries: Mapping[str, Sequence[Library]],
    table: FatTable,
    *,
    machine: int,
    never: Callable[[str], bool],
    on_every: Callable[[str], bool],
) -> Bundle:
    """What serves `needs`, pairs of a library's name and who needs it, and all that this needs in turn.

    `libraries` are those of `rocm` by SONAME. `never` says whether a library is one of which a process has a
    single copy, the system's; `on_every` whether any system brings it where this ROCm does not.
    """
    choice = _Choice(rocm, libraries, table, machine, never, on_every)
    for name, who in needs:
        choice.need(name, who)
    choice.follow()
    return choice.bundle()


class _Choice(msgspec.Struct):
    """What was chosen so far; `pending` are libraries whose own needs were not looked at."""

    rocm: Mapping[str, TreeEntry]
    libraries: Mapping[str, Sequence[Library]]
    table: FatTable
    machine: int
    never: Callable[[str], bool]
    on_every: Callable[[str], bool]
    chosen: dict[str, Library] = msgspec.field(default_factory=dict)
    data: dict[str, Path] = msgspec.field(default_factory=dict)
    missing: dict[str, list[str]] = msgspec.field(default_factory=dict)
    pending: deque[Library] = msgspec.field(default_factory=deque)
    bare: list[str] = msgspec.field(default_factory=list)

    def need(self, name: str, who: str, near: str = "") -> None:
        """Choose a library; `near` is the directory that is asked first."""
        if self.never(name) or name in self.chosen:
            return
        found = self.libraries.get(name)
        if not found:
            if not self.on_every(name):
                self.missing.setdefault(name, []).append(who)
            return
        here = [library for library in found if posixpath.dirname(library.path) == near]
        self.chosen[name] = (here or found)[0]
        self.pending.append(self.chosen[name])

    def follow(self) -> None:
        """Needs of what was chosen, and what it opens, until nothing is new."""
        while self.pending:
            library = self.pending.popleft()
            near = posixpath.dirname(library.path)
            for name in library.elf.needed:
                self.need(name, posixpath.basename(library.path), near)
            for row in self.table.linux.opened_by(posixpath.basename(library.path)):
                for name in self._fitting(row.libraries):
                    self.need(name, library.path, near)
                self._add_files(filter(any_pattern(row.files).fullmatch, self.rocm))
            self._add_archives(library)

    def _add_archives(self, library: Library) -> None:
        """The archives with the device code of a library that was split."""
        section = library.elf.sections.get(MARKER_SECTION)
        if section is None:
            return
        marker = parse_marker(library.elf.source.read_at(section.offset, section.size))
        archives = [path for path in self.rocm if path.endswith(SUFFIX)]
        found = archives_among(library.path, marker, archives)
        self._add_files(found)
        if not found:
            self.bare.append(posixpath.basename(library.path))

    def _fitting(self, patterns: tuple[str, ...]) -> list[str]:
        return [name for name in sorted(self.libraries) if fits(name, patterns)] if patterns else []

    def _add_files(self, paths: Iterable[str]) -> None:
        shipped = {library.place for library in self.chosen.values()} | set(self.data.values())
        for path in sorted(paths, key=lambda path: (self.rocm[path].link, path)):
            place = self.rocm[path].place
            if place in shipped:
                continue
            shipped.add(place)
            elf = read_native(place, self.machine)
            if elf is None:
                self.data[path] = place
            else:
                # A plugin: found by its path, so it keeps the name of its file.
                plugin = Library(path, place, elf)
                self.chosen[f"/{path}"] = plugin
                self.pending.append(plugin)

    def bundle(self) -> Bundle:
        directories = {
            name: posixpath.dirname(library.path)
            for name, library in self.chosen.items()
            if not name.startswith("/")
        }
        files = {path: Bundled(place) for path, place in self.data.items()}
        for library in self.chosen.values():
            files[library.path] = Bundled(library.place, self._rpath(library, directories))
        missing = {name: tuple(sorted(set(who))) for name, who in self.missing.items()}
        bare = tuple(sorted(self.bare))
        return Bundle(dict(sorted(files.items())), directories, dict(sorted(missing.items())), bare)

    def _rpath(self, library: Library, directories: Mapping[str, str]) -> tuple[str, ...]:
        """Its own directory, those of what it needs, those of what it opens."""
        here, file = posixpath.split(library.path)
        opened = [name for row in self.table.linux.opened_by(file) for name in self._fitting(row.libraries)]
        wanted = [here, *(directories.get(name) for name in (*library.elf.needed, *opened))]
        return tuple(dict.fromkeys(origin(here, place) for place in wanted if place is not None))


def origin(here: str, directory: str) -> str:
    """The RPATH entry that leads from one directory to another; both relative to the same root."""
    way = posixpath.relpath(directory or ".", here or ".")
    return "$ORIGIN" if way == "." else f"$ORIGIN/{way}"


def extended_rpath(
    place: str,
    present: Sequence[str],
    needed: Iterable[str],
    bundle: Bundle,
    root: str,
    inside: Iterable[str],
) -> tuple[str, ...] | None:
    """The RPATH of one of the wheel's own libraries, installed at `place`; None when it needs no ROCm.

    What leads to directories of the wheel stays in front (`inside` are these), then the bundle's directories,
    then entries that lead elsewhere in the environment, save to ROCm's packages: a second ROCm may be there.
    Absolute entries go.
    """
    here = posixpath.dirname(place)
    wanted = [bundle.directories[name] for name in needed if name in bundle.directories]
    if not wanted:
        return None
    known = frozenset(inside)
    own, elsewhere = [], []
    for entry in present:
        if entry != "$ORIGIN" and not entry.startswith("$ORIGIN/"):
            continue
        leads = posixpath.normpath(posixpath.join(here, entry.removeprefix("$ORIGIN").lstrip("/")))
        if leads in known:
            own.append(origin(here, leads))
        elif "_rocm_sdk" not in leads:
            elsewhere.append(entry)
    entries = [origin(here, posixpath.join(root, directory)) for directory in wanted]
    return tuple(dict.fromkeys((*own, *entries, *elsewhere)))
