"""Small ROCm artifacts as ROCm's build leaves them: real libraries and programs, each file named once.

`fat` artifacts have the device code inside the libraries, one artifact for each family. `split` ones were
made of a fat ROCm for all targets by the project's splitter.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest
from packaging.metadata import Metadata, parse_email

from oracle.fat_library import bundle
from rocwright.device_code.tree.split import split_tree
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.artifacts import read_artifacts
from rocwright.sdk.intake.tree import RocmTree
from rocwright.sdk.plan.release import Packaging
from rocwright.sdk.table import package_table
from trees import link, write
from unit.sdk import sdk_trees, split_trees
from unit.sdk.split_trees import GFX90A, GFX942, GFX1100, XNACK_OFF, XNACK_ON, code

VERSION = "7.11.0"
# What is in the fat libraries of a family; the split ROCm has all of it.
FAMILIES = {
    "gfx90a-dcgpu": ("gfx90a:xnack+", "gfx90a:xnack-"),
    "gfx94X-dcgpu": ("gfx942",),
    "gfx110X-dgpu": ("gfx1100",),
}
TARGETS = ("gfx90a", "gfx942", "gfx1100")
_MACHINES = {
    "gfx90a:xnack+": (GFX90A, XNACK_ON),
    "gfx90a:xnack-": (GFX90A, XNACK_OFF),
    "gfx942": (GFX942, 0),
    "gfx1100": (GFX1100, 0),
    # The EF_AMDGPU_MACH numbers of LLVM's documentation.
    "gfx1101": (0x46, 0),
    "gfx1102": (0x47, 0),
    "gfx1103": (0x44, 0),
}


@dataclass(frozen=True)
class Row:
    """One file or link of an artifact; `stage` is the directory of the build that it was staged in."""

    artifact: str
    stage: str
    path: str
    data: bytes = b""
    link: str | None = None
    executable: bool = False


@dataclass(frozen=True)
class Elf:
    """A library (or program) and what it needs; `rpath` is what the build of ROCm left in it."""

    soname: str | None = None
    needs: tuple[str, ...] = ()
    rpath: str | None = None
    program: bool = False


# In the order in which they can be linked.
ELVES = {
    "sysdeps_elf": Elf("librocm_sysdeps_elf.so.1"),
    "LLVM": Elf("libLLVM.so.21.0git"),
    "clang-cpp": Elf("libclang-cpp.so.21.0git", ("LLVM",), "$ORIGIN"),
    "lldb": Elf("liblldb.so.21", ("clang-cpp",), "$ORIGIN"),
    "comgr": Elf("libamd_comgr.so.3", ("clang-cpp",), "/build/dist/lib:$ORIGIN/llvm/lib"),
    "hsa": Elf("libhsa-runtime64.so.1", ("sysdeps_elf",), "$ORIGIN/rocm_sysdeps/lib:$ORIGIN:/opt/rocm/lib"),
    "hip": Elf("libamdhip64.so.7", ("hsa",)),
    "hiprtc": Elf("libhiprtc.so.7", ("comgr",)),
    "openblas": Elf("librocm-openblas.so.0"),
    "rocprofiler-sdk": Elf("librocprofiler-sdk.so.1", ("hsa",)),
    "hipblas": Elf("libhipblas.so.3", ("hip",)),
    "rccl": Elf("librccl.so.1", ("hip",), "$ORIGIN:$ORIGIN"),
    "MIOpen": Elf("libMIOpen.so.1", ("hipblas", "openblas", "sysdeps_elf", "hip")),
    "MIOpenCK": Elf(None, ("hip",)),
    "hipdnn": Elf("libhipdnn_backend.so.1"),
    "plugin": Elf("libmiopen_plugin.so", ("MIOpen",)),
    "rocprof-sys": Elf("librocprof-sys.so.1", ("hsa", "sysdeps_elf")),
    "profiler-hub": Elf("libprofiler-hub.so.2"),
    "clang": Elf(None, ("LLVM",), "$ORIGIN/../lib", program=True),
    "rocminfo": Elf(None, ("hsa",), "/opt/rocm/lib", program=True),
    "rocprof-sys-run": Elf(None, ("rocprof-sys",), program=True),
    "plain": Elf(program=True),
}


@cache
def images() -> Mapping[str, bytes]:
    """All of `ELVES`, built once (a second), always the same bytes in one run of the tests."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        for name, elf in ELVES.items():
            needs = [here / need for need in elf.needs]
            flags = [f"-Wl,--enable-new-dtags,-rpath,{elf.rpath}"] if elf.rpath else []
            # What the needed libraries need is no concern of this link.
            flags += ["-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-in-shared-libs"]
            if elf.program:
                sdk_trees.program(here / name, flags=["-Wl,--no-as-needed", *needs, *flags])
            else:
                sdk_trees.library(here / name, soname=elf.soname, needs=needs, flags=flags)
        return {name: (here / name).read_bytes() for name in ELVES}


