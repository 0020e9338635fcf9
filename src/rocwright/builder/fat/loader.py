"""The texts of a torch package that say where its ROCm is: what they load, and what a fat wheel's say."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

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
