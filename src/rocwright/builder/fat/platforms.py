"""What a fat wheel holds and changes, by platform: what is decided alike for both, and what for Windows.

There all of ROCm but a few parts goes in, with one directory of DLLs. What is for Linux alone is in `linux`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

from packaging.version import InvalidVersion, Version

from rocwright.binary.pe import read_pe
from rocwright.builder.fat.texts import (
    INIT,
    ROCM_INIT,
    calls_rocm_init,
    fat_filename,
    fat_metadata,
    fat_version,
    module_version,
    preload_names,
    render_loader,
    with_dll_directory,
    with_version,
)
from rocwright.builder.fat.tree import FatTable, RocmFiles
from rocwright.builder.fat.wheel import BundledFile, WheelChange, WheelFacts
from rocwright.data import load_table
from rocwright.errors import InvalidPrefix, InvalidWheel
from rocwright.model.patterns import any_pattern, fits
from rocwright.model.platforms import Platforms, RocmLibraries, file_pattern
from rocwright.wheel.metadata import wheel_stem

TORCH = "torch"
_SHOWN = 8


class ForPlatform:
    """What both platforms have in common: the changes of texts and metadata."""

    def __init__(
        self, torch: WheelFacts, extensions: Sequence[WheelFacts], tree: RocmFiles, table: FatTable
    ) -> None:
        self.facts, self.tree, self.table = torch, tree, table
        self.all = (torch, *extensions)
        self.platforms = load_table("platforms", Platforms)
        self.named = load_table("packages", RocmLibraries)
        self.notes: list[str] = []
        # Short name to path below the ROCm inside: of what is loaded first, in order, and of everything.
        self.preload: dict[str, str] = {}
        self.by_name: dict[str, str] = {}
        self.licences = {f"licenses/rocm/{path}": str(place) for path, place in sorted(tree.licences.items())}
        if not self.licences:
            self.notes.append(f"{tree.root} has no licence texts: add those of ROCm before you hand it on")

    def files(self) -> tuple[BundledFile, ...]:
        """What goes in, by path."""
        raise NotImplementedError

    def init(self, text: str) -> str:
        """torch's `__init__.py`, changed where it has to be."""
        raise NotImplementedError

    def rpaths(self, facts: WheelFacts) -> dict[str, tuple[str, ...]]:
        """New RPATHs of a wheel's own libraries."""
        raise NotImplementedError

    def loader(self) -> str:
        """The new `_rocm_init.py`."""
        raise NotImplementedError

    def torch(self, output: Path, version: str) -> WheelChange:
        """The change of torch itself."""
        texts = {INIT: self.init(self.facts.texts[INIT])}
        if ROCM_INIT in self.facts.wheel.member:
            if not calls_rocm_init(self.facts.texts[INIT]):
                raise self.invalid(f"{INIT} never calls initialize() of _rocm_init", "load ROCm")
            texts[ROCM_INIT] = self.loader()
        module = f"{TORCH}/version.py"
        said = with_version(self.facts.texts.get(module, ""), version)
        if said is None:
            raise self.invalid(f"{module} sets no __version__", "say its version")
        texts[module] = said
        return self._change(self.facts, output, version, texts, self.licences, None)

    def extension(self, facts: WheelFacts, directory: Path, torch: str) -> WheelChange:
        """The change of a wheel that requires torch, now in version `torch`."""
        version = fat_version(facts.wheel.version)
        texts = {
            name: with_version(text, version) or text
            for name, text in facts.texts.items()
            if name.endswith("/version.py") and _is_version(module_version(text), facts.wheel.version)
        }
        output = directory / fat_filename(facts.wheel, version)
        return self._change(facts, output, version, texts, {}, torch)

    def _change(
        self,
        facts: WheelFacts,
        output: Path,
        version: str,
        texts: Mapping[str, str],
        licences: Mapping[str, str],
        torch: str | None,
    ) -> WheelChange:
        metadata, dropped = fat_metadata(
            facts.wheel,
            facts.metadata,
            version,
            needless=self.table.needless,
            licences=[path.removeprefix("licenses/") for path in licences],
            torch=torch,
        )
        changed = {name: text for name, text in texts.items() if text != facts.texts.get(name)}
        return WheelChange(
            source=str(facts.wheel.path),
            output=str(output),
            version=version,
            dist_info=f"{wheel_stem(facts.wheel.name, version)}.dist-info",
            metadata=metadata.decode("utf-8", "surrogateescape"),
            texts=changed,
            rpaths=self.rpaths(facts),
            dropped=dropped,
        )

    def pattern_of(self, short: str) -> re.Pattern[str]:
        """What the file of a library is called, by the library's short name."""
        windows = self.facts.platform == "windows"
        row = next((row for row in self.named.library if short in row.names), None)
        stem = short if row is None or row.file is None else row.file
        return re.compile(file_pattern(stem, windows=windows), re.IGNORECASE if windows else 0)

    def name_all(self, paths: Iterable[str]) -> None:
        """Short names of the libraries at these paths; those that are preloaded keep theirs."""
        for path in paths:
            found = self.named.short_name(path.rpartition("/")[2], self.facts.platform or "linux")
            if found is not None:
                self.by_name.setdefault(found[0], path)
        self.by_name.update(self.preload)

    def left_out(self, short: str) -> None:
        """Tell that torch preloads what this ROCm has not."""
        self.notes.append(f"this ROCm has no {short}, which torch loads first: it is left out")

    def invalid(self, what: str, purpose: str) -> InvalidWheel:
        """The error about a module without the place that is changed."""
        path = self.facts.wheel.path
        return InvalidWheel(
            f"{what} in {path.name}, so it cannot be made to {purpose}",
            where=path,
            next_step="this torch is not built like those known today; report it with that file",
        )

    def wanted_names(self) -> tuple[str, ...]:
        """Short names that torch preloads."""
        return preload_names(self.facts.texts.get(ROCM_INIT, ""))

    def own_names(self) -> frozenset[str]:
        """Names of libraries that the wheels bring themselves."""
        return frozenset(
            name.lower() if self.facts.platform == "windows" else name
            for facts in self.all
            for binary in facts.binaries
            for name in (binary.own, binary.place.rpartition("/")[2])
        )

    def require_found(self, missing: Mapping[str, Sequence[str]]) -> None:
        """Raise when a library of ROCm is missing; what the system may bring is told."""
        of_rocm = [name for name in missing if self._is_rocm(name)]
        if of_rocm:
            lines = [f"{name} (needed by {', '.join(missing[name][:3])})" for name in of_rocm[:_SHOWN]]
            raise InvalidPrefix(
                f"this ROCm lacks {', '.join(lines)}",
                where=self.tree.root,
                next_step="give the ROCm that the wheel was built with, with all its libraries",
            )
        if missing:
            shown = ", ".join(sorted(missing)[:_SHOWN])
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            self.notes.append(f"the system has to bring {shown}{more}")

    def _is_rocm(self, name: str) -> bool:
        windows = self.facts.platform == "windows"
        if self.named.short_name(name, "windows" if windows else "linux") is not None:
            return True
        rows = [row for row in self.platforms.provider if row.rocm is not None]
        return any(
            fits(name.lower() if windows else name, row.dlls if windows else row.libraries) for row in rows
        )


def _is_version(said: str | None, version: str) -> bool:
    try:
        return said is not None and Version(said) == Version(version)
    except InvalidVersion:
        return False


class ForWindows(ForPlatform):
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
