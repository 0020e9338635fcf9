"""Make the Python packages of a ROCm: its wheels, and the `rocm` package that selects among them."""

from __future__ import annotations

import gzip
import importlib.util
import lzma
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from rocwright import __version__
from rocwright.data.overlay import Overlay
from rocwright.engine.graph import Inputs, Note, Step
from rocwright.engine.run import once
from rocwright.errors import RocwrightError
from rocwright.sdk.intake.forms import Form, Reading
from rocwright.sdk.intake.tree import RocmTree, readable
from rocwright.sdk.plan.devel import TarEntry, TarSource
from rocwright.sdk.plan.packages import REFUSAL
from rocwright.sdk.plan.release import Packaging, SdkPlan, plan_packages
from rocwright.system.files import (
    CHUNK,
    PARTIAL,
    atomic_write,
    content_digest,
    link_or_copy,
    make_directory,
    pread,
    require_space,
    sha256_file,
    shipped_directory,
)
from rocwright.system.locks import alone_in
from rocwright.system.progress import counted
from rocwright.wheel.deflate import COMPRESSOR
from rocwright.wheel.source import BytesSource, FileSource, Source
from rocwright.wheel.write import write_wheels

# Beside the packages: what they were made of.
RECORD = ".rocwright-sdk.json"
# ROCm's own archives settled on it: a fifth more bytes than the default preset, six times as fast.
_XZ_PRESET = 2
_OURS = (
    *("rocm_sdk_*-*.whl", "rocm_profiler-*.whl", "rocm-[0-9]*.whl"),
    *("rocm-[0-9]*.tar.gz", "rocm_sdk_device-*.tar.gz", f"rocm*-*{PARTIAL}"),
)


class PackageFile(msgspec.Struct, frozen=True):
    """One written package: file name, digest, bytes on the wire, bytes once installed."""

    name: str
    sha256: str
    size: int
    installed: int


class BuiltPackages(msgspec.Struct, frozen=True):
    """ROCm as Python packages, in `directory`.

    `mode` is `legacy` (device code inside the libraries of `family`) or `kpack` (a device package for each of
    `targets`; `family` is then `multi-arch`). `notes` says what was left out and why.
    """

    version: str
    mode: str
    family: str
    targets: tuple[str, ...]
    directory: str
    files: tuple[PackageFile, ...]
    rpath_edits: int
    notes: tuple[str, ...]

    @property
    def paths(self) -> list[Path]:
        """Where the packages lie."""
        return list(self.digests)

    @property
    def digests(self) -> dict[Path, str]:
        """Where each package lies, and its sha256."""
        return {Path(self.directory) / file.name: file.sha256 for file in self.files}


class Made(msgspec.Struct, frozen=True):
    """The packages, and whether they were there already, made of the same."""

    built: BuiltPackages
    unchanged: bool


