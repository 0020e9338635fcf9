"""The distribution's ROCm as packages: whole, sound, nothing twice, and the same from artifacts."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from oracle import fatbin_walk
from real import sdk_index
from real.sdk_sets import Environment, artifact
from unit.sdk import split_trees

KINDS = ["kpack", "legacy", "split_compiler"]
TARGETS = ("gfx1030", "gfx803", "gfx900", "gfx906", "gfx908", "gfx90a")


def members(wheels: Path) -> dict[str, dict[str, int]]:
    """Project of each wheel to its members, with their sizes."""
    found = {}
    for path in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(path) as archive:
            found[sdk_index.project_of(path.name)] = {i.filename: i.file_size for i in archive.infolist()}
    return found


# -- what is in the packages -------------------------------------------------------------------------------


def test_the_packages_of_both_modes(real_sets):
    devices = [f"rocm_sdk_device_{target}-5.2.3-py3-none-linux_x86_64.whl" for target in TARGETS]
    platform = "5.2.3-py3-none-linux_x86_64.whl"
    names = {path.name for path in real_sets.kpack.iterdir() if not path.name.startswith(".")}
    assert names == {
        f"rocm_sdk_core-{platform}",
        f"rocm_sdk_libraries-{platform}",
        f"rocm_sdk_devel-{platform}",
        *devices,
        "rocm-5.2.3.tar.gz",
        "rocm_sdk_device-5.2.3.tar.gz",
    }
    names = {path.name for path in real_sets.legacy.iterdir() if not path.name.startswith(".")}
    assert names == {
        f"rocm_sdk_core-{platform}",
        f"rocm_sdk_libraries_debian12-{platform}",
        f"rocm_sdk_devel-{platform}",
        "rocm-5.2.3.tar.gz",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_no_path_has_two_owners(real_sets, kind):
    paths = [path for names in members(getattr(real_sets, kind)).values() for path in names]
    assert len(paths) == len(set(paths))


def test_the_compiler_is_in_core_or_in_devel(real_sets):
    """Without it core still has what hiprtc and comgr need: LLVM's libraries, built-in headers, bitcode."""
    whole = set(members(real_sets.kpack)["rocm-sdk-core"])
    split = set(members(real_sets.split_compiler)["rocm-sdk-core"])
    gone = {
        path.removeprefix("_rocm_sdk_core/") for path in whole - split if path.startswith("_rocm_sdk_core/")
    }
    assert {"lib/llvm/bin/clang-15", "lib/llvm/bin/lld", "bin/hipcc", "bin/amdclang++"} <= gone
    assert not [path for path in gone if path.startswith(("include/", "lib/lib", "lib/rocm_sysdeps/"))]
    assert [path for path in split if path.endswith("/amdgcn/bitcode/ocml.bc")]
    assert [path for path in split if path.endswith("/include/stddef.h")]


@pytest.mark.parametrize("kind", ["kpack", "legacy"])
def test_the_wheel_contract_finds_nothing(newcomer, real_sets, kind):
    done = newcomer.rocwright("check", "--set", getattr(real_sets, kind), "--json", ok=False)
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert done.returncode == 0


def test_every_code_object_is_in_a_package(newcomer, real_sets):
    """The split is proven against the whole; the packages hold its archives to the byte."""
    done = newcomer.rocwright("kpack", "verify", real_sets.split, "--against", real_sets.prefix, "--json")
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert report["identical"] == report["objects"] == 784
    ours = {}
    for path in real_sets.kpack.glob("rocm_sdk_device_*.whl"):
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith(".kpack"):
                    ours[name.rpartition("/")[2]] = hashlib.sha256(wheel.read(name)).hexdigest()
    theirs = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in real_sets.split.rglob("?*.kpack")
    }
    assert ours == theirs
    assert len(ours) >= len(TARGETS)


def test_the_family_package_has_the_device_code_of_the_prefix(real_sets, tmp_path):
    """The library's search path was edited; its code objects are what they were."""
    wheel = real_sets.legacy / "rocm_sdk_libraries_debian12-5.2.3-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        ours = Path(archive.extract("_rocm_sdk_libraries_debian12/lib/librocrand.so.1", tmp_path))
    whole = real_sets.prefix / "lib/librocrand.so.1"
    assert split_trees.original_code(ours) == split_trees.original_code(whole) != {}
    assert {
        name.rpartition("--")[2].partition(":")[0] for w in fatbin_walk.walk(ours) for name in w.device
    } == set(TARGETS)


