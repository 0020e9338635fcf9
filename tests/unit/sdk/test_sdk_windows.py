"""Packages of a ROCm for Windows, made on Linux: places, names, commands, and what Windows cannot hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import artifact_trees as artifacts
import pytest

from needs import needs
from rocwright.errors import InvalidInput
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.artifacts import read_artifacts
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.plan.release import Packaging
from rocwright.sdk.table import package_table
from trees import write
from windows_tree import COMPILER, FAMILY, TARGETS, windows_artifacts, windows_prefix

pytestmark = needs(COMPILER)

CORE = {
    ".info/version",
    "bin/amd_comgr0700.dll",
    "bin/amdhip64_7.dll",
    "bin/hipInfo.exe",
    "bin/hipcc.exe",
    "bin/hiprtc-builtins0700.dll",
    "bin/hiprtc0700.dll",
    "bin/rocm-openblas.dll",
    "include/hip/hip_version.h",
    "lib/llvm/bin/clang++.exe",
    "lib/llvm/bin/clang.exe",
    "share/therock/dist_info.json",
    "share/therock/therock_manifest.json",
}
LIBRARIES = {"bin/hipblas.dll", "bin/rocblas.dll"}
DEVEL = {"include/rocblas/rocblas.h", "lib/amdhip64.lib", "lib/cmake/hip/hip-config.cmake", "lib/rocblas.lib"}
DATABASES = {target: f"bin/rocblas/library/TensileLibrary_lazy_{target}.dat" for target in TARGETS}


@pytest.fixture(scope="module", params=["prefix", "legacy", "kpack"])
def form(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def root(form: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp(f"windows-{form}") / "rocm"
    if form == "prefix":
        windows_prefix(root)
    else:
        windows_artifacts(root, split=form == "kpack")
    return root


def package(form: str, root: Path, to: Path, packaging: Packaging | None = None) -> BuiltPackages:
    if form == "prefix":
        return build_packages(read_prefix(root), to, packaging or Packaging(family=FAMILY))
    return build_packages(read_artifacts(root, package_table(), version="7.0.2"), to, packaging)


@pytest.fixture(scope="module")
def built(form: str, root: Path, tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    return package(form, root, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def found(built: BuiltPackages) -> dict[str, artifacts.Package]:
    return artifacts.packages(built)


def test_every_wheel_is_for_windows(built: BuiltPackages, form: str) -> None:
    wheels = [path.name for path in built.paths if path.suffix == ".whl"]
    assert all(name.endswith("-7.0.2-py3-none-win_amd64.whl") for name in wheels)
    # Core, devel, libraries; no profiler.
    assert len(wheels) == 3 + (2 if form == "kpack" else 0)
    assert built.rpath_edits == 0


def test_each_file_lands_in_its_package(form: str, found: dict[str, artifacts.Package]) -> None:
    assert found["rocm-sdk-core"].tree == CORE
    if form == "kpack":
        assert found["rocm-sdk-libraries"].tree == LIBRARIES
        for target in TARGETS:
            expected = {DATABASES[target], f".kpack/blas_lib_{target}.kpack"}
            assert found[f"rocm-sdk-device-{target}"].tree == expected
    else:
        assert found["rocm-sdk-libraries-gfx110x-all"].tree == {*LIBRARIES, *DATABASES.values()}


def test_files_are_shipped_byte_for_byte(root: Path, found: dict[str, artifacts.Package]) -> None:
    originals: dict[str, set[bytes]] = {}
    for path in root.rglob("*.*"):
        if path.suffix in (".dll", ".exe"):
            originals.setdefault(path.name, set()).add(path.read_bytes())
    seen = 0
    for item in found.values():
        for name, data in item.files.items():
            if name.endswith((".dll", ".exe")):
                assert data in originals[name.rpartition("/")[2]]
                seen += 1
    assert seen == 8 + 3


def test_names_of_libraries(found: dict[str, artifacts.Package]) -> None:
    assert found["rocm-sdk-core"].facts()["LIBRARIES"] == {
        "amdhip64": "bin/amdhip64_7.dll",
        "hiprtc": "bin/hiprtc0700.dll",
        "hiprtc-builtins": "bin/hiprtc-builtins0700.dll",
        "amd_comgr": "bin/amd_comgr0700.dll",
        "rocm-openblas": "bin/rocm-openblas.dll",
    }
    libraries = next(item for name, item in found.items() if name.startswith("rocm-sdk-libraries"))
    assert libraries.facts()["LIBRARIES"] == {"rocblas": "bin/rocblas.dll", "hipblas": "bin/hipblas.dll"}


def test_commands(found: dict[str, artifacts.Package]) -> None:
    assert found["rocm-sdk-core"].commands == {
        "hipInfo": "rocm_sdk_core._cli:hipInfo",
        "hipcc": "rocm_sdk_core._cli:hipcc",
    }


def test_devel(form: str, built: BuiltPackages) -> None:
    entries = artifacts.devel_entries(built)
    assert {path for path, (kind, _) in entries.items() if kind == "file"} == DEVEL
    assert not [path for path, (kind, _) in entries.items() if kind in ("link", "dirlink")]
    assert entries["bin/amdhip64_7.dll"] == ("sibling", "../_rocm_sdk_core/bin/amdhip64_7.dll")
    libraries = "../_rocm_sdk_libraries" if form == "kpack" else "../@libraries@"
    assert entries["bin/rocblas.dll"] == ("sibling", f"{libraries}/bin/rocblas.dll")
    if form == "kpack":
        # Directories, for which Windows has junctions: bin holds files of core, so not bin itself.
        overlays = {path: value for path, (kind, value) in entries.items() if kind == "overlay"}
        assert overlays == {".kpack": f"{libraries}/.kpack", "bin/rocblas": f"{libraries}/bin/rocblas"}


def test_no_wheel_owns_a_path_of_another(found: dict[str, artifacts.Package]) -> None:
    seen: set[str] = set()
    for item in found.values():
        names = {name.casefold() for name in item.files} if item.path.suffix == ".whl" else set()
        assert not seen & names
        seen |= names


def test_the_set_says_for_what_it_is(form: str, found: dict[str, artifacts.Package]) -> None:
    facts = json.loads(found["rocm"].files["rocm_set.json"])
    if form == "kpack":
        platforms = {word: row["platforms"] for word, row in facts["devices"].items()}
        assert platforms == {target: ["windows"] for target in TARGETS}
    else:
        assert facts["packages"]["libraries"][FAMILY]["platforms"] == ["windows"]
        assert facts["families"][FAMILY][:2] == list(TARGETS)
    assert "profiler" not in facts["packages"]


def test_the_same_bytes_again(form: str, root: Path, built: BuiltPackages, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "other place", copy_function=shutil.copy)
    again = package(form, copy, tmp_path / "dist")
    assert [(file.name, file.sha256) for file in again.files] == [(f.name, f.sha256) for f in built.files]


def test_the_compiler_may_be_devels(form: str, root: Path, tmp_path: Path) -> None:
    packaging = Packaging(family=FAMILY if form == "prefix" else None, split_compiler=True)
    found = artifacts.packages(package(form, root, tmp_path, packaging))
    moved = {"bin/hipcc.exe", "lib/llvm/bin/clang.exe", "lib/llvm/bin/clang++.exe"}
    assert found["rocm-sdk-core"].tree == CORE - moved
    assert found["rocm-sdk-core"].commands == {"hipInfo": "rocm_sdk_core._cli:hipInfo"}
    assert found["rocm-sdk-devel"].commands == {"hipcc": "rocm_sdk_devel._cli:hipcc"}


# What Windows cannot hold


def changed(form: str, root: Path, to: Path, name: str) -> Path:
    """A copy with one more file of the libraries."""
    copy = shutil.copytree(root, to)
    if form == "prefix":
        place = copy
    elif form == "legacy":
        place = copy / f"blas_lib_{FAMILY}/math-libs/BLAS/rocBLAS/stage"
    else:
        place = copy / "blas_lib_gfx1100/math-libs/BLAS/rocBLAS/stage"
    write(place / name, name)
    return copy


LONG = "bin/rocblas/library/" + "x" * 125


@pytest.mark.parametrize(
    ("name", "match"),
    [
        pytest.param(LONG + ".dat", "160", id="long"),
        pytest.param("bin/rocblas/library/x_gfx1100:xnack+.dat", ":", id="colon"),
        pytest.param("bin/rocblas/library/aux.dat", "aux", id="reserved"),
        pytest.param("bin/rocblas/library/what?.dat", r"\?", id="forbidden"),
        pytest.param("bin/rocblas/library/dot.", "dot", id="dot-at-the-end"),
        pytest.param(
            "bin/rocblas/library/TENSILELIBRARY_lazy_gfx1100.dat",
            "(?i)tensilelibrary_lazy",
            id="case",
        ),
    ],
)
def test_a_name_that_windows_cannot_have_is_refused(
    form: str, root: Path, tmp_path: Path, name: str, match: str
) -> None:
    write(tmp_path / "dist/rocm_sdk_core-1-py3-none-win_amd64.whl", "an earlier run's")
    with pytest.raises(InvalidInput, match=match) as caught:
        package(form, changed(form, root, tmp_path / "rocm", name), tmp_path / "dist")
    assert caught.value.exit_code == 3
    # Nothing of this run, all of earlier ones.
    assert [path.name for path in (tmp_path / "dist").iterdir()] == ["rocm_sdk_core-1-py3-none-win_amd64.whl"]


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("include/rocblas/aux.h", "aux"),
        ("include/rocblas/ROCBLAS.h", "(?i)rocblas.h"),
        ("include/rocblas/a:b.h", ":"),
        ("include/" + "x" * 140 + ".h", "160"),
    ],
    ids=["reserved", "case", "colon", "long"],
)
def test_the_devel_tree_must_be_possible_on_windows(tmp_path: Path, name: str, match: str) -> None:
    windows_prefix(tmp_path / "rocm")
    write(tmp_path / "rocm" / name, "x")
    with pytest.raises(InvalidInput, match=match):
        package("prefix", tmp_path / "rocm", tmp_path / "dist")
    assert not list((tmp_path / "dist").glob("*"))


def test_names_that_differ_by_case_between_packages_are_refused(tmp_path: Path) -> None:
    """Device packages lie over the libraries package."""
    windows_artifacts(tmp_path / "rocm", split=True)
    stage = "math-libs/BLAS/rocBLAS/stage"
    for target, name in (("gfx1100", "Common.dat"), ("gfx1101", "common.dat")):
        write(tmp_path / "rocm" / f"blas_lib_{target}" / stage / "bin/rocblas/library" / name, target)
    with pytest.raises(InvalidInput, match=r"(?i)common\.dat"):
        package("kpack", tmp_path / "rocm", tmp_path / "dist")
    assert not list((tmp_path / "dist").glob("*"))


def test_on_linux_such_names_are_fine(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    root = shutil.copytree(
        artifacts.artifacts(tmp_path_factory, split=False), tmp_path / "rocm", symlinks=True
    )
    stage = root / "blas_lib_gfx94X-dcgpu/math-libs/BLAS/rocBLAS/stage"
    names = {
        LONG + "y" * 60,
        "lib/rocblas/library/a:b.dat",
        "lib/rocblas/library/A.dat",
        "lib/rocblas/library/a.dat",
    }
    for name in names:
        write(stage / name, name)
    found = artifacts.packages(build_packages(artifacts.read(root), tmp_path / "dist"))
    assert names <= found["rocm-sdk-libraries-gfx94x-dcgpu"].tree
