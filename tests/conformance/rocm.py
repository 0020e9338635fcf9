"""ROCm as a run of CI leaves it: a real compiler and HIP runtime, and small libraries with device code.

Compiler, runtime and headers are the distribution's. Its math libraries take gigabytes, so the libraries
here are a few kilobytes each, linked by gcc, with code objects for targets of their family that cannot run.
For what compiles nothing there is the small ROCm: the same artifacts, compiler and runtime made by gcc, too.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import zstandard

from conformance.world import World
from oracle.fat_library import bundle
from real.sdk_sets import artifact, small_tree
from trees import link, script, write
from unit.sdk import sdk_trees, split_trees

# One target of each family; the numbers are EF_AMDGPU_MACH of LLVM's documentation.
FAMILIES = {
    "gfx110X-all": ("gfx1100", 0x41),
    "gfx94X-dcgpu": ("gfx942", 0x4C),
    "gfx120X-all": ("gfx1201", 0x4E),
}
# The targets that the document of the packages fetches; of the small ROCm there is code for all of them.
TARGETS = {"gfx942": 0x4C, "gfx1100": 0x41, "gfx1101": 0x46, "gfx1102": 0x47, "gfx1103": 0x44,
           "gfx1151": 0x4A, "gfx1200": 0x48, "gfx1201": 0x4E}  # fmt: skip
# Short name to SONAME of what the documents preload and the distribution's ROCm does not have, or not small.
LIBRARIES = {
    "hipblas": "libhipblas.so.0",
    "hipblaslt": "libhipblaslt.so.0",
    "hipfft": "libhipfft.so.0",
    "hiprand": "libhiprand.so.1",
    "hipsolver": "libhipsolver.so.0",
    "hipsparse": "libhipsparse.so.0",
    "hipsparselt": "libhipsparselt.so.0",
    "miopen": "libMIOpen.so.1",
    "rccl": "librccl.so.1",
}
ARTIFACT_OF = {"hipblas": "blas", "hipblaslt": "blas", "hipsolver": "blas", "hipsparse": "blas",
               "hipsparselt": "blas", "hipfft": "fft", "hiprand": "rand", "miopen": "miopen",
               "rccl": "rccl"}  # fmt: skip


def prefix(world: World) -> Path:
    """The distribution's compiler, runtime and headers, and small libraries of the core, as one tree."""

    def make(place: Path) -> None:
        tree = place / "rocm"
        cache = os.environ.get("ROCWRIGHT_TEST_CACHE") or str(Path.home() / ".cache/rocwright")
        _rocwright(world, "sdk", "fetch", tree, "--cache-dir", cache)
        for name in ("rocsparse", "hipsparse", "rocrand", "hiprand", "rocprim"):
            for path in [
                *tree.glob(f"lib/lib{name}.so*"),
                tree / "include" / name,
                tree / "lib/cmake" / name,
            ]:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        _add_profilers(tree)
        _device_library(tree / "lib/llvm", "1100", 11000)

    return world.once("rocm-prefix", make) / "rocm"


def small_prefix(world: World) -> Path:
    """A tree with files in the same places, a few kilobytes each; nothing in it compiles."""

    def make(place: Path) -> None:
        tree = small_tree(place / "rocm", "5.2.3", ["gfx1100"])
        for name, soname in (("amd_comgr", "libamd_comgr.so.2"), ("hsa-runtime64", "libhsa-runtime64.so.1")):
            _versioned(tree / "lib", name, soname)
        _add_profilers(tree)

    return world.once("rocm-small-prefix", make) / "rocm"


def artifacts(world: World, *, small: bool = False) -> Path:
    """A directory of artifacts: generic ones, and the libraries of three families with device code inside."""

    def make(place: Path) -> None:
        tree, out = (small_prefix if small else prefix)(world), place / "artifacts"
        _flag(place / "flags", split=False)
        _generic(tree, place / "flags", out)
        for family, (target, machine) in FAMILIES.items():
            built = place / f"tree-{family}"
            _libraries(built, tree, {target: machine})
            _of_family(built, out, family)

    return world.once(f"rocm{'-small' * small}-artifacts", make) / "artifacts"


