"""Device packages: variants, groups, files of several targets, an extra for each, and no choice made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import artifact_trees as artifacts
import pytest
from artifact_trees import Row
from packaging.requirements import Requirement

from rocwright.errors import InvalidPrefix
from rocwright.model.gpu import InvalidTarget
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.intake.forms import read_prefix
from rocwright.sdk.plan.release import Packaging
from trees import write

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

LIBRARIES = "../_rocm_sdk_libraries"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltPackages:
    return artifacts.built(tmp_path_factory, split=True)


@pytest.fixture(scope="module")
def found(built: BuiltPackages) -> dict[str, artifacts.Package]:
    return artifacts.packages(built)


@pytest.fixture
def split(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """Split artifacts that a test may change."""
    root = artifacts.artifacts(tmp_path_factory, split=True)
    return artifacts.copy(root, tmp_path / "artifacts")


BLAS = "math-libs/BLAS/rocBLAS/stage"


def with_files(root: Path, *rows: tuple[str, str, bytes]) -> Path:
    """Add (artifact, path, bytes)."""
    artifacts.write_artifacts(root.parent / "more", [Row(a, BLAS, path, data) for a, path, data in rows])
    for more in (root.parent / "more").iterdir():
        stages = root / more.name / "artifact_manifest.txt"
        lines = stages.read_text() if stages.exists() else ""
        shutil.copytree(more, root / more.name, symlinks=True, dirs_exist_ok=True)
        stages.write_text(lines if f"{BLAS}\n" in lines else f"{lines}{BLAS}\n")
    shutil.rmtree(root.parent / "more")
    return root


def test_all_variants_of_a_target_are_in_one_package(found: dict[str, artifacts.Package]) -> None:
    package = found["rocm-sdk-device-gfx90a"]
    archives = {path for path in package.tree if path.startswith(".kpack/")}
    assert archives == {
        f".kpack/{library}_lib_gfx90a{rest}"
        for library in ("blas", "rand")
        for rest in (":xnack+.kpack", ":xnack-.kpack", ".json")
    }
    assert json.loads(package.files["_rocm_sdk_libraries/_device_gfx90a.json"]) == {
        "target": "gfx90a",
        "serves": ["gfx90a"],
        "version": "7.11.0",
        "code": ["gfx90a:xnack+", "gfx90a:xnack-"],
    }
    assert "rocm-sdk-device-gfx90a-xnack" not in found


def test_artifacts_of_variants_go_into_the_package_of_their_target(split: Path, tmp_path: Path) -> None:
    with_files(split, ("blas_lib_gfx942:xnack+", "lib/rocblas/library/x_gfx942-xnack+.co", b"code"))
    found = artifacts.packages(build_packages(artifacts.read(split), tmp_path / "dist"))
    assert "lib/rocblas/library/x_gfx942-xnack+.co" in found["rocm-sdk-device-gfx942"].tree
    assert {name for name in found if "gfx942" in name} == {"rocm-sdk-device-gfx942"}


def test_artifacts_of_an_owned_target_go_into_the_package_of_its_owner(split: Path, tmp_path: Path) -> None:
    with_files(
        split,
        ("blas_lib_gfx1250", "lib/rocblas/library/x_gfx1250.co", b"code"),
        ("blas_lib_gfx1250-strict", "lib/rocblas/library/x_gfx1250-strict.co", b"more"),
    )
    done = build_packages(artifacts.read(split), tmp_path / "dist")
    found = artifacts.packages(done)
    assert {"gfx1250", "gfx1250-strict"} <= set(done.targets)
    assert [name for name in found if "gfx1250" in name] == ["rocm-sdk-device-gfx1250"]
    package = found["rocm-sdk-device-gfx1250"]
    assert {f"lib/rocblas/library/x_gfx1250{end}.co" for end in ("", "-strict")} <= package.tree
    marker = json.loads(package.files["_rocm_sdk_libraries/_device_gfx1250.json"])
    assert (marker["target"], marker["serves"]) == ("gfx1250", ["gfx1250", "gfx1250-strict"])
    assert_extras_are_complete(found)


def test_a_device_package_requires_the_libraries_of_its_version(found: dict[str, artifacts.Package]) -> None:
    for target in artifacts.TARGETS:
        assert found[f"rocm-sdk-device-{target}"].requires == ["rocm-sdk-libraries==7.11.0"]
        # It lies inside the libraries package, and imports nothing of its own.
        files = found[f"rocm-sdk-device-{target}"].files
        assert not [name for name in files if name.endswith(".py")]
        assert {name.partition("/")[0] for name in files} == {
            "_rocm_sdk_libraries",
            f"rocm_sdk_device_{target}-7.11.0.dist-info",
        }
    assert found["rocm-sdk-libraries"].requires == ["rocm-sdk-core==7.11.0"]


def test_a_group_is_required_by_the_targets_that_it_serves(split: Path, tmp_path: Path) -> None:
    with_files(
        split,
        ("blas_lib_gfx11", "lib/aotriton.images/amd-gfx11xx/a.aks2", b"images"),
        ("blas_lib_gfx1151", "lib/rocblas/library/x_gfx1151.dat", b"data"),
    )
    found = artifacts.packages(build_packages(artifacts.read(split), tmp_path / "dist"))
    libraries, group = "rocm-sdk-libraries==7.11.0", "rocm-sdk-device-gfx11==7.11.0"
    assert found["rocm-sdk-device-gfx1100"].requires == [libraries, group]
    assert found["rocm-sdk-device-gfx1151"].requires == [libraries, group]
    assert found["rocm-sdk-device-gfx942"].requires == [libraries]
    assert found["rocm-sdk-device-gfx11"].requires == [libraries]
    marker = json.loads(found["rocm-sdk-device-gfx11"].files["_rocm_sdk_libraries/_device_gfx11.json"])
    assert marker["target"] == "gfx11"
    assert {"gfx1100", "gfx1101", "gfx1151"} <= set(marker["serves"])
    assert "gfx1200" not in marker["serves"]
    assert_extras_are_complete(found)


def test_generic_code_is_required_by_the_targets_that_it_runs_on(split: Path, tmp_path: Path) -> None:
    """As Debian's rocSOLVER 6.4 has it: for RDNA 3 there is generic code, and no other."""
    with_files(split, ("blas_lib_gfx11-generic", "lib/rocblas/library/x_gfx11-generic.dat", b"data"))
    found = artifacts.packages(build_packages(artifacts.read(split), tmp_path / "dist"))
    libraries, generic = "rocm-sdk-libraries==7.11.0", "rocm-sdk-device-gfx11-generic==7.11.0"
    assert found["rocm-sdk-device-gfx1100"].requires == [libraries, generic]
    assert found["rocm-sdk-device-gfx942"].requires == [libraries]
    assert found["rocm-sdk-device-gfx11-generic"].requires == [libraries]
    marker = found["rocm-sdk-device-gfx11-generic"].files["_rocm_sdk_libraries/_device_gfx11-generic.json"]
    # Nobody's first choice: builds for what is installed would compile for all of them.
    assert json.loads(marker)["serves"] == ["gfx11-generic"]
    assert_extras_are_complete(found)


