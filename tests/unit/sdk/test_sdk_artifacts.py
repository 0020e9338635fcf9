"""Packages of artifacts: which file lands where, who owns it, what it finds; the same bytes again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import artifact_trees as artifacts
import pytest
import sdk_trees as trees
from artifact_trees import Row

from rocwright.errors import InvalidPrefix
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.plan.release import Packaging
from rocwright.sdk.table import package_table
from trees import write


def words(text: str) -> list[str]:
    return text.split()


CORE_NAMES = words("""
amd-dbgapi amd-llvm aqlprofile base core-amdsmi core-hip core-kpack core-ocl core-hipinfo core-runtime hipfile
hipify host-blas host-suite-sparse rocdecode rocgdb rocjpeg rocprofiler-sdk rocr-debug-agent sysdeps
sysdeps-amd-mesa sysdeps-expat sysdeps-gmp sysdeps-mpfr sysdeps-ncurses sysdeps-util-linux wsl-rocdxg
""")
LIBRARIES_NAMES = words(
    "blas fft hipdnn miopen miopenprovider hipblasltprovider hipkernelprovider rand rccl rpp"
)
DEVEL_NAMES = words("prim rocwmma libhipcxx flatbuffers nlohmann-json rocshmem hipthreads rocjitsu mirage")
PROFILER_NAMES = ["rocprofiler-compute", "rocprofiler-systems"]

CORE = words("""
.info/version
bin/amd-smi bin/amdclang++ bin/amdclang-cl bin/amdclang-cpp bin/hipcc bin/rocminfo bin/rocprof-attach
bin/rocprofv3
include/CL/cl.h include/hip/hip_runtime.h
lib/host-math/lib/librocm-openblas.so.0
lib/libamd_comgr.so.3 lib/libamdhip64.so.7 lib/libhiprtc.so.7 lib/libhsa-runtime64.so.1
lib/librocprofiler-sdk.so.1
lib/llvm/amdgcn/bitcode/ocml.bc
lib/llvm/bin/clang lib/llvm/bin/clang++ lib/llvm/bin/clang-21
lib/llvm/lib/clang/21/include/stddef.h
lib/llvm/lib/libLLVM.so.21.0git lib/llvm/lib/libclang-cpp.so.21.0git lib/llvm/lib/liblldb.so.21
lib/rocm_sysdeps/lib/librocm_sysdeps_elf.so.1
libexec/amdsmi_cli/amdsmi_cli.py libexec/amdsmi_cli/beside.txt
share/therock/therock_manifest.json
""")
LIBRARIES = words("""
lib/hipdnn_plugins/engines/libmiopen_plugin.so
lib/libMIOpen.so.1 lib/libhipblas.so.3 lib/libhipdnn_backend.so.1 lib/librccl.so.1 lib/librocblas.so.5
lib/librocrand.so.1
lib/rocblas/library/TensileManifest.txt
share/rccl/algorithms.xml
""")
PROFILER = words("""
bin/rocprof-compute bin/rocprof-sys-run
include/rocprofiler-systems/categories.h
lib/libprofiler-hub.so lib/libprofiler-hub.so.2 lib/librocprof-sys.so lib/librocprof-sys.so.1
lib/python/site-packages/rocprofsys/__init__.py
lib/rocprofiler-systems/lib.txt
libexec/rocprofiler-compute/base.py
share/doc/rocprofiler-systems/README share/rocprofiler-systems/presets/all.cfg
""")
# What only the devel package has.
DEVEL = words("""
bin/rocblas-bench
include/hsa/hsa.h include/rocblas/rocblas.h include/rocprim/rocprim.hpp
lib/cmake/hip/hip-config.cmake lib/cmake/hipblas/hipblas-config.cmake
lib/libamdhip64.a
lib/llvm/include/llvm/IR/Module.h lib/llvm/lib/cmake/llvm/LLVMConfig.cmake
""")


def database(base: str) -> set[str]:
    return {
        f"lib/rocblas/library/TensileLibrary_lazy_{base}.dat",
        f"share/miopen/db/{base}.kdb",
        f"lib/libMIOpenCK_conv_{base}.so",
    }


@pytest.fixture(scope="module", params=["legacy", "kpack"])
def mode(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def root(mode: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return artifacts.artifacts(tmp_path_factory, split=mode == "kpack")


@pytest.fixture(scope="module")
def built(mode: str, tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    return artifacts.built(tmp_path_factory, split=mode == "kpack")


@pytest.fixture(scope="module")
def found(built: BuiltPackages) -> dict[str, artifacts.Package]:
    return artifacts.packages(built)


@pytest.fixture
def fat(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """Fat artifacts that a test may change."""
    return artifacts.copy(artifacts.artifacts(tmp_path_factory, split=False), tmp_path / "artifacts")


@pytest.fixture
def split(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """Split artifacts that a test may change."""
    return artifacts.copy(artifacts.artifacts(tmp_path_factory, split=True), tmp_path / "artifacts")


# The table


@pytest.mark.parametrize("component", ["lib", "run", "dev", "dbg", "doc", "test"])
@pytest.mark.parametrize(
    "name", [*CORE_NAMES, *LIBRARIES_NAMES, *DEVEL_NAMES, *PROFILER_NAMES, "rocjitsu-hotswap"]
)
def test_every_artifact_has_its_package(name: str, component: str) -> None:
    runtime = {"lib": LIBRARIES_NAMES + CORE_NAMES + ["rocjitsu-hotswap"], "run": CORE_NAMES}.get(
        component, []
    )
    expected: str | None = "devel"
    if name in PROFILER_NAMES:
        expected = None
    elif name in runtime:
        expected = "core" if name in [*CORE_NAMES, "rocjitsu-hotswap"] else "libraries"
    table = package_table()
    assert table.knows_artifact(name, component)
    assert table.package_in_artifact(name, component, "lib/libanything.so.1") == expected


@pytest.mark.parametrize(
    ("artifact", "path", "package"),
    [
        ("core-hip_lib", "lib/cmake/hip/hip-config.cmake", "devel"),
        ("amd-llvm_lib", "lib/llvm/lib/cmake/llvm/LLVMConfig.cmake", "devel"),
        ("core-hip_run", "cmake/FindHIP.cmake", "devel"),
        ("rocprofiler-sdk_run", "bin/rocprof-attach", "core"),
        ("rocprofiler-sdk_run", "bin/rocprof-sys-run", "devel"),
        ("rocprofiler-sdk_run", "bin/rocprofv3", "core"),
        ("rocprofiler-sdk_run", "libexec/rocprof-x", "core"),
        ("core-hip_dev", "include/hip/hip_runtime.h", "core"),
        ("core-ocl_dev", "include/CL/cl.h", "core"),
        ("core-hip_dev", "lib/libamdhip64.a", "devel"),
        ("core-hip_dev", "include/hip/cmake/x.cmake", "core"),
        ("core-runtime_dev", "include/hsa/hsa.h", "devel"),
        ("rocjitsu-hotswap_run", "bin/x", "devel"),
        ("rocprofiler-systems_lib", "lib/librocprof-sys-dl.so.1", "profiler"),
        ("rocprofiler-systems_lib", "lib/libprofiler-hub.so.2", "profiler"),
        ("rocprofiler-systems_lib", "lib/python/site-packages/rocprofsys/a/b.py", "profiler"),
        ("rocprofiler-systems_lib", "lib/python/site-packages/other/b.py", None),
        ("rocprofiler-systems_run", "bin/rocprof-sys-avail", "profiler"),
        ("rocprofiler-compute_run", "bin/rocprof-compute", "profiler"),
        ("rocprofiler-compute_run", "bin/other", None),
        ("rocprofiler-compute_lib", "libexec/rocprofiler-compute/a/b/c.py", "profiler"),
        ("rocprofiler-compute_lib", "share/a/b/rocprofiler-compute/c", "profiler"),
        ("rocprofiler-compute_lib", "share/rocprofiler-compute/c", "profiler"),
        ("rocprofiler-compute_lib", "share/rocprofiler-computer/c", None),
        ("rocprofiler-systems_lib", "lib/cmake/rocprofiler-systems/x.cmake", None),
    ],
)
def test_the_path_in_an_artifact_decides(artifact: str, path: str, package: str | None) -> None:
    name, component = artifact.split("_")
    assert package_table().package_in_artifact(name, component, path) == package


@pytest.mark.parametrize("artifact", ["fusilli_lib", "blas_other", "BLAS_lib"])
def test_what_no_package_claims_is_not_known(artifact: str) -> None:
    assert not package_table().knows_artifact(*artifact.split("_"))


# Which file is where


def test_each_file_lands_in_its_package(mode: str, found: dict[str, artifacts.Package]) -> None:
    assert found["rocm-sdk-core"].tree == set(CORE)
    assert found["rocm-profiler"].tree == set(PROFILER)
    if mode == "kpack":
        assert found["rocm-sdk-libraries"].tree == {
            *LIBRARIES,
            ".kpack/blas_lib.json",
            ".kpack/rand_lib.json",
        }
        return
    for family, targets in artifacts.FAMILIES.items():
        base = targets[0].partition(":")[0]
        name = f"rocm-sdk-libraries-{family.lower()}"
        assert found[name].tree == {*LIBRARIES, *database(base)}


def test_the_set_of_packages(mode: str, built: BuiltPackages, found: dict[str, artifacts.Package]) -> None:
    always = {"rocm", "rocm-sdk-core", "rocm-sdk-devel", "rocm-profiler"}
    if mode == "kpack":
        devices = {f"rocm-sdk-device-{target}" for target in artifacts.TARGETS}
        assert set(found) == {*always, *devices, "rocm-sdk-libraries", "rocm-sdk-device"}
        assert (built.mode, built.family, built.targets) == ("kpack", "multi-arch", artifacts.TARGETS)
    else:
        families = {f"rocm-sdk-libraries-{family.lower()}" for family in artifacts.FAMILIES}
        assert set(found) == {*always, *families}
        assert (built.mode, built.targets) == ("legacy", artifacts.TARGETS)
    assert {package.metadata.version.public for package in found.values()} == {"7.11.0"}


def test_each_family_says_its_targets(mode: str, found: dict[str, artifacts.Package]) -> None:
    if mode == "kpack":
        assert "TARGETS" not in found["rocm-sdk-libraries"].facts()
        return
    for family, targets in artifacts.FAMILIES.items():
        package = found[f"rocm-sdk-libraries-{family.lower()}"]
        # Features belong to the code, not to the target.
        assert package.facts()["TARGETS"] == (targets[0].partition(":")[0],)
        assert package.requires == ["rocm-sdk-core==7.11.0"]


def test_what_a_package_says_of_its_libraries(found: dict[str, artifacts.Package]) -> None:
    assert found["rocm-sdk-core"].facts() == {
        "__version__": "7.11.0",
        "LIBRARIES": {
            "amdhip64": "lib/libamdhip64.so.7",
            "hiprtc": "lib/libhiprtc.so.7",
            "amd_comgr": "lib/libamd_comgr.so.3",
            "rocprofiler-sdk": "lib/librocprofiler-sdk.so.1",
            "rocm-openblas": "lib/host-math/lib/librocm-openblas.so.0",
        },
    }
    libraries = next(package for name, package in found.items() if name.startswith("rocm-sdk-libraries"))
    assert libraries.facts()["LIBRARIES"] == {
        "rocblas": "lib/librocblas.so.5",
        "hipblas": "lib/libhipblas.so.3",
        "rocrand": "lib/librocrand.so.1",
        "rccl": "lib/librccl.so.1",
        "miopen": "lib/libMIOpen.so.1",
        "hipdnn": "lib/libhipdnn_backend.so.1",
    }


def test_commands(found: dict[str, artifacts.Package]) -> None:
    assert found["rocm-sdk-core"].commands == {
        "amd-smi": "rocm_sdk_core._cli:amd_smi",
        "amdclang++": "rocm_sdk_core._cli:amdclangpp",
        "amdclang-cl": "rocm_sdk_core._cli:amdclang_cl",
        "amdclang-cpp": "rocm_sdk_core._cli:amdclang_cpp",
        "hipcc": "rocm_sdk_core._cli:hipcc",
        "rocminfo": "rocm_sdk_core._cli:rocminfo",
        "rocprof-attach": "rocm_sdk_core._cli:rocprof_attach",
        "rocprofv3": "rocm_sdk_core._cli:rocprofv3",
    }
    assert found["rocm-profiler"].commands == {
        "rocprof-compute": "rocm_profiler._cli:rocprof_compute",
        "rocprof-sys-run": "rocm_profiler._cli:rocprof_sys_run",
    }
    assert found["rocm-profiler"].requires == []


def test_no_wheel_owns_a_path_of_another(found: dict[str, artifacts.Package]) -> None:
    owners: dict[str, str] = {}
    for name, package in found.items():
        for path in package.files if package.path.suffix == ".whl" else ():
            folded = path.casefold()
            assert folded not in owners, f"{path} of {name} and {owners[folded]}"
            owners[folded] = name
    # A file where another wheel has a directory is no better.
    for path, name in owners.items():
        for above in Path(path).parents:
            assert str(above) not in owners, f"{path} of {name} lies below a file of {owners[str(above)]}"


# devel


def test_devel_has_every_file_of_the_artifacts(mode: str, root: Path, built: BuiltPackages) -> None:
    entries = artifacts.devel_entries(built)
    expected: set[str] = set()
    for artifact in root.iterdir():
        component = artifact.name.split("_")[1]
        if artifact.name.startswith("rocprofiler-") and "-sdk_" not in artifact.name:
            continue
        if mode == "kpack" and component == "test":
            continue
        for stage in (artifact / "artifact_manifest.txt").read_text().splitlines():
            base = artifact / stage
            expected |= {
                p.relative_to(base).as_posix() for p in base.rglob("*") if p.is_symlink() or p.is_file()
            }
    covered = {
        path
        for path in expected
        if path in entries or any(str(above) in entries for above in Path(path).parents)
    }
    assert covered == expected
    below = expected - set(entries)
    assert all(
        any(entries.get(str(above), ("",))[0] == "overlay" for above in Path(path).parents) for path in below
    )


def test_devel_ships_only_what_no_runtime_package_has(mode: str, built: BuiltPackages) -> None:
    entries = artifacts.devel_entries(built)
    test = ["bin/rocblas-test"] if mode == "legacy" else []
    assert {path for path, (kind, _) in entries.items() if kind == "file"} == {*DEVEL, *test}


def test_devel_brings_names_of_libraries_and_links_back(mode: str, built: BuiltPackages) -> None:
    entries = artifacts.devel_entries(built)
    libraries = "../_rocm_sdk_libraries" if mode == "kpack" else "../@libraries@"
    for path, entry in {
        "lib/libamdhip64.so.7": ("sibling", "../_rocm_sdk_core/lib/libamdhip64.so.7"),
        "lib/libamdhip64.so.7.1.1": ("link", "libamdhip64.so.7"),
        "lib/libamdhip64.so": ("link", "libamdhip64.so.7"),
        "lib/librocblas.so.5": ("sibling", f"{libraries}/lib/librocblas.so.5"),
        "lib/librocblas.so.5.1": ("link", "librocblas.so.5"),
        "lib/librocblas.so": ("link", "librocblas.so.5"),
        "bin/amd-smi": ("link", "../libexec/amdsmi_cli/amdsmi_cli.py"),
        "bin/amdclang++": ("link", "../lib/llvm/bin/clang-21"),
        "lib/llvm/bin/clang-21": ("sibling", "../_rocm_sdk_core/lib/llvm/bin/clang-21"),
    }.items():
        assert entries[path] == entry, path


def test_what_device_packages_bring_is_overlaid(built: BuiltPackages, mode: str) -> None:
    overlays = {
        path: value for path, (kind, value) in artifacts.devel_entries(built).items() if kind == "overlay"
    }
    if mode == "legacy":
        # What only some families have lies in whichever libraries package is installed.
        names = {name for base in artifacts.TARGETS for name in database(base)}
        assert overlays == {name: f"../@libraries@/{name}" for name in names}
        return
    single = {f"lib/libMIOpenCK_conv_{base}.so" for base in artifacts.TARGETS}
    places = {".kpack", "lib/rocblas", "share/miopen", *single}
    assert overlays == {place: f"../_rocm_sdk_libraries/{place}" for place in places}


# Running


@pytest.fixture(scope="module")
def site(mode: str, tmp_path_factory: pytest.TempPathFactory, built: BuiltPackages) -> Path:
    return artifacts.install(built, tmp_path_factory.mktemp("the site"))


def modules(site: Path) -> Iterator[tuple[str, Path]]:
    for module in sorted(site.glob("_rocm*")):
        for path in sorted(module.rglob("*")):
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
                yield module.name, path


LOAD_EACH = """
import ctypes, os, sys
for path in sys.argv[1:]:
    if os.fork() == 0:
        try:
            ctypes.CDLL(path, mode=2)
        except OSError as error:
            print(path, error, flush=True)
        os._exit(0)
    os.wait()
