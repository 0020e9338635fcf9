"""Decide a package's licence expression and licence texts (PEP 639) from the files of ROCm that it ships."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import msgspec
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from rocwright.binary.view import mapped
from rocwright.data import load_table
from rocwright.device_code.kpack import read_archive
from rocwright.errors import InvalidData
from rocwright.model.patterns import compile_pattern
from rocwright.system.files import sha256_file

# `libelf-0.188.so`, `librocm_sysdeps_liblzma.so.5`, `amdhip64_7.dll`: what stands before the version.
_LIBRARY = re.compile(
    r"(?:lib)?(?:rocm_sysdeps_)?(?:lib)?(?P<name>.+?)(?:[-_]\d[\d.]*)?\.(?:so(?:\.[\d.]+)?|dll|a|lib)"
)
_TEXT = re.compile(
    r"(?:.*/)?share/(?:doc|licenses)/(?P<group>[^/]+)/(?:.*/)?(?:licen[cs]e|copying|copyright|notice|eula)[^/]*",
    re.IGNORECASE,
)


class Component(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A part of ROCm or of what it bundles: its licences, and how its files are recognised."""

    name: str
    licences: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @cached_property
    def _libraries(self) -> re.Pattern[str] | None:
        return _either(translate(name) for name in self.libraries)

    @cached_property
    def _paths(self) -> re.Pattern[str] | None:
        return _either(compile_pattern(path, named=False).pattern for path in self.paths)

    @cached_property
    def _packages(self) -> re.Pattern[str] | None:
        return _either(translate(name) for name in self.packages)

    @cached_property
    def _texts(self) -> re.Pattern[str] | None:
        return _either(translate(name.lower()) for name in self.texts)

    def has(self, path: str, library: str | None, package: str | None) -> bool:
        """Whether a file of the tree is part of it; `library` as by `library_name`."""
        if self._packages is not None and not (package and self._packages.fullmatch(package)):
            return False
        if self._paths is None and self._libraries is None:
            return True
        if self._libraries is not None and library is not None and self._libraries.fullmatch(library):
            return True
        return self._paths is not None and self._paths.fullmatch(path) is not None

    def has_text(self, group: str) -> bool:
        """Whether a directory of `share/doc` holds its licence texts."""
        return self._texts is not None and self._texts.fullmatch(group.lower()) is not None


class LicenceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The table `data/licences.toml`; `repositories` maps an artifact to the submodule it comes from."""

    ignored: tuple[str, ...]
    component: tuple[Component, ...]
    repositories: dict[str, str] = {}

    @cached_property
    def _ignored(self) -> re.Pattern[str] | None:
        return _either(compile_pattern(path, named=False).pattern for path in self.ignored)

    def ignores(self, path: str) -> bool:
        """Whether the file is no part of anything: a licence text, a fact about the tree."""
        return self._ignored is not None and self._ignored.fullmatch(path) is not None

    def component_of(self, path: str, package: str | None) -> Component | None:
        """The first component that the file is part of; None for an unknown one."""
        library = library_name(path)
        return next((row for row in self.component if row.has(path, library, package)), None)


class LicenceText(msgspec.Struct, frozen=True):
    """A licence text of the tree: its path there, where it lies, its digest (hex sha256)."""

    path: str
    place: Path
    sha256: str

    @property
    def group(self) -> str:
        """Whose it is: its directory below `share/doc`."""
        match = _TEXT.fullmatch(self.path)
        assert match is not None
        return match["group"]


class ComponentFiles(msgspec.Struct, frozen=True):
    """Files of one component that one package brought (None: not known which); paths in the tree, sorted."""

    component: Component
    package: str | None
    files: tuple[str, ...]


class Licences(msgspec.Struct, frozen=True):
    """What to say of a package's licences.

    `expression` is SPDX; None as long as something is `unknown` (the files that no row of the table claims,
    by package, else by directory) or nothing is shipped. `files` are (name below `.dist-info/licenses`,
    place). `without_text` names components that came without their text.
    """

    expression: str | None
    files: tuple[tuple[str, Path], ...]
    unknown: tuple[str, ...]
    without_text: tuple[str, ...]
    parts: tuple[ComponentFiles, ...]


def licence_table() -> LicenceTable:
    """The built-in table; raises `InvalidData` for a licence that is no SPDX identifier or choice of some."""
    table = load_table("licences", LicenceTable)
    for row in table.component:
        joined(row.licences, where=f"data/licences.toml, component {row.name}")
    return table


def library_name(path: str) -> str | None:
    """The name of the library in a file, without prefix, version and suffix; None for another file."""
    match = _LIBRARY.fullmatch(path.rpartition("/")[2])
    return match["name"] if match else None


def find_texts(files: Mapping[str, Path]) -> tuple[LicenceText, ...]:
    """The licence texts of a tree (path in it → where it lies), sorted; each is read once."""
    found = sorted(path for path in files if _TEXT.fullmatch(path))
    return tuple(LicenceText(path, files[path], sha256_file(files[path])) for path in found)


def libraries_in(archive: Path) -> tuple[str, ...]:
    """Paths in the tree of the libraries whose device code an archive holds; raises `InvalidArchive`."""
    with mapped(archive) as file:
        return tuple(sorted({entry.kernel for entry in read_archive(file).entries}))


def licences_of(
    files: Mapping[str, str | None],
    texts: Sequence[LicenceText],
    table: LicenceTable,
    *,
    archives: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> Licences:
    """What to say of the licences of one package.

    `files` maps each shipped file's path in the ROCm tree to the artifact or distribution package that it
    came from (`Provenance.package_of`), where that is known. An archive of device code has the licences of
    the libraries that `archives` names for it (`libraries_in`). Of equal texts one is taken.
    """
    parts: dict[tuple[Component, str | None], list[str]] = {}
    unknown: dict[str, list[str]] = {}
    for path, package in sorted(files.items()):
        if table.ignores(path):
            continue
        for component in {table.component_of(one, package) for one in archives.get(path) or (path,)}:
            if component is None:
                unknown.setdefault(package or path.rpartition("/")[0], []).append(path)
            else:
                parts.setdefault((component, package), []).append(path)
    terms = {licence for component, _ in parts for licence in component.licences}
    chosen, without = _choose_texts(parts, texts)
    return Licences(
        expression=joined(terms) if terms and not unknown else None,
        files=tuple((text.path, text.place) for text in chosen),
        unknown=tuple(_told(paths, files[paths[0]]) for _, paths in sorted(unknown.items())),
        without_text=without,
        parts=tuple(
            ComponentFiles(component, package, tuple(paths))
            for (component, package), paths in sorted(
                parts.items(), key=lambda item: (item[0][0].name, item[0][1] or "", item[1])
            )
        ),
    )


def joined(licences: Iterable[str], *, where: str | None = None) -> str:
    """SPDX terms that all apply, as one expression; empty for none.

    Raises `InvalidData` for what is not SPDX.
    """
    terms = sorted(set(licences))
    text = " AND ".join(f"({term})" if " OR " in term and len(terms) > 1 else term for term in terms)
    try:
        return canonicalize_license_expression(text) if text else ""
    except InvalidLicenseExpression as error:
        raise InvalidData(f"{text!r} is not an SPDX licence expression: {error}", where=where) from error


def _choose_texts(
    parts: Iterable[tuple[Component, str | None]], texts: Sequence[LicenceText]
) -> tuple[tuple[LicenceText, ...], tuple[str, ...]]:
    """The texts of all components, and the names of components without one."""
    chosen: dict[str, LicenceText] = {}
    covered: dict[str, bool] = {}
    for component, package in parts:
        own = [text for text in texts if text.group == package or component.has_text(text.group)]
        covered[component.name] = covered.get(component.name, False) or bool(own)
        for text in own:
            kept = chosen.setdefault(text.sha256, text)
            chosen[text.sha256] = min(kept, text, key=lambda each: each.path)
    without = sorted(name for name, found in covered.items() if not found)
    return tuple(sorted(chosen.values(), key=lambda text: text.path)), tuple(without)


def _told(paths: Sequence[str], package: str | None) -> str:
    """`core-new: lib/libnew.so and 3 more`."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{package}: {paths[0]}{more}" if package else f"{paths[0]}{more}"


def _either(patterns: Iterable[str]) -> re.Pattern[str] | None:
    joined_pattern = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(joined_pattern) if joined_pattern else None