# Files of several targets


SHARED = "lib/rocblas/library/common.dat"


def test_what_several_targets_have_alike_belongs_to_the_libraries(split: Path, tmp_path: Path) -> None:
    with_files(split, *((f"blas_lib_{target}", SHARED, b"alike") for target in ("gfx90a", "gfx942")))
    found = artifacts.packages(build_packages(artifacts.read(split), tmp_path / "dist"))
    assert {name for name, package in found.items() if SHARED in package.tree} == {"rocm-sdk-libraries"}


@pytest.mark.parametrize("path", ["share/common.dat", "lib/libcommon.so", "bin/common.dat"])
def test_what_several_targets_have_alike_is_in_devel(split: Path, tmp_path: Path, path: str) -> None:
    with_files(split, *((f"blas_lib_{target}", path, b"\x7fELF") for target in ("gfx90a", "gfx942")))
    done = build_packages(artifacts.read(split), tmp_path / "dist")
    assert artifacts.devel_entries(done)[path] == ("sibling", f"{LIBRARIES}/{path}")


def test_what_a_target_has_as_all_have_it_is_in_no_device_package(split: Path, tmp_path: Path) -> None:
    path = "lib/rocblas/library/TensileManifest.txt"
    with_files(split, ("blas_lib_gfx942", path, b"all targets\n"))
    found = artifacts.packages(build_packages(artifacts.read(split), tmp_path / "dist"))
    assert path not in found["rocm-sdk-device-gfx942"].tree
    assert path in found["rocm-sdk-libraries"].tree


