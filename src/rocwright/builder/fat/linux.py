"""Decide what a fat wheel for Linux has: libraries that are needed, with RPATHs that lead to each other."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from rocwright.builder.fat.bundle import Bundle, choose_files, extended_rpath
from rocwright.builder.fat.decided import Decided
from rocwright.builder.fat.facts import WheelFacts
from rocwright.builder.fat.loader import ROCM_INIT, render_loader
from rocwright.builder.fat.table import FatTable
from rocwright.builder.fat.tree import RocmFiles, read_libraries
from rocwright.builder.fat.values import BundledFile
from rocwright.errors import InvalidPrefix, InvalidWheel
from rocwright.model.patterns import fits
from rocwright.model.platforms import Platforms


class ForLinux(Decided):
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
        for short in self.wanted_names():
            pattern = self.pattern_of(short)
            soname = next((name for name in sorted(self.libraries) if pattern.fullmatch(name)), None)
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
    raise InvalidWheel(
        f"the tags of {facts.wheel.path.name} name no machine that is known", where=facts.wheel.path
    )