# -- installed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_self_test_finds_nothing_wrong(real_environment, kind):
    here = real_environment(kind)  # where a first self test expanded the development files
    checks = here.test()
    assert {name: check["cause"] for name, check in checks.items() if check["verdict"] == "failed"} == {}
    assert checks["devel:layout"]["verdict"] == checks["devel:clang++"]["verdict"] == "passed"
    loaded = [name for name, check in checks.items() if name.startswith("load:")]
    assert len([name for name in loaded if checks[name]["verdict"] == "passed"]) > 25
    # Compiling must not have changed anything.
    assert here.problems() == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_library_is_on_disk_twice(real_environment, kind):
    """Installed and expanded; du counts a hard link once, and a symbolic link costs nothing."""
    here = real_environment(kind)
    tree = Path(here.run("rocm-sdk", "path", "--root").strip())
    files: dict[int, Path] = {}
    for folder, _, names in os.walk(here.site):
        paths = [Path(folder, name) for name in names]
        files.update({path.stat().st_ino: path for path in paths if not path.is_symlink()})
    heavy = [path for path in files.values() if {".so", ".kpack", ".bc"}.intersection(path.suffixes)]
    assert len(heavy) > 50
    assert same_contents(heavy) == []
    # What the tree costs is what no runtime package has: headers, static libraries, CMake files.
    inside = [
        path for inode, path in files.items() if path.is_relative_to(tree) and path.stat().st_nlink == 1
    ]
    own = sum(path.stat().st_size for path in inside)
    assert 0 < own <= (here.site / "rocm_sdk_devel/_devel.tar").stat().st_size


def same_contents(paths):
    """Groups of paths with the same bytes; only files of one size are read."""
    sizes, contents = {}, {}
    for path in paths:
        sizes.setdefault(path.stat().st_size, []).append(path)
    for same in sizes.values():
        for path in same if len(same) > 1 else ():
            contents.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), []).append(path)
    return [same for same in contents.values() if len(same) > 1]


def test_pip_installs_the_whole_and_takes_it_away(newcomer, real_sets):
    with sdk_index.serving(real_sets.kpack) as index:
        here = Environment(newcomer, newcomer.home / "whole-pip", "pip", index, newcomer.home / "whole-cache")
        here.install("rocm[libraries,device-gfx906]")
        checks = here.test()
        assert [name for name, check in checks.items() if check["verdict"] == "failed"] == []
        assert checks["devel:expand"]["verdict"] == "skipped"
        here.install("rocm[devel]")
        assert here.problems() == []
        assert here.run("hipcc", "--version").startswith("HIP version: 5.2")
        here.install("rocm[device-gfx90a]")
        assert here.run("rocm-sdk", "targets").strip() == "gfx906;gfx90a"
        assert here.problems() == []
        here.uninstall("rocm-sdk-device-gfx906", "rocm-sdk-core")
        assert here.problems() == []
        here.uninstall("rocm-sdk-device-gfx90a", "rocm-sdk-devel", "rocm-sdk-libraries", "rocm")
        assert here.present() == here.baseline
    newcomer.run("rm", "-rf", here.root, here.cache)


# -- from artifacts ----------------------------------------------------------------------------------------