@cache
def fat(soname: str, needs: tuple[str, ...], targets: tuple[str, ...]) -> bytes:
    """A library with device code."""
    pairs = [(target, code(_MACHINES[target][0], 7, _MACHINES[target][1])) for target in targets]
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        files = [write(here / name, images()[name]) for name in needs]
        flags = [
            f"-Wl,-soname,{soname}",
            "-Wl,--no-as-needed",
            *map(str, files),
            "-Wl,--allow-shlib-undefined",
        ]
        return split_trees.library(here / soname, [bundle(pairs)], ldflags=flags).read_bytes()


def _library(artifact: str, stage: str, path: str, name: str, *links: str) -> Iterator[Row]:
    yield from _versioned(artifact, stage, path, images()[name], *links)


def _versioned(artifact: str, stage: str, path: str, data: bytes, *links: str) -> Iterator[Row]:
    """A library and the chain of links to it: the last one is the name that linkers look for."""
    yield Row(artifact, stage, path, data, executable=True)
    directory, _, target = path.rpartition("/")
    for name in links:
        yield Row(artifact, stage, f"{directory}/{name}", link=target)
        target = name


_CLR, _LLVM, _COMGR = "core/clr/stage", "compiler/amd-llvm/stage", "compiler/amd-comgr/stage"
_BLAS, _HIPBLAS, _MIOPEN = (
    "math-libs/BLAS/rocBLAS/stage",
    "math-libs/BLAS/hipBLAS/stage",
    "ml-libs/MIOpen/stage",
)
_SYSTEMS, _COMPUTE = "profiler/rocprofiler-systems/stage", "profiler/rocprofiler-compute/stage"
BESIDE = '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/beside.txt"\necho "$@"\n'


