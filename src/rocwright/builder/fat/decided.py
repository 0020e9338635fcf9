"""What is decided alike for both platforms: the names of wheels, texts, metadata, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rocwright.builder.fat.loader import (
    INIT,
    ROCM_INIT,
    calls_rocm_init,
    module_version,
    preload_names,
    with_version,
)
from rocwright.builder.fat.tree import FatTable, RocmFiles
from rocwright.builder.fat.wheel import BundledFile, WheelChange, WheelFacts
from rocwright.builder.pins import environment_of, pinned
from rocwright.data import load_table
from rocwright.errors import InvalidPrefix, InvalidWheel, UsageError
from rocwright.model.patterns import fits
from rocwright.model.platforms import Platforms, RocmLibraries, file_pattern
from rocwright.wheel.metadata import add_headers, edit_headers, parse_metadata, wheel_stem
from rocwright.wheel.read import Wheel

TORCH = "torch"
_SHOWN = 8


class Decided:
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
            next_step="this is no torch as it is built today; report it with that file",
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


# -- METADATA of a wheel with ROCm inside: another version, nothing of ROCm required


_EXTRA = re.compile(r"""extra\s*==\s*(['"])(?P<name>[^'"]+)\1""")
# Licence files have had a field since this version of core metadata.
_LICENCE_FILES = (2, 4)


def fat_metadata(
    wheel: Wheel,
    metadata: bytes,
    version: str,
    *,
    needless: Sequence[str],
    licences: Iterable[str] = (),
    torch: str | None = None,
) -> tuple[bytes, tuple[str, ...]]:
    """METADATA of the output, and the requirements that it no longer has.

    `needless` are patterns over names of projects that ROCm inside makes needless. `licences` are further
    licence files, below `.dist-info/licenses`; `torch` is the version to require exactly.
    """
    dropped: list[str] = []
    kept: set[str] = set()
    for line in parse_metadata(metadata).requires_dist:
        text = " ".join(line.split())
        if fits(_project(text), needless):
            dropped.append(text)
        else:
            kept |= _extras(text)
    # An extra that only asked for what is no longer required would install nothing.
    unused = {extra for text in dropped for extra in _extras(text)} - kept

    def edit(key: str, value: str) -> Sequence[str] | None:
        if key == "version":
            return [f"Version: {version}"]
        if key == "requires-dist" and value in dropped:
            return ()
        if key == "provides-extra" and canonicalize_name(value) in unused:
            return ()
        return None

    edited = edit_headers(metadata, edit)
    if _metadata_version(metadata) >= _LICENCE_FILES:
        edited = add_headers(edited, [f"License-File: {path}" for path in licences])
    if torch is not None:
        edited = pinned(edited, [Requirement(f"torch=={torch}")], environment_of(wheel.tags))
    return edited, tuple(dropped)


def _project(text: str) -> str:
    try:
        return canonicalize_name(Requirement(text).name)
    except InvalidRequirement:
        return ""


def _extras(text: str) -> set[str]:
    return {canonicalize_name(match["name"]) for match in _EXTRA.finditer(text)}


def _metadata_version(metadata: bytes) -> tuple[int, ...]:
    match = re.match(rb"Metadata-Version:\s*([0-9]+)\.([0-9]+)", metadata)
    return (int(match[1]), int(match[2])) if match else (0, 0)


LABEL = "rocm"


def fat_version(version: str) -> str:
    """`2.9.0+rocm.rocm7.10.0` for `2.9.0+rocm7.10.0`, `2.9.0+rocm` for `2.9.0`.

    The normal form of what `2.9.0+rocm_rocm7.10.0` spells: installers know both for the same version.
    """
    parsed = Version(version)
    local = f"{LABEL}.{parsed.local}" if parsed.local else LABEL
    return f"{parsed.public}+{local}"


def fat_filename(wheel: Wheel, version: str) -> str:
    """The wheel's file name with another version: build number and tags stay."""
    return f"{wheel_stem(wheel.name, version)}-{wheel.path.name.split('-', 2)[2]}"


def chosen_output(wheel: Wheel, given: Path | None) -> tuple[Path, str]:
    """The file that is written, and its version.

    Beside the wheel, or in the given directory, under the usual name; or the given file, whose name says the
    version. Raises `UsageError` for a file name of something else, and for the wheel itself.
    """
    version = fat_version(wheel.version)
    output = given or wheel.path.parent
    if output.is_dir() or output.suffix.lower() != ".whl":
        output = output / fat_filename(wheel, version)
    elif given is not None:
        version = _named_version(wheel, output)
    if output.resolve() == wheel.path.resolve():
        raise UsageError(
            f"the fat wheel would replace {wheel.path.name} itself",
            next_step="choose another --output-path",
        )
    return output, version


def _named_version(wheel: Wheel, output: Path) -> str:
    usual = fat_filename(wheel, fat_version(wheel.version))
    try:
        name, version, _, tags = parse_wheel_filename(output.name)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise UsageError(
            f"{output.name} is no valid wheel name: {error}",
            next_step=f"call it {usual}, or give a directory",
        ) from error
    theirs: Mapping[str, tuple[str, str]] = {
        "project": (canonicalize_name(wheel.name), name),
        "tags": (" ".join(sorted(wheel.tags)), " ".join(sorted(map(str, tags)))),
        "version": (Version(wheel.version).public, version.public),
    }
    for what, (have, said) in theirs.items():
        if have != said:
            raise UsageError(
                f"{output.name} says {what} {said}, {wheel.path.name} is {have}; installers go by the name",
                next_step=f"call it {usual}; only what follows the + may differ",
            )
    return str(version)
