"""The texts of a fat wheel: its file name and version, its METADATA, and the modules of torch that say where
its ROCm is and what of it they load.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rocwright.builder.pins import environment_of, pinned
from rocwright.errors import UsageError
from rocwright.model.patterns import fits
from rocwright.wheel.metadata import add_headers, edit_headers, parse_metadata, wheel_stem
from rocwright.wheel.read import Wheel

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
            f"{output.name} is not a valid wheel name: {error}",
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


# -- METADATA: another version, nothing of ROCm required


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


# -- Modules of torch


INIT, ROCM_INIT = "torch/__init__.py", "torch/_rocm_init.py"

_MARKER = re.compile(r"^(?P<indent>[ \t]*)for dll_path in dll_paths:", re.MULTILINE)
_VERSION = re.compile(r"""^(__version__\s*(?::[^=\n]+)?=\s*)(['"]).*?\2""", re.MULTILINE)
_CALLED = re.compile(r"\b_rocm_init\s*\.\s*initialize\s*\(|\bfrom\s+\S*_rocm_init\s+import\b")


def preload_names(text: str) -> tuple[str, ...]:
    """The short names that a `_rocm_init.py` preloads, in order; none where they are no literal list."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg == "preload_shortnames":
            try:
                names = ast.literal_eval(node.value)
            except ValueError:
                return ()
            return tuple(str(name) for name in names) if isinstance(names, (list, tuple)) else ()
    return ()


def calls_rocm_init(text: str) -> bool:
    """Whether torch's `__init__.py` calls `initialize()` of `_rocm_init`."""
    return _CALLED.search(text) is not None


def with_dll_directory(text: str, parts: Sequence[str]) -> str | None:
    """torch's `__init__.py` that also looks for DLLs in a directory below its own; None without the place.

    `parts` are the directory's names. The place is in front of each loop over `dll_paths`.
    """
    words = ", ".join(f'"{part}"' for part in parts)
    line = f"dll_paths.insert(0, os.path.join(os.path.dirname(__file__), {words}))"
    end = "\r\n" if "\r\n" in text else "\n"
    loops = _loops(text)
    count = 0

    def with_line(match: re.Match[str]) -> str:
        nonlocal count
        if loops is not None and text.count("\n", 0, match.start()) + 1 not in loops:
            return match[0]
        count += 1
        return f"{match['indent']}{line}{end}{match[0]}"

    patched = _MARKER.sub(with_line, text)
    return patched if count else None


def _loops(text: str) -> frozenset[int] | None:
    """Lines that begin a loop, not those of a text that shows one; None where this Python cannot read it."""
    try:
        module = ast.parse(text.replace("\r\n", "\n"))
    except (SyntaxError, ValueError, RecursionError):
        return None
    return frozenset(node.lineno for node in ast.walk(module) if isinstance(node, ast.For))


def with_version(text: str, version: str) -> str | None:
    """A module with another `__version__`; None when it sets none."""
    patched, count = _VERSION.subn(lambda match: f"{match[1]}{match[2]}{version}{match[2]}", text)
    return patched if count else None


def module_version(text: str) -> str | None:
    """The `__version__` that a module sets to a text."""
    match = _VERSION.search(text)
    return None if match is None else match[0][len(match[1]) + 1 : -1]


def render_loader(
    first: Sequence[str], inside: Mapping[str, str], *, dll_directory: str | None = None
) -> str:
    """`_rocm_init.py` of a fat wheel, which loads the libraries `first`, in order, then those that
    ROCM_SDK_PRELOAD_LIBRARIES names, as that of ROCm's packages does.

    `inside` maps short names to paths below torch/lib/rocm. `dll_directory` is where Windows finds what these
    need; there, names of what ROCm has for Linux only are left out.
    """
    libraries = "".join(f"        {name!r}: {path!r},\n" for name, path in sorted(inside.items()))
    names = "".join(f"        {name!r},\n" for name in first)
    windows = f'    os.add_dll_directory(os.path.join(root, "{dll_directory}"))\n' if dll_directory else ""
    unknown = _SKIPPED if dll_directory else _REFUSED
    return _LOADER.format(libraries=libraries, names=names, windows=windows, unknown=unknown)


_REFUSED = """\
            raise ModuleNotFoundError(
                f"{variable}: the ROCm inside this torch has no {name!r}; it has: {' '.join(inside)}",
                name=name,
            )
"""
_SKIPPED = """\
            continue
"""
_LOADER = """\
\"\"\"Generated: this torch has ROCm inside and loads it before any extension needs it.\"\"\"


def initialize():
    import ctypes
    import os
    import re

    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "rocm")
{windows}\
    inside = {{
{libraries}\
    }}
    names = [
{names}\
    ]
    variable = "ROCM_SDK_PRELOAD_LIBRARIES"
    asked = [name.strip() for name in re.split("[,;]", os.environ.get(variable, ""))]
    for name in names + [name for name in asked if name]:
        if name not in inside:
{unknown}\
        ctypes.CDLL(os.path.join(root, *inside[name].split("/")), mode=ctypes.RTLD_GLOBAL)
"""
