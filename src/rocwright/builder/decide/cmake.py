"""What a project's CMake files say, as far as their text tells."""

from __future__ import annotations

import re
from pathlib import Path

# What may hold anything, from left to right: an escape, a text, a text in brackets, a comment.
OPAQUE = re.compile(r"""\\.|"(?:[^"\\]|\\.)*"|#?\[(?P<equals>=*)\[.*?\](?P=equals)\]|#[^\n]*""", re.DOTALL)
_HIP_LANGUAGE = re.compile(
    r"\b(?:enable_language\s*\(|project\s*\([^)]*\sLANGUAGES\s)(?:[^)]*\s)?\s*HIP[\s)]", re.IGNORECASE
)
# Of the module FindHIP, which has hipcc compile.
_FIND_HIP = re.compile(
    r"\bhip_add_(?:library|executable)\b|\bfind_package\w*\s*\(\s*HIP\b|\bHIP_SOURCE_PROPERTY_FORMAT\b"
)


def cmake_text(path: Path) -> str:
    """A file whose bytes are whatever they are; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def has_hip_language(directory: Path) -> bool:
    """Whether its CMakeLists.txt or a file in `cmake/` enables HIP, and none asks for hipcc's module."""
    files = [directory / "CMakeLists.txt", *sorted((directory / "cmake").rglob("*.cmake"))]
    texts = [OPAQUE.sub("", cmake_text(path)) for path in files]
    return any(map(_HIP_LANGUAGE.search, texts)) and not any(map(_FIND_HIP.search, texts))