def split_artifacts(world: World, *, small: bool = False) -> Path:
    """The same ROCm as a build with KPACK_SPLIT_ARTIFACTS leaves it: by target, made by `kpack split`."""

    def make(place: Path) -> None:
        tree, fat = (small_prefix if small else prefix)(world), place / "fat"
        _flag(place / "flags", split=True)
        _generic(tree, place / "flags", fat)
        _libraries(place / "tree", tree, TARGETS if small else dict(FAMILIES.values()))
        _of_family(place / "tree", fat, "generic")
        _rocwright(world, "kpack", "split", fat, "--output-dir", place / "artifacts")

    return world.once(f"rocm{'-small' * small}-split-artifacts", make) / "artifacts"


def store(world: World, *run_ids: str, split: bool = False, small: bool = False) -> Path:
    """A store of CI, a folder, whose runs uploaded these artifacts; ROCWRIGHT_STORE names it to commands."""

    def make(place: Path) -> None:
        found = (split_artifacts if split else artifacts)(world, small=small)
        packed = place / "archives"
        packed.mkdir()
        for one in sorted(found.iterdir()):
            if one.is_dir():
                entries = ["artifact_manifest.txt", *sorted(p.name for p in one.iterdir() if p.is_dir())]
                with (
                    zstandard.open(packed / f"{one.name}.tar.zst", "wb") as stream,
                    tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as tar,
                ):
                    for entry in entries:
                        tar.add(one / entry, entry)
        for run_id in run_ids:
            words = ["--input-dir", packed, "--run-id", run_id, "--platform", "linux", "--multiarch"]
            _rocwright(world, "store", "upload", "--kind", "artifacts", *words, "--store", place / "store")
        shutil.rmtree(packed)

    name = "-".join(["ci-store", *["small"] * small, "split" if split else "fat", *run_ids])
    return world.once(name, make) / "store"