@pytest.mark.parametrize("other", ["gfx942", "generic"])
def test_what_several_targets_have_differently_is_refused(split: Path, tmp_path: Path, other: str) -> None:
    with_files(split, ("blas_lib_gfx90a", SHARED, b"one"), (f"blas_lib_{other}", SHARED, b"two"))
    with pytest.raises(InvalidPrefix, match=r"lib/rocblas/library/common\.dat") as caught:
        build_packages(artifacts.read(split), tmp_path / "dist")
    assert "gfx90a" in caught.value.what
    assert not list((tmp_path / "dist").glob("*"))


@pytest.mark.parametrize("other", ["blas_dev_generic", "core-hip_lib_generic"], ids=["of-devel", "of-core"])
def test_a_device_file_at_the_path_of_another_package_is_refused(
    split: Path, tmp_path: Path, other: str
) -> None:
    """In the devel tree both would be at one place."""
    with_files(split, ("blas_lib_gfx90a", "share/thing.dat", b"one"), (other, "share/thing.dat", b"two"))
    with pytest.raises(InvalidPrefix, match=r"share/thing\.dat"):
        build_packages(artifacts.read(split), tmp_path / "dist")


def test_a_target_without_archives_is_a_package_all_the_same(split: Path, tmp_path: Path) -> None:
    with_files(split, ("miopen_lib_gfx1030", "share/miopen/db/gfx1030.kdb", b"db"))
    found = artifacts.packages(build_packages(artifacts.read(split), tmp_path / "dist"))
    marker = found["rocm-sdk-device-gfx1030"].files["_rocm_sdk_libraries/_device_gfx1030.json"]
    assert json.loads(marker)["code"] == []


def test_a_library_for_one_target_finds_core(found: dict[str, artifacts.Package], tmp_path: Path) -> None:
    path = "lib/libMIOpenCK_conv_gfx942.so"
    library = write(tmp_path / "x.so", found["rocm-sdk-device-gfx942"].file(path))
    assert "$ORIGIN/../../_rocm_sdk_core/lib" in artifacts.rpath(library)


# devel


def test_a_directory_that_holds_other_files_is_not_overlaid_whole(split: Path, tmp_path: Path) -> None:
    with_files(split, ("blas_dev_generic", "lib/rocblas/library/readme.txt", b"devel's"))
    entries = artifacts.devel_entries(build_packages(artifacts.read(split), tmp_path / "dist"))
    assert "lib/rocblas" not in entries
    assert entries["lib/rocblas/library/readme.txt"][0] == "file"
    assert entries["lib/rocblas/library/TensileManifest.txt"][0] == "sibling"
    for target in artifacts.TARGETS:
        path = f"lib/rocblas/library/TensileLibrary_lazy_{target}.dat"
        assert entries[path] == ("overlay", f"{LIBRARIES}/{path}")


def test_devel_does_not_depend_on_which_targets_there_are(split: Path, tmp_path: Path) -> None:
    """Where device files have directories of their own."""
    before = artifacts.devel_entries(build_packages(artifacts.read(split), tmp_path / "before"))
    for path in split.glob("*_gfx942"):
        shutil.rmtree(path)
    after = artifacts.devel_entries(build_packages(artifacts.read(split), tmp_path / "after"))
    single = "lib/libMIOpenCK_conv_gfx942.so"
    assert {path: entry for path, entry in before.items() if path != single} == after


# Extras


def extras(package: artifacts.Package) -> dict[str, set[str]]:
    """Extra -> the distributions it installs on Linux, as an installer sees it."""
    here = {"sys_platform": "linux", "platform_system": "Linux"}
    found: dict[str, set[str]] = {}
    for extra in package.metadata.provides_extra or []:
        found[extra] = {
            requirement.name
            for requirement in package.metadata.requires_dist or []
            if requirement.marker is not None and requirement.marker.evaluate({**here, "extra": extra})
        }
    return found


