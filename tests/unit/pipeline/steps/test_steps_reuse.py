"""An earlier run's ROCm: found by its records, fetched, described as if it had been built here."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.engine.graph import Inputs
from rocwright.errors import IntegrityError, InvalidInput
from rocwright.model.plan import Rocm
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.reuse import taken_packages_step, taken_upload_step
from rocwright.pipeline.steps.testing import wheel_requirements
from rocwright.pipeline.steps.wheels import part_targets
from rocwright.sdk.build import BuiltPackages
from rocwright.store.objects.local import LocalStore
from rocwright.store.runs.upload import upload_run
from wheels import write_sdist, write_wheel


def wheel(folder: Path, project: str) -> Path:
    files = {f"{project.replace('-', '_')}/data.bin": b"x" * 1000}
    return write_wheel(folder, project, "7.1", files, tag="py3-none-linux_x86_64")


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    return RunOptions(
        workspace=Workspace(tmp_path / "work"),
        cache=tmp_path / "cache",
        targets=("gfx90a",),
        torch_ref="release/2.9",
        run_id="2",
        group="gfx90a",
        rocm=Rocm("packages", "1"),
        objects=LocalStore(tmp_path / "store"),
    )


def upload(options: RunOptions, folder: Path, *projects: str, group: str = "gfx90a") -> None:
    folder.mkdir()
    files = [write_sdist(folder, "rocm", "7.1"), *(wheel(folder, project) for project in projects)]
    upload_run(options.store, files, "1", "linux", group, "python")


def take(options: RunOptions) -> BuiltPackages:
    done = taken_packages_step(options).act(Inputs({}), lambda _: None)
    assert isinstance(done, BuiltPackages)
    return done


def test_the_same_files_lie_here_and_say_what_they_are(options: RunOptions, tmp_path: Path) -> None:
    upload(options, tmp_path / "made", "rocm-sdk-core", "rocm-sdk-libraries-gfx90a-dcgpu")
    done = take(options)
    assert (done.version, done.mode, done.family, done.targets) == (
        "7.1",
        "legacy",
        "gfx90a-dcgpu",
        ("gfx90a",),
    )
    for path in done.paths:
        assert path.read_bytes() == (tmp_path / "made" / path.name).read_bytes()
    sizes = {file.name.split("-")[0]: file.installed for file in done.files}
    assert sizes["rocm"] == 0
    assert sizes["rocm_sdk_core"] > 1000
    page = taken_upload_step(options, ()).act(Inputs({"rocm-packages": done}), lambda _: None)
    assert page.prefix == "1-linux/python/gfx90a/"
    assert not (tmp_path / "store" / "2-linux").exists(), "nothing is uploaded"


def test_packages_with_device_code_of_their_own_are_told_by_their_names(
    options: RunOptions, tmp_path: Path
) -> None:
    parts = ("rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx942", "rocm-sdk-device-gfx90a")
    upload(options, tmp_path / "made", *parts)
    done = take(options)
    assert (done.mode, done.family, done.targets) == ("kpack", "multi-arch", ("gfx90a", "gfx942"))


def test_a_run_without_rocm_says_what_it_has(options: RunOptions, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="run 1 has no ROCm packages") as none:
        take(options)
    assert "no packages at all" in str(none.value)
    upload(options, tmp_path / "made", "rocm-sdk-core", group="gfx942")
    with pytest.raises(InvalidInput, match="run 1 has no ROCm packages") as other:
        take(options)
    assert "packages of: gfx942" in str(other.value)


def test_a_package_that_was_changed_in_the_store_is_refused(options: RunOptions, tmp_path: Path) -> None:
    upload(options, tmp_path / "made", "rocm-sdk-core")
    (stored,) = (tmp_path / "store").glob("1-linux/python/gfx90a/rocm_sdk_core*.whl")
    data = bytearray(stored.read_bytes())
    stored.unlink()
    data[100] ^= 1
    stored.write_bytes(data)
    with pytest.raises(IntegrityError, match="was recorded"):
        take(options)


def test_device_code_is_installed_with_the_wheels_that_have_it_apart() -> None:
    files = [
        "torch-2.9.0+rocm7.1-cp312-cp312-linux_x86_64.whl",
        "amd_torch_device_gfx942-2.9.0+rocm7.1-cp312-cp312-linux_x86_64.whl",
        "triton-3.5.0+rocm7.1-cp312-cp312-linux_x86_64.whl",
    ]
    assert wheel_requirements(files, ("triton", "torch")) == (
        "triton==3.5.0+rocm7.1",
        "torch[device-all]==2.9.0+rocm7.1",
    )


def test_a_part_is_known_by_the_id_of_its_cell() -> None:
    assert part_targets("build-torch/linux/cp312/release-2.9/all/gfx906+gfx90a") == ("gfx906", "gfx90a")