def _core(*, split: bool) -> Iterator[Row]:
    base = "base/aux-overlay/stage"
    flags = json.dumps({"flags": {"KPACK_SPLIT_ARTIFACTS": split, "OTHER": "1"}})
    yield Row("base_lib_generic", base, "share/therock/therock_manifest.json", flags.encode())
    yield Row("base_lib_generic", base, ".info/version", f"{VERSION}\n".encode())

    yield Row("amd-llvm_lib_generic", _LLVM, "lib/llvm/lib/libLLVM.so.21.0git", images()["LLVM"])
    yield Row("amd-llvm_lib_generic", _LLVM, "lib/llvm/lib/libclang-cpp.so.21.0git", images()["clang-cpp"])
    yield Row("amd-llvm_lib_generic", _LLVM, "lib/llvm/lib/liblldb.so.21", images()["lldb"])
    yield Row("amd-llvm_lib_generic", _LLVM, "lib/llvm/lib/clang/21/include/stddef.h", b"#define NULL 0\n")
    yield Row("amd-llvm_lib_generic", _LLVM, "lib/llvm/amdgcn/bitcode/ocml.bc", b"BC\xc0\xde")
    yield Row("amd-llvm_lib_generic", _LLVM, "lib/llvm/lib/cmake/llvm/LLVMConfig.cmake", b"set(LLVM 21)\n")
    yield from _library(
        "amd-llvm_lib_generic",
        _COMGR,
        "lib/libamd_comgr.so.3.0.0",
        "comgr",
        "libamd_comgr.so.3",
        "libamd_comgr.so",
    )
    run = "amd-llvm_run_generic"
    yield Row(run, _LLVM, "lib/llvm/bin/clang-21", images()["clang"], executable=True)
    yield Row(run, _LLVM, "lib/llvm/bin/clang", link="clang-21")
    yield Row(run, _LLVM, "lib/llvm/bin/clang++", link="clang")
    yield Row(run, _LLVM, "bin/amdclang++", link="../lib/llvm/bin/clang++")
    for name in ("clang-cl", "clang-cpp"):
        yield Row(run, _LLVM, f"bin/amd{name}", link="../lib/llvm/bin/clang")
    yield Row(run, _LLVM, "bin/hipcc", b"#!/bin/sh\necho hipcc\n", executable=True)
    yield Row("amd-llvm_dev_generic", _LLVM, "lib/llvm/include/llvm/IR/Module.h", b"// LLVM\n")

    yield from _library(
        "core-hip_lib_generic", _CLR, "lib/libamdhip64.so.7.1.1", "hip", "libamdhip64.so.7", "libamdhip64.so"
    )
    yield from _library("core-hip_lib_generic", _CLR, "lib/libhiprtc.so.7.1.1", "hiprtc", "libhiprtc.so.7")
    yield Row("core-hip_dev_generic", _CLR, "include/hip/hip_runtime.h", b"// HIP\n")
    yield Row("core-hip_dev_generic", _CLR, "lib/cmake/hip/hip-config.cmake", b"set(hip_FOUND 1)\n")
    yield Row("core-hip_dev_generic", _CLR, "lib/libamdhip64.a", b"!<arch>\n")
    yield Row("core-ocl_dev_generic", "core/ocl-clr/stage", "include/CL/cl.h", b"// OpenCL\n")

    runtime = "core/ROCR-Runtime/stage"
    yield from _library(
        "core-runtime_lib_generic", runtime, "lib/libhsa-runtime64.so.1.18", "hsa", "libhsa-runtime64.so.1"
    )
    yield Row("core-runtime_run_generic", runtime, "bin/rocminfo", images()["rocminfo"], executable=True)
    yield Row("core-runtime_dev_generic", runtime, "include/hsa/hsa.h", b"// HSA\n")
    smi = "core/amdsmi/stage"
    yield Row(
        "core-amdsmi_run_generic", smi, "libexec/amdsmi_cli/amdsmi_cli.py", BESIDE.encode(), executable=True
    )
    yield Row("core-amdsmi_run_generic", smi, "libexec/amdsmi_cli/beside.txt", b"beside\n")
    yield Row("core-amdsmi_run_generic", smi, "bin/amd-smi", link="../libexec/amdsmi_cli/amdsmi_cli.py")
    elf = "lib/rocm_sysdeps/lib/librocm_sysdeps_elf.so.1"
    yield Row(
        "sysdeps_lib_generic", "third-party/sysdeps/linux/elfutils/build/stage", elf, images()["sysdeps_elf"]
    )
    openblas = "lib/host-math/lib/librocm-openblas.so.0"
    yield Row("host-blas_lib_generic", "third-party/host-blas/stage", openblas, images()["openblas"])
    sdk = "profiler/rocprofiler-sdk/stage"
    yield Row("rocprofiler-sdk_lib_generic", sdk, "lib/librocprofiler-sdk.so.1", images()["rocprofiler-sdk"])
    yield Row("rocprofiler-sdk_run_generic", sdk, "bin/rocprofv3", b"#!/bin/sh\n", executable=True)
    yield Row("rocprofiler-sdk_run_generic", sdk, "bin/rocprof-attach", b"#!/bin/sh\n", executable=True)


