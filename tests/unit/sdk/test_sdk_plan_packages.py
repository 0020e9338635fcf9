"""What a release promises against what was built; the selector is the same bytes from either platform."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import artifact_trees as artifacts
import pytest
from packaging.markers import Marker

from rocwright.errors import InvalidInput, UsageError
from rocwright.model.gpu import InvalidTarget
from rocwright.sdk.build import BuiltPackages, build_packages
from rocwright.sdk.plan.packages import Expected, device_platforms, family_platforms
from rocwright.sdk.plan.release import Packaging, plan_packages
from windows_tree import windows_artifacts

BOTH, LINUX, WINDOWS = ("linux", "windows"), ("linux",), ("windows",)


# Packages of single targets


def test_without_a_promise_what_was_built_is_the_release() -> None:
    assert device_platforms(["gfx1100", "gfx942"], Expected(), here="linux") == {
        "gfx942": LINUX,
        "gfx1100": LINUX,
    }
    assert device_platforms(["gfx1100"], Expected(), here="windows") == {"gfx1100": WINDOWS}


def test_families_and_targets_may_be_promised_together() -> None:
    built = ["gfx90a", "gfx942", "gfx1100", "gfx1101", "gfx1102", "gfx1103"]
    expected = Expected(("gfx94X-dcgpu", "gfx110X-all", "gfx90a"))
    assert device_platforms(built, expected, here="linux") == dict.fromkeys(built, LINUX)


def test_a_promised_target_that_was_not_built_is_an_error() -> None:
    with pytest.raises(InvalidInput, match=r"--linux-amdgpu-families promises gfx1101 gfx1102") as caught:
        device_platforms(["gfx942", "gfx1100"], Expected(("gfx94X-dcgpu", "gfx110X-dgpu")), here="linux")
    assert "gfx942" in (caught.value.next_step or "")


def test_a_target_that_was_built_but_not_promised_is_an_error() -> None:
    with pytest.raises(InvalidInput, match=r"gfx90a.*--windows-amdgpu-families"):
        device_platforms(["gfx90a", "gfx942"], Expected(windows=("gfx942",)), here="windows")


def test_an_empty_promise_is_one() -> None:
    with pytest.raises(InvalidInput, match="gfx942"):
        device_platforms(["gfx942"], Expected(()), here="linux")


def test_an_unknown_family_is_an_error_that_names_the_known() -> None:
    for expected in (Expected(("gfx77X-all",)), Expected(windows=("gfx77X-all",))):
        with pytest.raises(InvalidTarget, match="gfx77X-all") as caught:
            device_platforms(["gfx942"], expected, here="linux")
        assert "gfx94X-dcgpu" in (caught.value.next_step or "")


def test_the_other_platform_gets_its_own_targets() -> None:
    expected = Expected(("gfx942", "gfx1100"), ("gfx1100", "gfx1201"))
    assert device_platforms(["gfx942", "gfx1100"], expected, here="linux") == {
        "gfx942": LINUX,
        "gfx1100": BOTH,
        "gfx1201": WINDOWS,
    }
    # Seen from the other one it is the same release.
    assert device_platforms(["gfx1100", "gfx1201"], expected, here="windows") == {
        "gfx942": LINUX,
        "gfx1100": BOTH,
        "gfx1201": WINDOWS,
    }


def test_a_group_is_where_a_target_of_it_is() -> None:
    expected = Expected(("gfx942", "gfx1100"), ("gfx1201",))
    assert device_platforms(["gfx942", "gfx1100", "gfx11"], expected, here="linux")["gfx11"] == LINUX
    expected = Expected(("gfx942", "gfx1100"), ("gfx1103",))
    assert device_platforms(["gfx942", "gfx1100", "gfx11"], expected, here="linux")["gfx11"] == BOTH


def test_a_group_without_a_promised_target_is_surplus() -> None:
    with pytest.raises(InvalidInput, match="gfx11"):
        device_platforms(["gfx942", "gfx11"], Expected(("gfx942",)), here="linux")


# Libraries of families


def test_families_compare_by_name() -> None:
    built = ["gfx94X-dcgpu", "gfx110X-all"]
    assert family_platforms(built, Expected(), here="linux") == {"gfx110X-all": LINUX, "gfx94X-dcgpu": LINUX}
    expected = Expected(("gfx94X-dcgpu", "gfx110X-all"), ("gfx110X-all", "gfx120X-all"))
    assert family_platforms(built, expected, here="linux") == {
        "gfx110X-all": BOTH,
        "gfx120X-all": WINDOWS,
        "gfx94X-dcgpu": LINUX,
    }


@pytest.mark.parametrize("promised", [("gfx94X-dcgpu",), ("gfx94X-dcgpu", "gfx110X-all", "gfx120X-all")])
def test_families_built_and_promised_must_be_the_same(promised: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="--linux-amdgpu-families"):
        family_platforms(["gfx94X-dcgpu", "gfx110X-all"], Expected(promised), here="linux")


def test_a_family_promised_to_the_other_platform_must_be_known() -> None:
    with pytest.raises(InvalidTarget, match="nonsense"):
        family_platforms(["gfx110X-all"], Expected(windows=("nonsense",)), here="linux")


# At the door


def families(root: Path) -> tuple[str, ...]:
    return tuple(sorted({path.name.split("_")[2] for path in root.glob("blas_lib_*")} - {"generic"}))


def linux_like_windows(tmp_path_factory: pytest.TempPathFactory, to: Path, *, split: bool) -> Path:
    """Linux artifacts whose targets or families are those of the small Windows ROCm."""
    root = artifacts.copy(artifacts.artifacts(tmp_path_factory, split=split), to)
    for path in root.glob("*_gfx*"):
        if "gfx1100" not in path.name and "gfx110X" not in path.name:
            shutil.rmtree(path)
        elif "gfx110X-dgpu" in path.name:
            path.rename(root / path.name.replace("gfx110X-dgpu", "gfx110X-all"))
    if split:
        (root / "blas_lib_gfx1101").mkdir()
        shutil.copytree(
            root / "blas_lib_gfx1100", root / "blas_lib_gfx1101", symlinks=True, dirs_exist_ok=True
        )
        for path in sorted((root / "blas_lib_gfx1101").rglob("*gfx1100*")):
            path.rename(path.with_name(path.name.replace("gfx1100", "gfx1101")))
    return root


def selector(done: BuiltPackages) -> tuple[str, str]:
    (file,) = [file for file in done.files if file.name.startswith("rocm-") and file.name.endswith(".tar.gz")]
    return file.name, file.sha256


# rocm-profiler is of Linux alone; the set names it on both platforms, or it would differ.
PROFILER: list[tuple[str, ...]] = [("profiler",), ()]


@pytest.mark.parametrize("without", PROFILER, ids=["no-profiler", "profiler"])
def test_a_split_release_has_one_selector_for_both_platforms(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, without: tuple[str, ...]
) -> None:
    linux = linux_like_windows(tmp_path_factory, tmp_path / "linux", split=True)
    windows_artifacts(tmp_path / "windows", split=True)
    promised = ("gfx1100", "gfx1101")
    packaging = Packaging(linux=promised, windows=promised, without=without)
    one = build_packages(artifacts.read(linux), tmp_path / "one", packaging)
    other = build_packages(artifacts.read(tmp_path / "windows"), tmp_path / "other", packaging)
    assert selector(one) == selector(other)
    assert [path.name for path in one.paths if "win" in path.name] == []
    assert [path.name for path in other.paths if "linux" in path.name] == []


ALL_OF_THE_FAMILY = ("gfx1100", "gfx1101", "gfx1102", "gfx1103")


def one_and_other(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, targets: tuple[str, ...], packaging: Packaging
) -> tuple[BuiltPackages, BuiltPackages]:
    """A release of one family, made on Linux with code for some targets, and on Windows."""
    linux = linux_like_windows(tmp_path_factory, tmp_path / "linux", split=False)
    library = linux / "blas_lib_gfx110X-all/math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1"
    library.unlink()
    library.write_bytes(artifacts.fat("librocblas.so.5", ("hip",), targets))
    windows_artifacts(tmp_path / "windows", split=False)
    one = build_packages(artifacts.read(linux), tmp_path / "one", packaging)
    return one, build_packages(artifacts.read(tmp_path / "windows"), tmp_path / "other", packaging)


@pytest.mark.parametrize("without", PROFILER, ids=["no-profiler", "profiler"])
def test_a_release_of_families_has_one_selector_for_both_platforms(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, without: tuple[str, ...]
) -> None:
    packaging = Packaging(linux=("gfx110X-all",), windows=("gfx110X-all",), without=without)
    one, other = one_and_other(tmp_path_factory, tmp_path, ALL_OF_THE_FAMILY, packaging)
    assert selector(one) == selector(other)


def facts(root: Path, packaging: Packaging) -> dict[str, object]:
    found = plan_packages(artifacts.read(root), packaging).facts
    decoded: dict[str, object] = json.loads(json.dumps(found))
    return decoded


def test_the_default_family_is_the_same_on_both_platforms(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Though Windows does not get the family that comes first."""
    linux = linux_like_windows(tmp_path_factory, tmp_path / "linux", split=False)
    for path in linux.glob("*_gfx110X-all"):
        path.rename(linux / path.name.replace("gfx110X-all", "gfx103X-all"))
    windows_artifacts(tmp_path / "windows", split=False)
    packaging = Packaging(linux=("gfx103X-all",), windows=("gfx110X-all",))
    one, other = facts(linux, packaging), facts(tmp_path / "windows", packaging)
    assert one["default_family"] == other["default_family"]