# Name and component of an artifact to the paths of a ROCm prefix that its build leaves; the first that has a
# path gets it.
ARTIFACTS = {
    "prim_dev": ["include/rocprim/**/*", "lib/cmake/rocprim/*"],
    "rand_dev": ["include/*rand/**/*", "lib/cmake/*rand/*"],
    "blas_dev": ["include/*sparse/**/*", "lib/cmake/*sparse/*"],
    "rand_lib": ["lib/lib*rand.so*"],
    "blas_lib": ["lib/lib*sparse.so*", ".kpack/*"],
    "sysdeps_lib": ["lib/rocm_sysdeps/**/*"],
    "core-hip_lib": ["lib/libamdhip64*", "lib/libhiprtc*", "bin/.hip*", "share/hip/*"],
    "core-hip_dev": ["include/hip/**/*", "lib/cmake/hip*/*", "lib/*.a"],
    "core-hip_run": ["bin/hip*", "bin/roc-obj*", "share/perl5/**/*"],
    "core-runtime_lib": ["lib/libhsa*", "lib/librocm_smi*"],
    "core-runtime_run": ["bin/rocm*", "libexec/**/*", "share/rocm/**/*"],
    # Runtimes that the compiler links into programs, and what only its developers need.
    "amd-llvm_dev": [
        "lib/llvm/lib/clang/*/lib/linux/*",
        "lib/llvm/lib/clang/*/lib/wasi/*",
        "lib/llvm/lib/clang/*/share/*",
        "lib/llvm/include/**/*",
        "lib/llvm/lib/*.a",
        "lib/llvm/share/**/*",
        "lib/llvm/libexec/**/*",
        "lib/llvm/lib/lib*/**/*",
        "lib/cmake/AMDDeviceLibs/*",
        "lib/cmake/amd_comgr/*",
    ],
    "amd-llvm_lib": ["lib/llvm/**/*", "lib/libamd_comgr*", "llvm", "amdgcn", "bin/amd*"],
    "base_dev": ["include/**/*", "lib/cmake/**/*"],
    "base_lib": ["**/*", ".info/*"],
}
FLAGS = "share/therock/therock_manifest.json"


@pytest.fixture(scope="module")
def artifacts(real_sets, newcomer):
    """The split ROCm laid out as a build leaves it: one directory an artifact, all hard links."""
    root = newcomer.home / "artifacts"
    generic, taken = real_sets.split / "generic", set()
    for name, patterns in ARTIFACTS.items():
        found = {path for pattern in patterns for path in generic.glob(pattern)}
        mine = sorted(path for path in found - taken if path.is_symlink() or path.is_file())
        taken.update(mine)
        artifact(root, f"{name}_generic", generic, [str(path.relative_to(generic)) for path in mine])
    flags = root / "base_lib_generic/part/stage" / FLAGS
    flags.parent.mkdir(parents=True)
    flags.write_text(json.dumps({"flags": {"KPACK_SPLIT_ARTIFACTS": True}}))
    for target in TARGETS:
        artifact(root, f"blas_lib_{target}", real_sets.split / target, ["**/*"])
    newcomer.own(root)
    yield root
    newcomer.run("rm", "-rf", root)


def same_as_imported(real_sets, made: Path) -> None:
    theirs, ours = members(real_sets.kpack), members(made)
    marker = f"_rocm_sdk_core/{FLAGS}"
    assert ours["rocm-sdk-core"].pop(marker) > 0
    assert list(ours) == list(theirs)
    for name in ours:
        # Of equal licence texts one is kept; under which name, depends on which file brought it.
        differing = [path for path in ours[name].keys() ^ theirs[name].keys() if "/licenses/" not in path]
        assert sorted(differing) == [], name
        assert len(ours[name]) == len(theirs[name]), name


def test_artifacts_become_the_same_packages(newcomer, real_sets, artifacts):
    made = newcomer.home / "from-artifacts"
    options = ["--version", "5.2.3", "--without", "profiler", "--wheel-compression", "none", "--json"]
    done = newcomer.rocwright("sdk", "build", "--artifact-dir", artifacts, "--dest-dir", made, *options)
    assert json.loads(done.stdout)["notes"] == []
    same_as_imported(real_sets, made / "dist")
    newcomer.run("rm", "-rf", made)


def test_archives_of_artifacts_become_the_same_packages(newcomer, real_sets, artifacts):
    packed, made = newcomer.home / "packed", newcomer.home / "from-archives"
    packed.mkdir()
    for directory in sorted(artifacts.iterdir()):
        pack(directory, packed / f"{directory.name}.tar.zst")
    newcomer.own(packed)
    options = ["--version", "5.2.3", "--without", "profiler", "--wheel-compression", "none"]
    newcomer.rocwright("sdk", "build", "--artifact-dir", packed, "--dest-dir", made, *options)
    same_as_imported(real_sets, made / "dist")
    newcomer.run("rm", "-rf", made, packed)


def pack(directory: Path, file: Path) -> None:
    """An archive as a build uploads it: the manifest first."""
    packer = zstandard.ZstdCompressor(level=1, threads=2)
    with packer.stream_writer(file.open("wb")) as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
        for name in ("artifact_manifest.txt", "part"):
            tar.add(directory / name, name)