def _rocwright(world: World, *words: object) -> None:
    env = {"HOME": str(Path.home()), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    command = [str(world.venv() / "bin/rocwright"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=world.root)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def _add_profilers(tree: Path) -> None:
    for name, soname in (("roctx64", "libroctx64.so.4"), ("hiprtc", "libhiprtc.so.5"),
                         ("rocprofiler-sdk", "librocprofiler-sdk.so.0")):  # fmt: skip
        _versioned(tree / "lib", name, soname)
    for name in ("rocprofv3", "rocprof-attach", "rocprof-compute", "rocprof-sys-run"):
        script(tree / "bin" / name, f'#!/bin/sh\necho {name} "$@"\n')
    write(tree / "libexec/rocprofiler-compute/rocprof_compute.py", "print('compute')\n")
    _versioned(tree / "lib", "rocprof-sys", "librocprof-sys.so.0")


def _versioned(lib: Path, name: str, soname: str) -> None:
    """A small library with its two links, as a build installs it."""
    path = sdk_trees.library(lib / f"{soname}.0.1", soname=soname, symbol=name.replace("-", "_"))
    link(lib / soname, path.name)
    link(lib / (soname.split(".so")[0] + ".so"), soname)


def _device_library(llvm: Path, name: str, isa: int) -> None:
    """What its compiler knows as a target and its device libraries do not: the number of that target."""
    text = (
        'target triple = "amdgcn-amd-amdhsa"\n'
        "@__oclc_ISA_version = linkonce_odr hidden local_unnamed_addr addrspace(4) "
        f"constant i32 {isa}, align 4\n"
    )
    out = llvm / f"amdgcn/bitcode/oclc_isa_version_{name}.bc"
    words = ["-x", "ir", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-emit-llvm", "-c", "-", "-o", str(out)]
    subprocess.run([str(llvm / "bin/clang"), *words], input=text, text=True, check=True)


def _flag(place: Path, *, split: bool) -> None:
    text = json.dumps({"flags": {"KPACK_SPLIT_ARTIFACTS": split}})
    write(place / "share/therock/therock_manifest.json", text)
    write(place / ".info/version", "5.2.3\n")


def _generic(tree: Path, flags: Path, out: Path) -> None:
    artifact(out, "base_lib_generic", flags, [".info/*", "share/therock/*"])
    llvm = ["lib/llvm/**/*", "llvm", "amdgcn", "bin/amd*", "lib/libamd_comgr.so*"]
    artifact(out, "amd-llvm_lib_generic", tree, llvm)
    artifact(out, "amd-llvm_dev_generic", tree, ["include/amd_comgr.h", "lib/cmake/amd_comgr/*",
                                                 "lib/cmake/AMDDeviceLibs/*"])  # fmt: skip
    artifact(out, "core-hip_lib_generic", tree, ["lib/libamdhip64.so*", "lib/libhiprtc*", "bin/hip*",
                                                 "bin/.hip*", "share/hip/**/*"])  # fmt: skip
    hip = ["include/hip/**/*", "lib/cmake/hip/*", "lib/cmake/hip-lang/*", "share/perl5/**/*"]
    artifact(out, "core-hip_dev_generic", tree, hip)
    artifact(out, "core-runtime_lib_generic", tree, ["lib/libhsa*.so*"])
    artifact(out, "core-runtime_run_generic", tree, ["bin/rocm_agent_enumerator", "bin/rocminfo"])
    runtime = ["include/hsa/**/*", "include/hsakmt*", "lib/cmake/hsa-runtime64/*", "lib/cmake/hsakmt/*"]
    artifact(out, "core-runtime_dev_generic", tree, runtime)
    artifact(out, "sysdeps_lib_generic", tree, ["lib/rocm_sysdeps/**/*"])
    artifact(out, "rocprofiler-sdk_lib_generic", tree, ["lib/librocprofiler-sdk*", "lib/libroctx64*"])
    artifact(out, "rocprofiler-sdk_run_generic", tree, ["bin/rocprofv3", "bin/rocprof-attach"])
    compute = ["bin/rocprof-compute", "libexec/rocprofiler-compute/*"]
    artifact(out, "rocprofiler-compute_run_generic", tree, compute)
    artifact(out, "rocprofiler-systems_lib_generic", tree, ["lib/librocprof-sys*"])
    artifact(out, "rocprofiler-systems_run_generic", tree, ["bin/rocprof-sys-run"])
    backend = out.parent / "hipdnn"
    _versioned(backend / "lib", "hipdnn", "libhipdnn_backend.so.0")
    artifact(out, "hipdnn_lib_generic", backend, ["lib/*"])


def _libraries(built: Path, tree: Path, targets: dict[str, int]) -> None:
    hip = tree / "lib/libamdhip64.so"
    link(built / "lib/libamdhip64.so", str(hip))
    code = bundle([(name, split_trees.code(machine, 7)) for name, machine in targets.items()])
    flags = ["-Wl,--no-as-needed", str(hip), "-Wl,--allow-shlib-undefined"]
    path = built / "lib/librocblas.so.0.1"
    split_trees.library(path, [code], ldflags=["-Wl,-soname,librocblas.so.0", *flags])
    link(path.with_name("librocblas.so.0"), path.name)
    link(path.with_name("librocblas.so"), "librocblas.so.0")
    for name, soname in LIBRARIES.items():
        _versioned(built / "lib", name, soname)
    for name in targets:
        write(built / f"lib/rocblas/library/TensileLibrary_lazy_{name}.dat", b"\x93" + name.encode())
        write(built / f"lib/rocblas/library/Kernels_{name}.co", split_trees.code(targets[name], 9))
        write(built / f"share/miopen/db/{name}.kdb", b"SQLite " + name.encode())
        write(built / f"share/miopen/db/{name}.db.txt", f"{name}=1\n")
    write(built / "include/rocblas/rocblas.h", "// rocBLAS\n")
    write(built / "lib/cmake/rocblas/rocblas-config.cmake", "set(rocblas_FOUND 1)\n")


def _of_family(built: Path, out: Path, family: str) -> None:
    kinds: dict[str, list[str]] = {"blas": ["lib/librocblas.so*", "lib/rocblas/**/*"],
                                   "miopen": ["share/miopen/**/*"]}  # fmt: skip
    for name, soname in LIBRARIES.items():
        kinds.setdefault(ARTIFACT_OF[name], []).append(f"lib/{soname.split('.so')[0]}.so*")
    for name, patterns in kinds.items():
        artifact(out, f"{name}_lib_{family}", built, patterns)
    artifact(out, f"blas_dev_{family}", built, ["include/rocblas/*", "lib/cmake/rocblas/*"])