"""


def test_every_library_loads_without_help(site: Path) -> None:
    libraries = [str(path) for _, path in modules(site) if ".so" in path.name]
    assert len(libraries) >= 9 + 7 + 1
    done = subprocess.run(
        [sys.executable, "-c", LOAD_EACH, *libraries],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_every_program_runs_without_help(site: Path) -> None:
    for program in (
        "_rocm_sdk_core/bin/rocminfo",
        "_rocm_sdk_core/bin/amdclang++",
        "_rocm_sdk_core/lib/llvm/bin/clang",
        "_rocm_profiler/bin/rocprof-sys-run",
    ):
        done = subprocess.run([site / program, "a b"], capture_output=True, text=True, env={})
        assert done.stdout.splitlines()[1:2] == ["<a b>"], (program, done.stderr)


def test_a_script_behind_a_link_finds_what_lies_beside_it(site: Path) -> None:
    done = subprocess.run([site / "_rocm_sdk_core/bin/amd-smi", "a  b"], capture_output=True, text=True)
    assert done.stdout == "beside\na  b\n", done.stderr


def test_search_paths_stay_inside_the_packages(site: Path) -> None:
    seen = 0
    for module, path in modules(site):
        entries = artifacts.rpath(path)
        assert len(set(entries)) == len(entries), path
        for entry in entries:
            assert entry == "$ORIGIN" or entry.startswith("$ORIGIN/"), path
            there = Path(os.path.normpath(str(path.parent) + entry.removeprefix("$ORIGIN")))
            tree = (site / "_rocm_sdk_devel" / path.relative_to(site / module)).parent
            in_tree = os.path.normpath(str(tree) + entry.removeprefix("$ORIGIN"))
            # Of use where the file lies, or where the devel tree links it to.
            inside = there.is_relative_to(site) and there.is_dir()
            assert inside or Path(in_tree).is_relative_to(site / "_rocm_sdk_devel"), (path, entry)
        if "SONAME" in trees.dynamic(path):
            assert entries[0] == "$ORIGIN", path
        seen += bool(entries)
    assert seen > 10


@pytest.mark.parametrize(
    ("path", "entries"),
    [
        ("_rocm_sdk_core/lib/libamdhip64.so.7", ["$ORIGIN"]),
        ("_rocm_sdk_core/lib/libamd_comgr.so.3", ["$ORIGIN", "$ORIGIN/llvm/lib"]),
        ("_rocm_sdk_core/lib/libhsa-runtime64.so.1", ["$ORIGIN", "$ORIGIN/rocm_sysdeps/lib"]),
        ("_rocm_sdk_core/lib/llvm/lib/libclang-cpp.so.21.0git", ["$ORIGIN"]),
        ("_rocm_sdk_core/lib/llvm/bin/clang-21", ["$ORIGIN/../lib"]),
        ("_rocm_sdk_core/bin/rocminfo", ["$ORIGIN/../lib"]),
        ("{libraries}/lib/librccl.so.1", ["$ORIGIN", "$ORIGIN/../../_rocm_sdk_core/lib"]),
        # rocRAND needs nothing by name, and opens HIP.
        ("{libraries}/lib/librocrand.so.1", ["$ORIGIN", "$ORIGIN/../../_rocm_sdk_core/lib"]),
        (
            "_rocm_profiler/lib/librocprof-sys.so.1",
            [
                "$ORIGIN",
                "$ORIGIN/../../_rocm_sdk_core/lib",
                "$ORIGIN/../../_rocm_sdk_core/lib/rocm_sysdeps/lib",
                "$ORIGIN/rocm_sysdeps/lib",
            ],
        ),
    ],
)
def test_search_paths(site: Path, path: str, entries: list[str]) -> None:
    (libraries, *_) = sorted(site.glob("_rocm_sdk_libraries*"))
    assert artifacts.rpath(site / path.format(libraries=libraries.name)) == entries


def test_math_libraries_find_what_they_need_in_core(site: Path) -> None:
    (libraries, *_) = sorted(site.glob("_rocm_sdk_libraries*"))
    entries = artifacts.rpath(libraries / "lib/libMIOpen.so.1")
    core = "$ORIGIN/../../_rocm_sdk_core/lib"
    assert entries[0] == "$ORIGIN"
    assert {core, f"{core}/rocm_sysdeps/lib", f"{core}/host-math/lib"} <= set(entries)


def test_a_plugin_for_all_gpus_finds_the_library_of_its_family(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    done = artifacts.built(tmp_path_factory, split=False)
    site = artifacts.install(done, tmp_path / "site")
    for libraries in sorted(site.glob("_rocm_sdk_libraries*")):
        entries = artifacts.rpath(libraries / "lib/hipdnn_plugins/engines/libmiopen_plugin.so")
        assert "$ORIGIN/../.." in entries


def test_each_elf_file_was_edited_once(root: Path, found: dict[str, artifacts.Package]) -> None:
    """A search path costs a page at most, and the zeros that the file had no bytes for; so would a second."""
    originals: dict[str, set[int]] = {}
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF":
            soname = trees.dynamic(path).get("SONAME", [path.name])[0]
            originals.setdefault(soname, set()).add(path.stat().st_size)
    checked = 0
    for package in found.values():
        for name, data in package.files.items():
            base = name.rpartition("/")[2]
            if data[:4] == b"\x7fELF" and base in originals:
                zeros = 20_000 if base in ("librocblas.so.5", "librocrand.so.1") else 0
                assert len(data) - max(originals[base]) <= zeros + 4096 + 512, name
                checked += 1
    assert checked > 20


def test_runtime_packages_hold_regular_files_only(found: dict[str, artifacts.Package]) -> None:
    for package in found.values():
        if package.path.suffix == ".whl":
            assert {mode >> 12 for mode in package.modes.values()} == {0o10}, package.path


# Versions


def test_the_version_is_what_base_says(fat: Path) -> None:
    assert artifacts.read(fat, version=None).version == "7.11.0.dev0"
    assert artifacts.read(fat, version="9.9").version == "9.9"


@pytest.mark.parametrize(
    ("suffix", "version"), [("rc1", "7.11.0rc1"), ("+abc", "7.11.0+abc"), (".dev3", "7.11.0.dev3")]
)
def test_a_version_suffix_is_in_every_name(fat: Path, tmp_path: Path, suffix: str, version: str) -> None:
    for name in (
        "rocprofiler-systems_lib_generic",
        "rocprofiler-systems_run_generic",
        "miopen_lib_gfx90a-dcgpu",
    ):
        shutil.rmtree(fat / name)
    done = build_packages(artifacts.read(fat), tmp_path / "dist", Packaging(version_suffix=suffix))
    assert done.version == version
    for package in artifacts.packages(done).values():
        assert str(package.metadata.version) == version
        assert package.path.name.partition("-")[2].startswith(version)


# What is reported, what is refused


def test_what_no_package_takes_is_reported(fat: Path, tmp_path: Path) -> None:
    artifacts.write_artifacts(
        fat,
        [
            Row("fusilli_lib_generic", "x/stage", "lib/libfusilli.so", b"\x7fELF"),
            Row("blas_other_generic", "x/stage", "lib/libother.so", b"\x7fELF"),
        ],
    )
    write(fat / "README.md", "about")
    (fat / "rand_lib_gfx999").mkdir()
    done = build_packages(artifacts.read(fat), tmp_path / "dist")
    for name in ("fusilli_lib_generic", "blas_other_generic", "README.md", "rand_lib_gfx999"):
        assert [note for note in done.notes if note.startswith(f"{name}: ")], name
    assert not [
        path for package in artifacts.packages(done).values() for path in package.files if "other.so" in path
    ]


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        (["base_lib_generic"], "base (of core)"),
        (["amd-llvm_lib_generic", "amd-llvm_run_generic"], "amd-llvm (of core)"),
        (["core-hip_lib_generic"], "core-hip (of core)"),
        (["rocprofiler-*"], "rocprofiler-systems (of profiler)"),
        (["*_gfx*", "hipdnn_*", "miopenprovider_*"], "blas"),
    ],
)
def test_missing_artifacts_are_named(fat: Path, gone: list[str], named: str) -> None:
    for pattern in gone:
        for path in fat.glob(pattern):
            shutil.rmtree(path)
    with pytest.raises(InvalidPrefix) as caught:
        artifacts.read(fat)
    assert named in caught.value.what


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("core-hip", Row("core-hip_run_generic", "core/clr/stage", "bin/roc-obj", b"#!/bin/sh\n")),
        ("base", Row("base_run_generic", "base/aux-overlay/stage", "bin/x", b"#!/bin/sh\n")),
    ],
)
def test_an_artifact_is_missing_where_only_its_programs_are_there(fat: Path, name: str, row: Row) -> None:
    shutil.rmtree(fat / f"{name}_lib_generic")
    artifacts.write_artifacts(fat, [row])
    with pytest.raises(InvalidPrefix, match=f"{name}.*core"):
        artifacts.read(fat)


def test_libraries_are_missing_where_only_their_programs_are_there(fat: Path) -> None:
    for pattern in ("*_lib_gfx*", "hipdnn_*", "miopenprovider_*"):
        for path in fat.glob(pattern):
            shutil.rmtree(path)
    with pytest.raises(InvalidPrefix, match="blas"):
        artifacts.read(fat)


def test_all_missing_artifacts_are_named_at_once(fat: Path) -> None:
    for path in [*fat.glob("base_*"), *fat.glob("core-hip_lib_*")]:
        shutil.rmtree(path)
    with pytest.raises(InvalidPrefix, match=r"base \(of core\).*core-hip \(of core\)"):
        artifacts.read(fat)


def test_the_profiler_may_be_left_out(fat: Path, tmp_path: Path) -> None:
    for path in fat.glob("rocprofiler-[cs]*"):
        if "sdk" not in path.name:
            shutil.rmtree(path)
    tree = artifacts.read_artifacts(fat, package_table(), version="1", without=["profiler"])
    done = build_packages(tree, tmp_path / "dist", Packaging(without=("profiler",)))
    found = artifacts.packages(done)
    assert "rocm-profiler" not in found
    assert "profiler" not in artifacts.json.loads(found["rocm"].files["rocm_set.json"])["packages"]


def test_the_same_file_in_two_artifacts_is_shipped_once(fat: Path, tmp_path: Path) -> None:
    data = (fat / "core-hip_lib_generic/core/clr/stage/lib/libamdhip64.so.7.1.1").read_bytes()
    artifacts.write_artifacts(
        fat, [Row("prim_lib_generic", "math-libs/x/stage", "lib/libamdhip64.so.7.1.1", data, executable=True)]
    )
    found = artifacts.packages(build_packages(artifacts.read(fat), tmp_path / "dist"))
    assert "lib/libamdhip64.so.7" in found["rocm-sdk-core"].tree


def test_a_file_that_devel_and_a_runtime_package_have_is_the_runtime_packages(
    fat: Path, tmp_path: Path
) -> None:
    row = Row("amd-llvm_dev_generic", "compiler/amd-llvm/stage", "lib/shared.txt", b"x")
    artifacts.write_artifacts(fat / "a", [row, Row("hipify_lib_generic", "x/stage", "lib/shared.txt", b"x")])
    for name in ("amd-llvm_dev_generic", "hipify_lib_generic"):
        shutil.copytree(fat / "a" / name, fat / name, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(fat / "a")
    found = artifacts.packages(build_packages(artifacts.read(fat), tmp_path / "dist"))
    assert "lib/shared.txt" in found["rocm-sdk-core"].tree


# The same again


def digests(built: BuiltPackages) -> dict[str, str]:
    return {file.name: file.sha256 for file in built.files}


def test_another_order_of_creation_time_mask_and_threads_change_nothing(
    root: Path, built: BuiltPackages, tmp_path: Path
) -> None:
    other = tmp_path / "elsewhere" / "other artifacts"
    before = os.umask(0o077)
    try:
        for path in sorted(root.rglob("*"), key=lambda path: str(path)[::-1]):
            target = other / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                target.symlink_to(os.readlink(path))  # noqa: PTH115
            elif path.is_file():
                target.write_bytes(path.read_bytes())
                target.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
                os.utime(target, (1_000_000_000, 1_000_000_000))
        again = build_packages(artifacts.read(other), tmp_path / "dist", threads=1)
    finally:
        os.umask(before)
    assert digests(again) == digests(built)


def test_the_files_that_are_written_can_be_read_by_all_who_may(
    built: BuiltPackages, root: Path, tmp_path: Path
) -> None:
    done = build_packages(artifacts.read(root), tmp_path / "dist")
    assert {path.stat().st_mode & 0o777 for path in done.paths} == {0o644}


def test_the_devel_archive_may_be_compressed(root: Path, built: BuiltPackages, tmp_path: Path) -> None:
    done = build_packages(artifacts.read(root), tmp_path / "dist", Packaging(devel_xz=True))
    assert artifacts.devel_entries(done) == artifacts.devel_entries(built)
    name = "rocm_sdk_devel/_devel.tar.xz"
    assert artifacts.packages(done)["rocm-sdk-devel"].files[name][:6] == b"\xfd7zXZ\0"
    again = build_packages(artifacts.read(root), tmp_path / "again", Packaging(devel_xz=True), threads=1)
    assert digests(again) == digests(done)
    assert {path.name for path in (tmp_path / "dist").iterdir()} == set(digests(done))


def test_what_one_family_brings_is_no_overlay(fat: Path, tmp_path: Path) -> None:
    """Whoever installs the only libraries package there is has all of it."""
    for path in [*fat.glob("*_gfx90a-dcgpu"), *fat.glob("*_gfx110X-dgpu")]:
        shutil.rmtree(path)
    done = build_packages(artifacts.read(fat), tmp_path / "dist")
    entries = artifacts.devel_entries(done)
    assert {kind for kind, _ in entries.values()} == {"file", "link", "sibling"}
    for path in database("gfx942"):
        assert entries[path] == ("sibling", f"../@libraries@/{path}")


def test_what_cannot_be_loaded_alone_is_said(fat: Path, tmp_path: Path) -> None:
    stage, image = "compiler/amd-llvm/stage", artifacts.images()["MIOpenCK"]
    asan = "lib/llvm/lib/clang/21/lib/linux/libclang_rt.asan-x86_64.so"
    for path in ("lib/llvm/lib/LLVMPolly.so", asan):
        write(fat / "amd-llvm_lib_generic" / stage / path, image)
    core = artifacts.packages(build_packages(artifacts.read(fat), tmp_path / "dist"))["rocm-sdk-core"]
    assert core.facts()["NOT_LOADABLE"] == {
        "lib/llvm/lib/LLVMPolly.so": "a plugin that the compiler loads",
        "lib/llvm/lib/clang/*/lib/*/libclang_rt.*.so": (
            "a sanitizer's runtime, which must be loaded before all others"
        ),
    }


def test_a_program_of_core_is_led_to_no_package_that_there_is_not(fat: Path, tmp_path: Path) -> None:
    blas = write(tmp_path / "libhipblas.so.3", artifacts.images()["hipblas"])
    flags = ("-Wl,--no-as-needed", blas, "-Wl,--unresolved-symbols=ignore-in-shared-libs")
    tool = trees.program(tmp_path / "tool", flags=flags).read_bytes()
    write(fat / "core-hip_lib_generic/core/clr/stage/bin/tool", tool).chmod(0o755)
    site = artifacts.install(build_packages(artifacts.read(fat), tmp_path / "dist"), tmp_path / "site")
    for entry in artifacts.rpath(site / "_rocm_sdk_core/bin/tool"):
        if "_rocm_sdk" in entry:
            place = site / "_rocm_sdk_core/bin" / entry.removeprefix("$ORIGIN/")
            assert place.is_dir(), entry