def _profiler() -> Iterator[Row]:
    lib, run = "rocprofiler-systems_lib_generic", "rocprofiler-systems_run_generic"
    yield from _library(lib, _SYSTEMS, "lib/librocprof-sys.so.1.3", "rocprof-sys", "librocprof-sys.so.1")
    yield from _library(lib, _SYSTEMS, "lib/libprofiler-hub.so.2.0", "profiler-hub", "libprofiler-hub.so.2")
    yield Row(lib, _SYSTEMS, "lib/rocprofiler-systems/lib.txt", b"payload\n")
    yield Row(lib, _SYSTEMS, "lib/python/site-packages/rocprofsys/__init__.py", b"")
    yield Row(lib, _SYSTEMS, "lib/cmake/rocprofiler-systems/config.cmake", b"# nobody's\n")
    yield Row(run, _SYSTEMS, "bin/rocprof-sys-run", images()["rocprof-sys-run"], executable=True)
    yield Row(run, _SYSTEMS, "include/rocprofiler-systems/categories.h", b"// categories\n")
    yield Row(run, _SYSTEMS, "share/rocprofiler-systems/presets/all.cfg", b"all\n")
    yield Row(run, _SYSTEMS, "share/doc/rocprofiler-systems/README", b"read me\n")
    yield Row("rocprofiler-systems_dev_generic", _SYSTEMS, "lib/libsomething.a", b"!<arch>\n")
    compute = "rocprofiler-compute_run_generic"
    yield Row(compute, _COMPUTE, "bin/rocprof-compute", b"#!/bin/sh\necho compute\n", executable=True)
    yield Row(compute, _COMPUTE, "libexec/rocprofiler-compute/base.py", b"# base\n")


def _libraries(family: str, targets: Sequence[str]) -> Iterator[Row]:
    """The libraries with the device code and databases of some targets."""
    full, bases = tuple(targets), tuple(dict.fromkeys(target.partition(":")[0] for target in targets))
    lib, dev = f"blas_lib_{family}", f"blas_dev_{family}"
    rocblas = fat("librocblas.so.5", ("hip",), full)
    yield from _versioned(lib, _BLAS, "lib/librocblas.so.5.1", rocblas, "librocblas.so.5", "librocblas.so")
    yield Row(lib, _BLAS, "lib/rocblas/library/TensileManifest.txt", b"all targets\n")
    yield from _library(lib, _HIPBLAS, "lib/libhipblas.so.3.1", "hipblas", "libhipblas.so.3", "libhipblas.so")
    yield Row(dev, _BLAS, "include/rocblas/rocblas.h", b"// rocBLAS\n")
    yield Row(dev, _HIPBLAS, "lib/cmake/hipblas/hipblas-config.cmake", b"set(hipblas_FOUND 1)\n")
    yield Row(f"blas_test_{family}", _BLAS, "bin/rocblas-test", b"#!/bin/sh\n# tests\n", executable=True)
    yield Row(f"blas_run_{family}", _BLAS, "bin/rocblas-bench", b"#!/bin/sh\n# bench\n", executable=True)
    rand = fat("librocrand.so.1", (), full)
    yield from _versioned(
        f"rand_lib_{family}", "math-libs/rocRAND/stage", "lib/librocrand.so.1.1", rand, "librocrand.so"
    )
    rccl = "comm-libs/rccl/stage"
    yield from _library(
        f"rccl_lib_{family}", rccl, "lib/librccl.so.1.0", "rccl", "librccl.so.1", "librccl.so"
    )
    yield Row(f"rccl_lib_{family}", rccl, "share/rccl/algorithms.xml", b"<algo/>\n")
    yield from _library(f"miopen_lib_{family}", _MIOPEN, "lib/libMIOpen.so.1.0", "MIOpen", "libMIOpen.so.1")
    for base in bases:
        yield Row(lib, _BLAS, f"lib/rocblas/library/TensileLibrary_lazy_{base}.dat", b"\x93" + base.encode())
        yield Row(f"miopen_lib_{family}", _MIOPEN, f"share/miopen/db/{base}.kdb", b"SQLite " + base.encode())
        name = f"lib/libMIOpenCK_conv_{base}.so"
        yield Row(f"miopen_lib_{family}", _MIOPEN, name, images()["MIOpenCK"])


