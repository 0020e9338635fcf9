"""Decide what a fat wheel for Windows has: the whole of ROCm but a few parts, in one directory of DLLs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from rocwright.binary.pe import read_pe
from rocwright.build.fat.decided import Decided
from rocwright.build.fat.facts import WheelFacts
from rocwright.build.fat.loader import INIT, render_loader, with_dll_directory
from rocwright.build.fat.table import FatTable
from rocwright.build.fat.tree import RocmFiles
from rocwright.build.fat.values import BundledFile
from rocwright.model.patterns import any_pattern


class ForWindows(Decided):
    """The whole of ROCm but a few parts; the loader is told of one directory."""

    def __init__(
        self, torch: WheelFacts, extensions: Sequence[WheelFacts], tree: RocmFiles, table: FatTable
    ) -> None:
        super().__init__(torch, extensions, tree, table)
        excluded = any_pattern(table.windows.exclude)
        self.chosen = {
            path: found.place for path, found in sorted(tree.files.items()) if not excluded.fullmatch(path)
        }
        programs = f"{table.windows.programs}/"
        there = {path.lower().removeprefix(programs) for path in self.chosen if path.startswith(programs)}
        own = self.own_names()
        missing: dict[str, list[str]] = {}
        for facts in self.all:
            for binary in facts.binaries:
                self._find(binary.needed, binary.place, own | there, missing)
        for path, place in self.chosen.items():
            if path.startswith(programs) and path.lower().endswith(".dll"):
                self._find(read_pe(place).imports, path, own | there, missing)
        self.require_found(missing)
        for short in self.wanted_names():
            self._preload(short, programs)
        self.name_all(path for path in self.chosen if path.rpartition("/")[0] == programs.rstrip("/"))

    def _find(self, names: Iterable[str], who: str, there: Set[str], missing: dict[str, list[str]]) -> None:
        for name in map(str.lower, names):
            if name not in there and not self.platforms.on_every(name, windows=True):
                missing.setdefault(name, []).append(who)

    def _preload(self, short: str, programs: str) -> None:
        pattern = self.pattern_of(short)
        for path in self.chosen:
            if path.startswith(programs) and pattern.fullmatch(path.removeprefix(programs)):
                self.preload[short] = path
                return
        self.left_out(short)

    def files(self) -> tuple[BundledFile, ...]:
        """Everything that is not excluded."""
        return tuple(
            BundledFile(f"{self.table.directory}/{path}", str(place), place.stat().st_size)
            for path, place in self.chosen.items()
        )

    def init(self, text: str) -> str:
        """With the directory of ROCm's DLLs."""
        below = f"{self.table.directory}/{self.table.windows.programs}".split("/")[1:]
        patched = with_dll_directory(text, below)
        if patched is None:
            raise self.invalid(f"{INIT} has no loop `for dll_path in dll_paths:`", "find ROCm's DLLs")
        return patched

    def loader(self) -> str:
        """Loads by path what torch's own module loaded by name."""
        return render_loader(list(self.preload), self.by_name, dll_directory=self.table.windows.programs)

    def rpaths(self, facts: WheelFacts) -> dict[str, tuple[str, ...]]:
        """None: Windows has no such thing."""
        return {}
