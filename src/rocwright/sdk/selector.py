"""The `rocm` sdist: a few kilobytes that, built where they are installed, choose the target family.

It carries its own build backend and needs no build dependency, so it installs from a closed index.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rocwright.sdk.tar_source import TarEntry, TarSource
from rocwright.system.files import atomic_write, shipped_directory
from rocwright.wheel.source import BytesSource, FileSource, Source

_PYPROJECT = b"""\
[build-system]
requires = []
build-backend = "rocm_build_backend"
backend-path = ["."]
"""

# Metadata 2.2: what is marked dynamic is known only once the wheel is built. Without these lines uv
# takes the sdist's empty requirements for the final ones.
_PKG_INFO = """\
Metadata-Version: 2.2
Name: rocm
Version: {version}
Summary: Selects and finds the ROCm Python packages
Requires-Python: >=3.8
Dynamic: Requires-Dist
Dynamic: Provides-Extra
"""


def write_selector_sdist(directory: Path, version: str, facts: Mapping[str, object]) -> Path:
    """Write `rocm-<version>.tar.gz`; the same facts give the same bytes."""
    template = shipped_directory("runtime") / "rocm"
    root = f"rocm-{version}"
    sources: dict[str, Source] = {
        "PKG-INFO": BytesSource(_PKG_INFO.format(version=version).encode()),
        "pyproject.toml": BytesSource(_PYPROJECT),
        "rocm_set.json": BytesSource(
            msgspec.json.format(msgspec.json.encode(facts, order="sorted"), indent=1)
        ),
    }
    for file in sorted(template.rglob("*.py")):
        sources[file.relative_to(template).as_posix()] = FileSource(file)
    archive = TarSource(TarEntry(f"{root}/{name}", source) for name, source in sorted(sources.items()))
    target = directory / f"{root}.tar.gz"
    with atomic_write(target) as stream, gzip.GzipFile("", "wb", 9, stream, mtime=0) as packed:
        packed.write(archive.read_at(0, archive.size))
    return target
