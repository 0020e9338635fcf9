"""Miniature stand-in for PyTorch's hipify: rename CUDA's names to HIP's in C++ sources.

Nothing but the standard library, no import of torch: tools/amd_build/build_amd.py and setup.py load
this file on its own. The result depends on the sources alone, not on the working directory, the
clock, or an installed ROCm; a second run over its own result changes nothing.
"""

import os
import re
import tempfile
from pathlib import Path, PurePosixPath

try:
    from .cuda_to_hip_mappings import NAMES
except ImportError:  # loaded as a plain file from a source tree
    from cuda_to_hip_mappings import NAMES

EXTENSIONS = (".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".hpp")
BREADCRUMB = "// !!! Written by the miniature hipify from {source}; edit that file instead.\n"

# Longest first, and no match inside a longer identifier.
_NAME = re.compile(
    r"(?<!\w)(" + "|".join(re.escape(name) for name in sorted(NAMES, key=len, reverse=True)) + r")(?!\w)"
)
_INCLUDE = re.compile(r'^(\s*#\s*include\s*[<"])([^>"]+)([>"])', re.MULTILINE)


def hip_path(path):
    """Where the translation of a CUDA source belongs: c10/cuda/CUDAx.cpp -> c10/hip/HIPx.cpp."""
    pure = PurePosixPath(path)
    parts = ["hip" if part == "cuda" else part for part in pure.parent.parts]
    suffix = ".hip" if pure.suffix == ".cu" else pure.suffix
    return str(PurePosixPath(*parts, pure.stem.replace("CUDA", "HIP") + suffix))


def _translate_include(match, in_place):
    target = match.group(2)
    if target not in NAMES and "/cuda/" in target and not target.startswith(in_place):
        target = hip_path(target)
    return match.group(1) + target + match.group(3)


def hipify_text(text, in_place=("torch/",)):
    """The text with HIP's names; includes of headers under in_place keep their paths."""
    text = _INCLUDE.sub(lambda match: _translate_include(match, in_place), text)
    return _NAME.sub(lambda match: NAMES[match.group(1)], text)


def _write_if_different(path, text):
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
        out.write(text)
    os.chmod(beside, 0o644)
    os.replace(beside, path)
    return True


def sources(root, folders):
    """The C++ and CUDA files under root/folder for each folder, sorted; earlier results are left out."""
    found = []
    for folder in folders:
        for path in (Path(root) / folder).rglob("*"):
            relative = path.relative_to(root)
            if path.suffix in EXTENSIONS and "hip" not in relative.parts and path.is_file():
                found.append(relative.as_posix())
    return sorted(found)


def hipify(root, folders, in_place=("torch/",), output=None):
    """Translates the sources under root and returns the written paths, relative to the output folder.

    Files under in_place are rewritten where they lie, all others go to hip_path() beside the originals,
    or under output when it is given (then nothing in root is touched).
    """
    root = Path(root)
    written = []
    for relative in sources(root, folders):
        text = hipify_text((root / relative).read_text(encoding="utf-8"), in_place)
        target = relative if relative.startswith(in_place) else hip_path(relative)
        if target != relative:
            text = BREADCRUMB.format(source=relative) + text
        if _write_if_different(Path(output or root) / target, text):
            written.append(target)
    return written