def _generic() -> Iterator[Row]:
    yield Row("hipdnn_lib_generic", "ml-libs/hipDNN/stage", "lib/libhipdnn_backend.so.1", images()["hipdnn"])
    plugin = "lib/hipdnn_plugins/engines/libmiopen_plugin.so"
    yield Row("miopenprovider_lib_generic", "ml-libs/miopen-provider/stage", plugin, images()["plugin"])
    yield Row("prim_dev_generic", "math-libs/rocPRIM/stage", "include/rocprim/rocprim.hpp", b"// rocPRIM\n")


def rows(*, split: bool) -> list[Row]:
    """Every file of the artifacts; those of `split` before splitting."""
    found = [*_core(split=split), *_profiler(), *_generic()]
    if split:
        return [*found, *_libraries("generic", [target for ids in FAMILIES.values() for target in ids])]
    for family, targets in FAMILIES.items():
        found += _libraries(family, targets)
    return found


def write_artifacts(root: Path, all_rows: Sequence[Row]) -> Path:
    """Write artifact directories with their manifests."""
    stages: dict[str, list[str]] = {}
    for row in all_rows:
        path = root / row.artifact / row.stage / row.path
        if row.link is not None:
            link(path, row.link)
        else:
            write(path, row.data).chmod(0o755 if row.executable else 0o644)
        stages.setdefault(row.artifact, []).append(row.stage)
    for artifact, listed in stages.items():
        write(root / artifact / "artifact_manifest.txt", "".join(f"{s}\n" for s in dict.fromkeys(listed)))
    return root


def small_artifacts(root: Path, *, split: bool) -> Path:
    """Write the artifacts below `root`; split ones are what the splitter makes of a fat ROCm."""
    if not split:
        return write_artifacts(root, rows(split=False))
    before = write_artifacts(root.with_name(root.name + ".fat"), rows(split=True))
    split_tree(before, root, threads=1)
    shutil.rmtree(before)
    return root


def read(root: Path, version: str | None = "7.11.0") -> RocmTree:
    return read_artifacts(root, package_table(), version=version)


# -- made once for all test modules ------------------------------------------------------------------------

_Made = TypeVar("_Made")
_MADE: dict[str, object] = {}


def once(name: str, make: Callable[[], _Made]) -> _Made:
    if name not in _MADE:
        _MADE[name] = make()
    found: _Made = _MADE[name]
    return found


def artifacts(factory: pytest.TempPathFactory, *, split: bool) -> Path:
    """The artifacts, to be read only."""
    name = "split" if split else "fat"
    return once(name, lambda: small_artifacts(factory.mktemp("artifacts") / name, split=split))


def copy(root: Path, to: Path) -> Path:
    """A copy to add to and to take from; only its texts may be written to: the rest are the same files."""

    def once_more(source: str, target: str) -> None:
        (shutil.copy2 if source.endswith((".txt", ".json")) else os.link)(source, target)

    return Path(shutil.copytree(root, to, symlinks=True, copy_function=once_more))


def built(
    factory: pytest.TempPathFactory, *, split: bool, packaging: Packaging | None = None
) -> BuiltPackages:
    """The packages of them, to be read only."""
    packaging = packaging or Packaging()
    tree = artifacts(factory, split=split)
    return once(f"{split} {packaging}", lambda: build_packages(read(tree), factory.mktemp("dist"), packaging))


# -- what was written, read by zipfile, tarfile and packaging ----------------------------------------------

GENERATED = ("__init__.py", "_sources.json", "_devel.json", "_devel.tar", "_devel.tar.xz")