def test_a_target_of_windows_alone_has_an_extra_with_a_marker_and_no_wheel(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    tree = artifacts.read(artifacts.artifacts(tmp_path_factory, split=True))
    packaging = Packaging(linux=artifacts.TARGETS, windows=("gfx1100", "gfx1201"))
    done = build_packages(tree, tmp_path / "dist", packaging)
    found = artifacts.packages(done)
    assert {name for name in found if name.startswith("rocm-sdk-device-")} == {
        f"rocm-sdk-device-{target}" for target in artifacts.TARGETS
    }
    platforms = {
        name: markers(found["rocm"], f"rocm-sdk-device-{name}", f"device-{name}")
        for name in ("gfx942", "gfx1100", "gfx1201")
    }
    assert platforms == {"gfx942": {"linux"}, "gfx1100": {"linux", "win32"}, "gfx1201": {"win32"}}
    assert markers(found["rocm"], "rocm-sdk-device-gfx1201", "device-all") == {"win32"}
    assert markers(found["rocm"], "rocm-profiler", "profiler") == {"linux"}
    assert markers(found["rocm"], "rocm-sdk-core", "") == {"linux", "win32", "darwin"}


def markers(package: artifacts.Package, distribution: str, extra: str) -> set[str]:
    """Platforms on which an extra installs a distribution."""
    requirements = [r for r in package.metadata.requires_dist or [] if r.name == distribution]
    always = Marker('sys_platform != "none"')
    return {
        platform
        for platform in ("linux", "win32", "darwin")
        for requirement in requirements
        if (requirement.marker or always).evaluate({"sys_platform": platform, "extra": extra})
    }


@pytest.mark.parametrize(
    ("packaging", "match"),
    [
        (Packaging(linux=("gfx90a", "gfx942", "gfx1100", "gfx1030")), "gfx1030"),
        (Packaging(linux=("gfx90a", "gfx942")), "gfx1100"),
        (Packaging(linux=("gfx94X-dcgpu", "nonsense")), "nonsense"),
    ],
    ids=["promised-not-built", "built-not-promised", "unknown"],
)
def test_a_broken_promise_writes_nothing(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, packaging: Packaging, match: str
) -> None:
    tree = artifacts.read(artifacts.artifacts(tmp_path_factory, split=True))
    with pytest.raises(InvalidInput, match=match):
        build_packages(tree, tmp_path / "dist", packaging)
    assert not (tmp_path / "dist").exists()


def test_families_are_named_by_the_artifacts_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    tree = artifacts.read(artifacts.artifacts(tmp_path_factory, split=False))
    with pytest.raises(UsageError, match="artifacts name their families"):
        plan_packages(tree, Packaging(family="mine"))
    plan_packages(tree, Packaging(linux=tuple(artifacts.FAMILIES)))
    with pytest.raises(InvalidInput, match="--linux-amdgpu-families"):
        plan_packages(tree, Packaging(linux=("gfx94X-dcgpu",)))