def assert_extras_are_complete(found: dict[str, artifacts.Package]) -> None:
    """Every device wheel has an extra, every extra a wheel, and `device-all` has all of them."""
    wheels = {name for name, package in found.items() if name.startswith("rocm-sdk-device-")}
    offered = extras(found["rocm"])
    single = {extra: names for extra, names in offered.items() if extra.startswith("device-")}
    assert single.pop("device-all") == wheels
    assert single == {name.removeprefix("rocm-sdk-"): {name} for name in wheels}


def test_every_device_package_has_an_extra_and_every_extra_a_package(
    found: dict[str, artifacts.Package],
) -> None:
    assert_extras_are_complete(found)
    offered = extras(found["rocm"])
    assert set(offered) == {
        "libraries", "devel", "profiler", "device", "device-all",
        "device-gfx90a", "device-gfx942", "device-gfx1100",
    }  # fmt: skip
    assert offered["libraries"] == {"rocm-sdk-libraries"}
    assert offered["devel"] == {"rocm-sdk-devel", "rocm-sdk-libraries"}
    assert offered["profiler"] == {"rocm-profiler"}
    assert offered["device"] == {"rocm-sdk-device"}


def test_every_requirement_is_of_this_version_and_was_written(found: dict[str, artifacts.Package]) -> None:
    for package in found.values():
        for text in package.requires:
            requirement = Requirement(text)
            assert str(requirement.specifier) == "==7.11.0"
            assert requirement.name in found


def test_the_sdist_says_what_its_wheel_will_say(found: dict[str, artifacts.Package]) -> None:
    metadata = found["rocm"].metadata
    assert metadata.metadata_version == "2.2"
    # An installer takes the requirements from here, without building anything.
    assert not metadata.dynamic
    assert "rocm-sdk-core==7.11.0" in found["rocm"].requires


def test_the_set(found: dict[str, artifacts.Package]) -> None:
    facts = json.loads(found["rocm"].files["rocm_set.json"])
    assert (facts["version"], facts["mode"]) == ("7.11.0", "kpack")
    assert not {"families", "default_family"} & set(facts)
    assert facts["packages"] == {
        "core": {"distribution": "rocm-sdk-core", "module": "_rocm_sdk_core"},
        "libraries": {"distribution": "rocm-sdk-libraries", "module": "_rocm_sdk_libraries"},
        "devel": {"distribution": "rocm-sdk-devel", "module": "_rocm_sdk_devel"},
        "profiler": {"distribution": "rocm-profiler", "module": "_rocm_profiler", "platforms": ["linux"]},
        "device_refusal": {"distribution": "rocm-sdk-device"},
    }
    assert facts["devices"]["gfx90a"] == {
        "distribution": "rocm-sdk-device-gfx90a",
        "serves": ["gfx90a"],
        "platforms": ["linux"],
    }
    assert facts["known_libraries"]["rccl"] == "libraries"


# The package behind rocm[device], and the selector as a wheel


def test_asking_for_any_device_fails_and_names_the_extras(built: BuiltPackages, tmp_path: Path) -> None:
    (sdist,) = [path for path in built.paths if path.name == "rocm_sdk_device-7.11.0.tar.gz"]
    artifacts.extract(sdist, tmp_path)
    assert artifacts.package(sdist).metadata.dynamic == ["requires-dist"]
    text = "import rocm_device_backend as b; b.{}('.')"
    for hook in ("build_wheel", "prepare_metadata_for_build_wheel"):
        done = subprocess.run(
            [sys.executable, "-c", text.format(hook)],
            cwd=tmp_path / "rocm_sdk_device-7.11.0",
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin"},
        )
        assert done.returncode != 0
        for target in artifacts.TARGETS:
            assert f"device-{target}" in done.stderr
        assert not list((tmp_path / "rocm_sdk_device-7.11.0").glob("*.whl"))