@dataclass(frozen=True)
class Package:
    """A wheel or sdist; `files` are all members with their bytes, an sdist's without its top directory."""

    path: Path
    files: Mapping[str, bytes]
    modes: Mapping[str, int]

    @property
    def metadata(self) -> Metadata:
        name = next(name for name in self.files if name.endswith(("dist-info/METADATA", "PKG-INFO")))
        raw, unparsed = parse_email(self.files[name])
        assert not unparsed
        return Metadata.from_raw(raw)

    @property
    def requires(self) -> list[str]:
        return [str(requirement) for requirement in self.metadata.requires_dist or []]

    @property
    def tree(self) -> set[str]:
        """Paths of ROCm's own files, from the root of the package's tree."""
        inside = {name.partition("/")[2] for name in self.files if name.startswith("_")}
        return {path for path in inside if path not in GENERATED and not path.startswith("_device_")}

    def facts(self) -> dict[str, object]:
        """What `__init__.py` of the package with files says."""
        (name,) = [
            name
            for name in self.files
            if name.startswith("_") and name.endswith("/__init__.py") and name.count("/") == 1
        ]
        found: dict[str, object] = {}
        exec(self.files[name], found)
        return {
            key: value for key, value in found.items() if not key.startswith("__") or key == "__version__"
        }

    def file(self, path: str) -> bytes:
        """A file of the package's tree."""
        (name,) = [name for name in self.files if name.startswith("_") and name.partition("/")[2] == path]
        return self.files[name]

    @property
    def commands(self) -> dict[str, str]:
        found = [text for name, text in self.files.items() if name.endswith("/entry_points.txt")]
        lines = found[0].decode().partition("[console_scripts]\n")[2].partition("\n[")[0] if found else ""
        return dict(tuple(line.split(" = ")) for line in lines.splitlines() if " = " in line)


def packages(done: BuiltPackages) -> dict[str, Package]:
    """Distribution -> package, of everything that was written."""
    found = [package(path) for path in done.paths]
    return {str(item.metadata.name): item for item in found}


def package(path: Path) -> Package:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return Package(
                path,
                {member.filename: archive.read(member) for member in archive.infolist()},
                {member.filename: member.external_attr >> 16 for member in archive.infolist()},
            )
    with tarfile.open(path) as tar:
        members = [member for member in tar.getmembers() if member.isfile()]
        files = {m.name.partition("/")[2]: tar.extractfile(m).read() for m in members}
        return Package(path, files, {m.name.partition("/")[2]: m.mode for m in members})


def devel_entries(done: BuiltPackages) -> dict[str, tuple[str, str]]:
    """Path -> (kind, value) of the devel tree, checked against the archive."""
    devel = packages(done)["rocm-sdk-devel"]
    manifest = json.loads(devel.files["rocm_sdk_devel/_devel.json"])
    entries = {path: (kind, value) for path, kind, value in manifest["entries"]}
    assert manifest["files"] == len(entries) == len(manifest["entries"])
    (archive,) = [data for name, data in devel.files.items() if "/_devel.tar" in name]
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        held = {m.name: hashlib.sha256(tar.extractfile(m).read()).hexdigest() for m in tar}
    assert held == {path: value for path, (kind, value) in entries.items() if kind == "file"}
    for path in entries:
        above = path.rpartition("/")[0]
        while above:
            assert above not in entries, f"{path} lies below the entry {above}"
            above = above.rpartition("/")[0]
    return entries


def extract(archive: Path, root: Path) -> None:
    """All of a tar, filtered as data where this Python can: 3.11.2, Debian 12's, does not know filters."""
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(root)


def install(done: BuiltPackages, site: Path) -> Path:
    """Unpack the wheels as an installer does; a path that two of them own is an error."""
    for item in packages(done).values():
        if item.path.suffix != ".whl":
            continue
        for name, data in item.files.items():
            assert not (site / name).exists(), f"{name} of {item.path.name} is another wheel's"
            write(site / name, data).chmod(0o755 if item.modes[name] & 0o111 else 0o644)
    return site


def rpath(path: Path) -> list[str]:
    """The RPATH's entries, as readelf reads them; a RUNPATH is an error."""
    found = sdk_trees.dynamic(path)
    assert "RUNPATH" not in found
    assert len(found.get("RPATH", [])) <= 1
    return found["RPATH"][0].split(":") if "RPATH" in found else []
