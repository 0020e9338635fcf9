"""The `rocm` package, which selects the others, and the sdist that refuses to choose a GPU target.

Both are sdists with a build backend of their own, so that installing them needs nothing from any index. The
backend also writes the metadata that a machine-independent sdist carries, so the two cannot differ.
"""

from __future__ import annotations

import gzip
import importlib.util
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rocwright.errors import RocwrightError
from rocwright.sdk.plan.names import REFUSAL
from rocwright.sdk.tar_source import TarEntry, TarSource
from rocwright.system.files import atomic_write, link_or_copy, shipped_directory
from rocwright.wheel.source import BytesSource, FileSource, Source

_PYPROJECT = """\
[build-system]
requires = []
build-backend = "{backend}"
backend-path = ["."]
"""


def write_selector_sdist(directory: Path, facts: Mapping[str, object]) -> Path:
    """Write `rocm-<version>.tar.gz`; the same facts give the same bytes, on any platform."""
    return _write_sdist(directory, "rocm", "rocm", "rocm_build_backend", facts)


def write_selector_wheel(directory: Path, facts: Mapping[str, object]) -> Path:
    """Write `rocm-<version>-py3-none-any.whl` instead: for indexes that shall hold no sdist.

    In legacy mode it is for the default family, whatever GPU the machine has.
    """
    template = shipped_directory("runtime") / "rocm"
    with tempfile.TemporaryDirectory(prefix="rocwright-") as scratch:
        for file in sorted(template.rglob("*.py")):
            place = Path(scratch) / file.relative_to(template)
            place.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(file, place)
        (Path(scratch) / "rocm_set.json").write_bytes(_set_json(facts))
        backend = _load(Path(scratch) / "rocm_build_backend.py")
        name: str = backend.build_wheel(str(directory), {"selector": "static"})
    return directory / name


def write_refusing_sdist(directory: Path, facts: Mapping[str, object]) -> Path:
    """Write `rocm-sdk-device-<version>.tar.gz`, which says on installation which targets there are."""
    detector = {"_detect.py": FileSource(shipped_directory("runtime") / "rocm/src/rocm_sdk/_detect.py")}
    return _write_sdist(directory, REFUSAL, "rocm_device", "rocm_device_backend", facts, detector)


def _write_sdist(
    directory: Path,
    distribution: str,
    template_name: str,
    backend: str,
    facts: Mapping[str, object],
    more: Mapping[str, Source] | None = None,
) -> Path:
    """An sdist of the files in runtime/<template_name>, with what its own backend says of it."""
    template = shipped_directory("runtime") / template_name
    lines = _load(template / f"{backend}.py").metadata_lines(facts)
    members: dict[str, Source] = {
        "PKG-INFO": BytesSource("".join(f"{line}\n" for line in lines).encode()),
        "pyproject.toml": BytesSource(_PYPROJECT.format(backend=backend).encode()),
        "rocm_set.json": BytesSource(_set_json(facts)),
        **{
            file.relative_to(template).as_posix(): FileSource(file) for file in sorted(template.rglob("*.py"))
        },
        **(more or {}),
    }
    root = f"{distribution.replace('-', '_')}-{facts['version']}"
    archive = TarSource(TarEntry(f"{root}/{path}", source) for path, source in sorted(members.items()))
    target = directory / f"{root}.tar.gz"
    with atomic_write(target) as stream, gzip.GzipFile("", "wb", 9, stream, mtime=0) as packed:
        packed.write(archive.read_at(0, archive.size))
    return target


def _set_json(facts: Mapping[str, object]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(facts, order="sorted"), indent=1)


def _load(path: Path) -> Any:
    """A module that ships to users and is no part of this package, by its file."""
    spec = importlib.util.spec_from_file_location(f"rocwright_shipped_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise RocwrightError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