@pytest.mark.parametrize("is_split", [True, False], ids=["kpack", "legacy"])
def test_the_selector_may_be_a_wheel_but_not_both(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, is_split: bool
) -> None:
    tree = artifacts.read(artifacts.artifacts(tmp_path_factory, split=is_split))
    sdist = build_packages(tree, tmp_path)
    assert [path.name for path in sdist.paths if path.name.startswith("rocm-")] == ["rocm-7.11.0.tar.gz"]
    wheel = build_packages(tree, tmp_path, Packaging(selector="wheel"))
    assert [path.name for path in tmp_path.glob("rocm-*")] == ["rocm-7.11.0-py3-none-any.whl"]
    assert [path.name for path in wheel.paths if path.name.startswith("rocm-")] == [
        "rocm-7.11.0-py3-none-any.whl"
    ]
    found = artifacts.packages(wheel)["rocm"]
    assert "rocm-sdk-core==7.11.0" in found.requires
    if is_split:
        offered = artifacts.packages(artifacts.built(tmp_path_factory, split=True))["rocm"]
        assert found.requires == offered.requires
        assert found.metadata.provides_extra == offered.metadata.provides_extra
    back = build_packages(tree, tmp_path)
    assert [path.name for path in tmp_path.glob("rocm-*")] == ["rocm-7.11.0.tar.gz"]
    assert {file.name: file.sha256 for file in back.files} == {file.name: file.sha256 for file in sdist.files}


# A prefix that was split


def split_prefix(root: Path) -> Path:
    write(root / "generic/.info/version", "7.11.0")
    write(root / "generic/lib/libamdhip64.so.7", artifacts.images()["hip"])
    write(root / "generic/lib/librocblas.so.5", artifacts.fat("librocblas.so.5", ("hip",), ("gfx942",)))
    write(root / "gfx942/lib/rocblas/library/x_gfx942.dat", b"942")
    write(root / "gfx11/lib/aotriton.images/amd-gfx11xx/a.aks2", b"11")
    write(root / "gfx1100/lib/rocblas/library/x_gfx1100.dat", b"1100")
    return root


def test_a_split_prefix_becomes_device_packages(tmp_path: Path) -> None:
    done = build_packages(read_prefix(split_prefix(tmp_path / "rocm")), tmp_path / "dist")
    found = artifacts.packages(done)
    assert done.mode == "kpack"
    assert found["rocm-sdk-device-gfx1100"].requires == [
        "rocm-sdk-libraries==7.11.0", "rocm-sdk-device-gfx11==7.11.0",
    ]  # fmt: skip
    assert found["rocm-sdk-libraries"].tree == {"lib/librocblas.so.5"}
    assert found["rocm-sdk-device-gfx942"].tree == {"lib/rocblas/library/x_gfx942.dat"}
    assert_extras_are_complete(found)


def test_what_else_lies_beside_the_targets_is_reported(tmp_path: Path) -> None:
    root = split_prefix(tmp_path / "rocm")
    write(root / "notes.txt", "x")
    write(root / "gfx90a:xnack+/lib/x.dat", "x")
    notes = build_packages(read_prefix(root), tmp_path / "dist").notes
    assert {note.partition(": n")[0] for note in notes if "neither" in note} == {"notes.txt", "gfx90a:xnack+"}


def test_device_artifacts_for_a_family_are_refused(split: Path) -> None:
    with_files(split, ("blas_lib_gfx110X-all", "lib/x.dat", b"x"))
    with pytest.raises(InvalidTarget, match="gfx110X-all is not a known GPU target"):
        artifacts.read(split)


def test_device_files_that_no_package_has_are_reported(split: Path, tmp_path: Path) -> None:
    with_files(
        split,
        ("rpp_lib_gfx942", "share/rpp/x_gfx942.dat", b"x"),
        ("prim_lib_gfx942", "share/prim/x_gfx942.dat", b"x"),
        ("blas_test_gfx942", "bin/x", b"x"),
        ("blas_dev_gfx942", "include/x_gfx942.h", b"x"),
    )
    done = build_packages(artifacts.read(split), tmp_path / "dist")
    for name in ("rpp_lib_gfx942", "prim_lib_gfx942", "blas_test_gfx942", "blas_dev_gfx942"):
        assert [note for note in done.notes if note.startswith(f"{name}: ")], name