def make_packages(
    form: Form,
    directory: Path,
    packaging: Packaging,
    *,
    version: str | None = None,
    overlay: Overlay | None = None,
    threads: int = 2,
    note: Callable[[str], None] = lambda _: None,
) -> Made:
    """Make the packages of a ROCm in `directory`, unless they lie there, made of the same by the same.

    `version` overrides what the ROCm says of itself; `overlay` may tell of further distributions. Raises as
    the readers and `build_packages`; `NoSpace` before anything is written.
    """
    rows = overlay.tables.get("distributions") if overlay is not None else None

    def make(_: Inputs, note: Note) -> BuiltPackages:
        with form.opened(Reading(directory, version, packaging.without, overlay, threads)) as tree:
            require_space(directory.resolve(), tree.size // 3, purpose="the ROCm wheels")
            note(f"ROCm {tree.version}: {len(tree.host.files)} files, {_parts(tree)}")
            return build_packages(tree, directory, packaging, threads=threads, note=note)

    step = Step(
        "sdk",
        BuiltPackages,
        make,
        rooms=("sdk", "device_code", "binary", "wheel", "system", "model", "data"),
        facts=lambda: {
            "packaging": packaging,
            "version": version,
            "directory": str(directory.resolve()),
            "distributions": rows or None,
            "made_with": (__version__, sys.version, COMPRESSOR, content_digest(shipped_directory("runtime"))),
        },
        reads=lambda: form.paths,
        outputs=lambda built: built.digests,
    )
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    try:
        with alone_in(directory, "makes packages here", "wait until it has ended, or name another directory"):
            built, unchanged = once(step, directory / RECORD, note=note)
    except BaseException:
        # Of a ROCm that cannot be read nothing is left, no empty directory either.
        with suppress(OSError):
            for place in missing:
                place.rmdir()
        raise
    return Made(built, unchanged)


def _parts(tree: RocmTree) -> str:
    if not tree.parts:
        return "one tree"
    return f"{len(tree.parts)} {'targets' if tree.split else 'families'}"


def build_packages(
    tree: RocmTree,
    directory: Path,
    packaging: Packaging | None = None,
    *,
    threads: int = 2,
    note: Callable[[str], None] = lambda _: None,
) -> BuiltPackages:
    """Plan and write all packages into `directory`; ROCm packages of earlier runs in it are removed.

    Members are read where they lie; no staging copy is made. Raises as `plan_packages` and `write_wheels`;
    files already written stay, each whole.
    """
    packaging = packaging or Packaging()
    note("planning")
    with readable(tree.root):
        plan = plan_packages(tree, packaging)
    make_directory(directory)
    files: list[PackageFile] = []
    with _devel_archive(plan.devel.archive, directory, xz=packaging.devel_xz) as (member, archive):
        wheels = (*plan.wheels, plan.devel_wheel(member, archive))
        for written in write_wheels(wheels, directory, threads=threads, compression=packaging.compression):
            files.append(PackageFile(written.path.name, written.sha256, written.size, written.stored_bytes))
            note(f"wrote {written.path.name}")
    files += [
        PackageFile(path.name, sha256_file(path), path.stat().st_size, 0)
        for path in _write_selectors(plan, directory, packaging)
    ]
    _remove_stale(directory, {file.name for file in files}, plan.version, plan.maker.platform)
    return BuiltPackages(
        version=plan.version,
        mode=plan.mode,
        family=plan.family,
        targets=plan.targets,
        directory=str(directory),
        files=tuple(files),
        rpath_edits=plan.rpath_edits,
        notes=plan.notes,
    )


def _write_selectors(plan: SdkPlan, directory: Path, packaging: Packaging) -> Iterator[Path]:
    """Never an sdist and a wheel of `rocm` together: installers would always take the wheel."""
    if packaging.selector == "wheel":
        yield write_selector_wheel(directory, plan.facts)
    else:
        yield write_selector_sdist(directory, plan.facts)
    if plan.mode == "kpack":
        yield write_refusing_sdist(directory, plan.facts)


@contextmanager
def _devel_archive(archive: TarSource, directory: Path, *, xz: bool) -> Iterator[tuple[str, Source]]:
    """The archive's member name and bytes; a compressed one lies in a file without a name meanwhile."""
    if not xz:
        yield "_devel.tar", archive
        return
    with tempfile.TemporaryFile(dir=directory) as stream:
        with (
            lzma.open(stream, "wb", preset=_XZ_PRESET) as packed,
            counted("packing _devel.tar.xz", archive.size) as count,
        ):
            for offset in range(0, archive.size, CHUNK):
                packed.write(archive.read_at(offset, CHUNK))
                count.add(CHUNK)
        stream.flush()
        yield "_devel.tar.xz", _Opened(stream)


class _Opened:
    """The bytes of an open file."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._handle = stream.fileno()
        self.size = os.fstat(self._handle).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        return pread(self._handle, length, offset)


def _remove_stale(directory: Path, written: Collection[str], version: str, platform: str) -> None:
    """Remove our own packages of earlier runs: an installer would find two versions in one directory.

    Wheels of the same version for another platform stay; they belong to the same release.
    """
    for pattern in _OURS:
        for file in directory.glob(pattern):
            parts = file.name.removesuffix(".whl").split("-")
            same_release = parts[1] == version and parts[-1] not in (platform, "any", parts[1])
            if file.name not in written and not (file.suffix == ".whl" and same_release):
                file.unlink()


# -- the `rocm` package, which selects the others, and the sdist that refuses to choose a GPU target
# Both are sdists with a build backend of their own, so that installing them needs nothing from any index. The
# backend also writes the metadata that a machine-independent sdist carries, so the two cannot differ.


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
