"""What the doctor finds in environments: each finding where it belongs, and none where it does not.

The environments are real ones of this Python, made by hand, with distributions as installers leave them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rocwright.compat.doctor.environment import active_python, find_python, gather_environment
from rocwright.compat.doctor.facts import Machine
from rocwright.compat.doctor.kinds import KINDS
from rocwright.compat.doctor.run import diagnose, judge, make_case
from rocwright.compat.doctor.values import Diagnosis, Finding
from rocwright.data import load_table
from rocwright.errors import MissingTool, UsageError
from rocwright.model.doctor import DoctorTable
from rocwright.model.manifest import FileEntry, SetManifest, new_set
from unit.compat.doctor_desk import (
    MI210,
    RADEON_6900,
    RADEON_7900,
    Room,
    Tree,
    bad,
    of,
    one,
    write,
)

HERE = f"3.{sys.version_info[1]}"
INDEX = "--index-url https://packages.example.org/"


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path / "venv")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "root")


def visit(room: Room, tree: Tree | None = None, **more: object) -> Diagnosis:
    given = {"environ": {}, "index": "https://packages.example.org/", "work_dir": Path("/"), **more}
    return diagnose(
        root=tree.root if tree else room.root / "nowhere",
        python=room.python,
        which=lambda name: f"/usr/bin/{name}",
        **given,  # type: ignore[arg-type]
    )


def pip(room: Room, verb: str = "install") -> str:
    """The hand-made environment has no pip, as uv leaves it."""
    return f"uv pip {verb} --python {room.python}"


def test_an_environment_in_order(room: Room, tree: Tree) -> None:
    room.rocm(devices=["gfx90a"], offered=["gfx90a", "gfx942"])
    room.torch(requires=["rocm[libraries]==7.10.0"])
    found = visit(room, tree.gpu(MI210))
    assert bad(found) == {}
    assert found.environment is not None
    assert found.environment.torch == "rocm"
    assert [(item.name, item.version, item.whose) for item in found.environment.installed] == [
        ("rocm", "7.10.0", None),
        ("rocm-sdk-core", "7.10.0", None),
        ("rocm-sdk-device-gfx90a", "7.10.0", None),
        ("rocm-sdk-libraries", "7.10.0", None),
        ("torch", "2.9.0+rocm7.10.0", None),
    ]
    assert one(found, "device-code").detail == "rocm: device code for gfx90a"
    assert {item.id for item in found.findings} <= {kind.id for kind in KINDS}


# --- torch


def test_no_torch(room: Room) -> None:
    item = one(visit(room), "torch")
    assert (item.verdict, item.detail) == ("missing", f"no torch in {room.root}")
    assert item.next_step == f"{pip(room)} {INDEX} torch"


@pytest.mark.parametrize(
    ("version", "cuda", "built", "kind"),
    [("2.9.0+cu128", "12.8", "CUDA 12.8", "cuda"), ("2.9.0+cpu", None, "the CPU only", "cpu")],
)
def test_pypis_torch_is_not_one_for_rocm(
    room: Room, version: str, cuda: str | None, built: str, kind: str
) -> None:
    room.torch(version, hip=None, cuda=cuda)
    found = visit(room)
    item = one(found, "torch")
    assert item.verdict == "wrong" and f"torch {version} is built for {built}" in item.detail
    assert item.next_step == f"{pip(room)} {INDEX} --reinstall torch"
    assert found.environment is not None and found.environment.torch == kind


def test_a_torch_whose_files_are_gone(room: Room) -> None:
    room.torch()
    shutil.rmtree(room.site / "torch")
    item = one(visit(room), "torch")
    assert "its package torch/ is gone" in item.detail
    assert item.next_step == f'{pip(room)} {INDEX} --reinstall --no-deps "torch==2.9.0+rocm7.10.0"'.replace(
        '"', ""
    )


def test_a_torch_that_is_imported_from_its_sources(room: Room) -> None:
    room.torch(more={"direct_url.json": '{"url": "file:///src/pytorch", "dir_info": {"editable": true}}'})
    shutil.rmtree(room.site / "torch")
    item = one(visit(room), "torch")
    assert item.verdict == "note" and "from its sources (file:///src/pytorch)" in item.detail


def test_version_py_is_read_and_not_run(room: Room, tmp_path: Path) -> None:
    room.torch()
    for name in ("__init__.py", "version.py"):
        path = room.site / "torch" / name
        path.write_text(path.read_text() + f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    visit(room)
    assert not (tmp_path / "ran").exists()


def test_a_torch_on_pythonpath_is_in_front(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.torch()
    write(tmp_path / "other/torch/__init__.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    item = one(visit(room), "shadowed")
    assert item.verdict == "wrong" and str(tmp_path / "other") in item.detail
    assert item.next_step == "unset PYTHONPATH"


def test_a_pythonpath_without_torch_shadows_nothing(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.torch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert of(visit(room), "shadowed") == []


# --- Python and tags


def test_a_python_that_wheels_are_made_for(room: Room) -> None:
    assert one(visit(room), "python").verdict == "ok"


def test_a_wheel_for_another_python(room: Room) -> None:
    room.torch(tag="cp39-cp39-linux_x86_64")
    item = one(visit(room), "tags")
    assert item.verdict == "wrong"
    assert f"is a wheel for cp39-cp39-linux_x86_64, this is Python {HERE}" in item.detail
    assert item.next_step == "uv venv --python 3.9 NEW, and install there"


def test_a_wheel_for_another_machine(room: Room) -> None:
    room.torch(tag="py3-none-manylinux_2_28_s390x")
    assert "is a wheel for manylinux_2_28_s390x, this machine is" in one(visit(room), "tags").detail


def test_a_wheel_for_a_newer_glibc(room: Room) -> None:
    import platform

    room.torch(tag=f"py3-none-manylinux_2_99_{platform.machine()}")
    assert "needs glibc 2.99, this system has" in one(visit(room), "tags").detail


def test_wheels_that_fit_here_are_not_told_of(room: Room) -> None:
    import platform

    room.torch(tag=f"cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-manylinux_2_17_{platform.machine()}")
    room.install("triton", "3.5.0", tag=f"py3-none-linux_{platform.machine()}")
    assert of(visit(room), "tags") == []


def changed(room: Room, **facts: object) -> list[Finding]:
    """What the rules about Python say of this environment, were it another one."""
    table = load_table("doctor", DoctorTable)
    machine = Machine(system="linux", nodes="/x", driver_listed=False)
    environment = msgspec.structs.replace(gather_environment(room.python, table), **facts)
    return [item for item in judge(make_case(machine, table, environment)) if item.id in ("python", "tags")]


@pytest.mark.parametrize(
    ("facts", "part"),
    [
        (
            {"version": "3.9", "full": "3.9.2"},
            "Python 3.9.2: wheels are made for 3.10, 3.11, 3.12, 3.13, 3.14",
        ),
        ({"version": "3.13t", "full": "3.13.1"}, "Python 3.13.1 (free-threaded): wheels are made for"),
        ({"implementation": "pypy"}, "is pypy; wheels are made for CPython"),
    ],
)
def test_pythons_that_no_wheels_are_made_for(room: Room, facts: dict[str, object], part: str) -> None:
    (item,) = changed(room, **facts)
    assert item.verdict == "wrong" and part in item.detail
    assert item.next_step == "uv venv --python 3.13 NEW, and install there"


@pytest.mark.parametrize(
    ("tag", "facts", "part"),
    [
        (
            "manylinux_2_28_x86_64",
            {"libc": "musl"},
            "is a wheel for glibc (manylinux_2_28_x86_64), this system has musl",
        ),
        ("manylinux_2_28_x86_64", {"libc_version": "2.17"}, "needs glibc 2.28, this system has 2.17"),
        ("manylinux2014_x86_64.manylinux_2_28_x86_64", {"libc_version": "2.12"}, "needs glibc 2.17"),
        ("manylinux_2_28_x86_64", {"libc_version": "2.28"}, ""),
        ("manylinux2014_x86_64.manylinux_2_28_x86_64", {"libc_version": "2.17"}, ""),
        ("musllinux_1_2_x86_64", {"libc": "musl"}, ""),
        ("linux_x86_64", {"libc_version": "2.5"}, ""),
        ("manylinux_2_28_x86_64", {"machine": "aarch64"}, "this machine is aarch64"),
        ("win_amd64", {}, "this is Python 3."),
    ],
)
def test_wheels_and_systems(room: Room, tag: str, facts: dict[str, object], part: str) -> None:
    text = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.split("."))
    (room.torch() / "WHEEL").write_text(text)
    found = [item for item in changed(room, **{"machine": "x86_64", **facts}) if item.id == "tags"]
    assert [part in item.detail for item in found] == ([True] if part else [])


# --- distributions among each other


def test_torch_pins_a_rocm_that_is_not_installed(room: Room) -> None:
    room.torch(requires=["rocm[libraries]==7.10.0", "filelock"])
    first, second = of(visit(room), "requirements")
    assert first.detail == "torch 2.9.0+rocm7.10.0 requires rocm[libraries]==7.10.0; rocm is not installed"
    assert first.next_step == f'{pip(room)} {INDEX} "rocm[libraries]==7.10.0"'
    assert (second.verdict, second.about) == ("missing", "torch filelock")


def test_torch_pins_another_rocm(room: Room) -> None:
    room.rocm("7.9.0")
    room.torch(requires=["rocm[libraries]==7.10.0"])
    found = visit(room)
    item = one(found, "requirements")
    assert (item.verdict, item.detail.partition("; ")[2]) == ("wrong", "rocm is 7.9.0")
    assert "torch 2.9.0+rocm7.10.0 is built for ROCm 7.10.0" in one(found, "mixed").detail


def test_an_extra_that_torch_asks_for_is_followed(room: Room) -> None:
    room.rocm()
    room.torch(requires=["rocm[libraries]==7.10.0"])
    for path in room.site.glob("*rocm_sdk_libraries*"):
        shutil.rmtree(path)
    item = one(visit(room), "requirements")
    assert item.detail.endswith("requires rocm-sdk-libraries==7.10.0; rocm-sdk-libraries is not installed")


def test_extras_that_nobody_asks_for_and_markers_of_other_systems_are_not_missed(room: Room) -> None:
    room.torch(requires=["rocm ; extra == 'device-x'", "pywin32 ; sys_platform == 'win32'", "?? broken"])
    assert one(visit(room), "requirements").verdict == "ok"


def test_a_leaf_without_its_parent(room: Room) -> None:
    """torch's device package for one target needs the one of its group."""
    room.torch(extras=["device-gfx1100"], requires=["amd-torch-device-gfx1100 ; extra == 'device-gfx1100'"])
    room.install("amd-torch-device-gfx1100", "2.9.0+rocm7.10.0", requires=["amd-torch-device-gfx11"])
    item = one(visit(room), "requirements")
    assert item.about == "amd-torch-device-gfx1100 amd-torch-device-gfx11"


def test_rocms_packages_of_two_versions(room: Room) -> None:
    room.rocm("7.10.0")
    shutil.rmtree(room.site / "rocm_sdk_libraries-7.10.0.dist-info")
    room.install("rocm-sdk-libraries", "7.11.0", {"_rocm_sdk_libraries/lib/librocblas.so.5": "blas"})
    item = one(visit(room), "mixed")
    assert item.detail == "rocm-sdk-libraries 7.11.0: the others are ROCm 7.10.0"
    assert item.next_step == f"{pip(room)} {INDEX} rocm-sdk-libraries==7.10.0"


@pytest.mark.parametrize(
    ("version", "part"),
    [
        ("0.24.0+rocm7.9.0", "is built for ROCm 7.9.0, the rest here for 7.10.0"),
        ("0.24.0", "names no ROCm: it is PyPI's"),
        ("0.24.0+cu128", "names no ROCm: it is PyPI's"),
    ],
)
def test_a_torchvision_of_another_build(room: Room, version: str, part: str) -> None:
    room.torch()
    room.install("torchvision", version)
    item = one(visit(room), "mixed")
    assert part in item.detail
    assert item.next_step == (
        f"{pip(room, 'uninstall')} torchvision && {pip(room)} {INDEX} torchvision torch==2.9.0+rocm7.10.0"
    )


@pytest.mark.parametrize(
    ("torch", "rocm", "vision"),
    [
        ("2.9.0+rocm7.10.0", "7.10.0", "0.24.0+rocm7.10.0"),
        ("2.9.0+devrocm7.10.0.dev0-efed3c", "7.10.0.dev0+efed3c", "0.24.0+devrocm7.10.0.dev0.efed3c"),
        ("2.9.0+rocm7.10.0.git8fc9aa", "7.10.0", "0.24.0+rocm7.10.0.git12ab34"),
        ("2.9.0+git12345678.rocm7.10.0a20251124", "7.10.0a20251124", "0.24.0a0+ab12cd3"),
    ],
)
def test_a_family_of_one_build(room: Room, torch: str, rocm: str, vision: str) -> None:
    room.rocm(rocm)
    room.torch(torch)
    room.install("torchvision", vision)
    assert of(visit(room), "mixed") == []


def test_one_project_twice(room: Room) -> None:
    """What `pip install --ignore-installed` leaves: two dist-infos, and files of the later one."""
    room.torch()
    room.torch("2.10.0+cu128", hip=None, cuda="12.8")
    found = visit(room)
    item = one(found, "duplicate")
    assert item.verdict == "wrong" and "2.10.0+cu128, 2.9.0+rocm7.10.0" in item.detail
    again = pip(room, "uninstall") + " torch"
    assert item.next_step == f"{again} && {again} && {pip(room)} {INDEX} torch==2.9.0+rocm7.10.0"
    assert one(found, "torch").detail.startswith("torch 2.10.0+cu128 is built for CUDA 12.8")
    # Both own the same files: that is told once.
    assert of(found, "overlap") == []


def test_two_projects_with_one_file(room: Room) -> None:
    room.install("triton", "3.5.0", {"triton/__init__.py": ""})
    room.install("pytorch-triton-rocm", "3.4.0", {"triton/__init__.py": ""})
    item = one(visit(room), "overlap")
    assert "pytorch-triton-rocm and triton both claim" in item.detail and "triton/__init__.py" in item.detail


def test_metadata_that_cannot_be_read(room: Room) -> None:
    write(room.site / "broken-1.0.dist-info/METADATA", "Metadata-Version: 2.1\n")
    item = one(visit(room), "unreadable")
    assert item.verdict == "wrong" and "broken-1.0.dist-info" in item.detail
    assert item.next_step.startswith(f"rm -r {room.site}/broken-1.0.dist-info")


def test_what_a_broken_off_installation_left(room: Room) -> None:
    """pip renames what it removes, `torch` to `~orch`, and may be stopped there."""
    room.torch()
    shutil.copytree(room.site / "torch-2.9.0+rocm7.10.0.dist-info", room.site / "~orch-2.9.0.dist-info")
    found = visit(room)
    assert of(found, "duplicate") == []
    item = one(found, "unreadable")
    assert "~orch-2.9.0.dist-info: an installation that was broken off left it" in item.detail
    assert item.next_step.startswith(f"rm -r '{room.site}/~orch-2.9.0.dist-info'")


def test_markers_of_device_packages_may_be_damaged(room: Room) -> None:
    room.rocm(devices=["gfx90a"], offered=["gfx90a"])
    folder = room.site / "_rocm_sdk_libraries"
    write(folder / "_device_gfx1.json", '{"serves": ["no target", 7]}')
    write(folder / "_device_gfx2.json", '{"serves": 7}')
    write(folder / "_device_gfx3.json", "{")
    assert bad(visit(room, index="")) == {"torch": f"no torch in {room.root}"}


# --- device code


def test_a_gpu_without_its_device_package(room: Room, tree: Tree) -> None:
    room.rocm(devices=["gfx90a"], offered=["gfx90a", "gfx1100"])
    item = one(visit(room, tree.gpu(RADEON_7900)), "device-code")
    assert item.verdict == "missing"
    assert item.detail == ("rocm 7.10.0 has no device code for GPU 0 (gfx1100); installed is that for gfx90a")
    assert item.next_step == f'{pip(room)} {INDEX} "rocm[device-gfx1100]==7.10.0"'


def test_a_gpu_that_the_release_does_not_serve_is_told_its_nearest(room: Room, tree: Tree) -> None:
    room.rocm(offered=["gfx90a", "gfx1030", "gfx1032", "gfx1100"])
    item = one(visit(room, tree.gpu(RADEON_6900 + 1)), "device-code")
    assert "no device code for GPU 0 (gfx1031) at all" in item.detail
    assert item.detail.endswith("the nearest it has: gfx1030, gfx1032")


def test_each_gpu_and_each_part_is_judged(room: Room, tree: Tree) -> None:
    room.rocm(devices=["gfx90a"], offered=["gfx90a", "gfx1100"])
    needs = [
        f"amd-torch-device-{word}==2.9.0+rocm7.10.0 ; extra == 'device-{word}'"
        for word in ("gfx90a", "gfx1100")
    ]
    room.torch(extras=["device-gfx90a", "device-gfx1100", "device-all"], requires=needs)
    found = of(visit(room, tree.gpu(MI210, 1).gpu(RADEON_7900, 2)), "device-code")
    assert sorted(item.about for item in found) == ["rocm gfx1100", "torch gfx1100", "torch gfx90a"]
    assert "GPU 1 (gfx1100)" in next(item.detail for item in found if item.about == "rocm gfx1100")


def test_a_group_alone_serves_no_gpu(room: Room, tree: Tree) -> None:
    needs = [f"amd-torch-device-{word} ; extra == 'device-{word}'" for word in ("gfx11", "gfx1100")]
    room.torch(extras=["device-gfx11", "device-gfx1100"], requires=needs)
    room.install("amd-torch-device-gfx11", "2.9.0+rocm7.10.0")
    item = one(visit(room, tree.gpu(RADEON_7900)), "device-code")
    assert item.next_step.endswith('"torch[device-gfx1100]==2.9.0+rocm7.10.0"')


def test_an_override_decides_which_code_is_needed(room: Room, tree: Tree) -> None:
    room.rocm(devices=["gfx1030"], offered=["gfx1030"])
    tree.gpu(RADEON_6900 + 1)
    assert one(visit(room, tree), "device-code").verdict == "missing"
    taken = visit(room, tree, environ={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    assert one(taken, "device-code").verdict == "ok"
    assert one(taken, "override").verdict == "wrong"


def test_libraries_for_another_family(room: Room, tree: Tree) -> None:
    """Legacy packages: the device code is inside, and the package says for which targets."""
    files = {"_rocm_sdk_libraries_gfx94X_dcgpu/__init__.py": 'TARGETS = ("gfx942:xnack-",)\n'}
    room.install("rocm-sdk-libraries-gfx94X-dcgpu", "7.10.0", files)
    room.install("rocm", "7.10.0")
    item = one(visit(room, tree.gpu(RADEON_7900)), "device-code")
    assert "has device code for gfx942, not for GPU 0 (gfx1100)" in item.detail
    assert item.next_step.startswith("ROCM_SDK_TARGET_FAMILY=gfx110X-all uv pip install")


def test_without_a_gpu_nothing_is_said_about_device_code(room: Room) -> None:
    room.rocm(devices=[], offered=["gfx90a"])
    assert of(visit(room), "device-code") == []


# --- files


def test_a_file_that_is_gone_and_one_that_was_changed(room: Room) -> None:
    room.rocm()
    (room.site / "_rocm_sdk_core/lib/libamdhip64.so.7").unlink()
    (room.site / "_rocm_sdk_libraries/lib/librocblas.so.5").write_text("another")
    gone, changed = sorted(of(visit(room), "files"), key=lambda item: item.about)
    assert (gone.verdict, changed.verdict) == ("missing", "wrong")
    assert gone.detail == "rocm-sdk-core 7.10.0: _rocm_sdk_core/lib/libamdhip64.so.7 is missing"
    assert gone.next_step == f"{pip(room)} {INDEX} --reinstall --no-deps rocm-sdk-core==7.10.0"
    assert changed.detail == "rocm-sdk-libraries 7.10.0: _rocm_sdk_libraries/lib/librocblas.so.5 is changed"


def test_a_change_that_keeps_the_size_is_found_by_reading(room: Room) -> None:
    room.rocm()
    (room.site / "_rocm_sdk_core/lib/libamdhip64.so.7").write_text("HIP")
    assert one(visit(room), "files").verdict == "ok"
    assert "libamdhip64.so.7 is changed" in one(visit(room, deep=True), "files").detail


def test_what_was_installed_from_a_file_is_mended_from_it(room: Room) -> None:
    url = '{"url": "file:///wheels/torch-2.9.0.whl", "archive_info": {"hashes": {"sha256": "00"}}}'
    room.torch(more={"direct_url.json": url})
    (room.site / "torch/lib/libtorch_hip.so").unlink()
    assert one(visit(room), "files").next_step == (
        f"{pip(room)} --reinstall --no-deps file:///wheels/torch-2.9.0.whl"
    )


def test_a_distribution_without_record_is_noted(room: Room) -> None:
    (room.torch() / "RECORD").unlink()
    first, second = of(visit(room), "files")
    assert first.verdict == "note" and "has no RECORD" in first.detail
    assert second.verdict == "ok"


@pytest.mark.parametrize(
    ("installer", "command"),
    [
        ("debian", "sudo apt-get install --reinstall python3-torch"),
        ("conda", "conda install --prefix {prefix} --force-reinstall torch"),
    ],
)
def test_other_package_managers_mend_what_they_installed(room: Room, installer: str, command: str) -> None:
    room.torch(more={"INSTALLER": installer})
    (room.site / "torch/lib/libtorch_hip.so").unlink()
    assert one(visit(room), "files").next_step == command.format(prefix=room.root)


def test_pip_is_used_where_the_environment_has_it(room: Room) -> None:
    write(room.site / "pip/__init__.py")
    room.torch()
    (room.site / "torch/lib/libtorch_hip.so").unlink()
    assert one(visit(room), "files").next_step == (
        f"{room.python} -m pip install {INDEX} --force-reinstall --no-deps torch==2.9.0+rocm7.10.0"
    )


# --- libraries


def test_two_rocms_in_one_environment(room: Room) -> None:
    room.rocm()
    room.torch(files={"torch/lib/libamdhip64.so": "bundled"})
    item = one(visit(room), "two-rocms")
    assert (
        "rocm-sdk-core (_rocm_sdk_core/lib/libamdhip64.so.7), torch (torch/lib/libamdhip64.so)" in item.detail
    )
    assert item.next_step == f"{pip(room, 'uninstall')} rocm rocm-sdk-core rocm-sdk-libraries"


def test_one_rocm_is_none_too_many(room: Room) -> None:
    room.rocm()
    room.torch()
    assert of(visit(room), "two-rocms") == []


def test_library_path_with_a_copy(room: Room, tree: Tree, tmp_path: Path) -> None:
    room.rocm()
    write(tree.root / "opt/rocm/lib/libamdhip64.so.7")
    found = visit(room, tree, environ={"LD_LIBRARY_PATH": f"/opt/rocm/lib:{tmp_path}/none"})
    item = one(found, "foreign-libraries")
    assert item.verdict == "wrong"
    assert item.detail == (
        "LD_LIBRARY_PATH leads to /opt/rocm/lib, which has its own libamdhip64.so.7: "
        "it may be loaded instead of the environment's"
    )
    assert item.next_step == "unset LD_LIBRARY_PATH"


def test_library_path_with_other_libraries_of_rocm_is_noted(room: Room, tree: Tree) -> None:
    room.rocm()
    write(tree.root / "opt/rocm/lib/libamdhip64.so.6")
    found = visit(room, tree, environ={"LD_LIBRARY_PATH": "/opt/rocm/lib"})
    assert one(found, "foreign-libraries").verdict == "note"


@pytest.mark.parametrize("variable", ["", "/usr/share/elsewhere", "{room}/lib/x"])
def test_library_path_that_does_no_harm(room: Room, tree: Tree, variable: str) -> None:
    room.rocm()
    write(room.root / "lib/x/libamdhip64.so.7")
    given = variable.format(room=room.root)
    found = visit(room, tree, environ={"LD_LIBRARY_PATH": given} if given else {})
    assert one(found, "foreign-libraries").verdict == "ok"


def test_a_preloaded_copy(room: Room, tree: Tree) -> None:
    room.rocm()
    found = visit(
        room, tree, environ={"LD_PRELOAD": "/opt/rocm/lib/libamdhip64.so.7 /usr/lib/libjemalloc.so.2"}
    )
    item = one(found, "foreign-libraries")
    assert (item.verdict, item.next_step) == ("wrong", "unset LD_PRELOAD")


def test_the_loaders_configuration(room: Room, tree: Tree) -> None:
    room.rocm()
    write(tree.root / "etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\ninclude /etc/ld.so.conf\n")
    write(tree.root / "etc/ld.so.conf.d/rocm.conf", "# ROCm\n/opt/rocm/lib\n/usr/lib/x86_64-linux-gnu\n")
    write(tree.root / "opt/rocm/lib/libamdhip64.so.7")
    write(tree.root / "usr/lib/x86_64-linux-gnu/libamdhip64.so.7")
    item = one(visit(room, tree), "foreign-libraries")
    assert item.verdict == "note" and "names /opt/rocm/lib" in item.detail
    assert item.next_step == "grep -l /opt/rocm/lib /etc/ld.so.conf.d/* | xargs sudo rm; sudo ldconfig"


def library(path: Path, *, needs: str, soname: str = "") -> None:
    """A library that needs another one, linked by gcc against an empty stand-in."""
    stand_in = path.parent / "stand-in" / needs
    stand_in.parent.mkdir(parents=True, exist_ok=True)
    link = ["gcc", "-shared", "-x", "c", "/dev/null", "-nostdlib", "-Wl,--no-as-needed"]
    subprocess.run([*link, f"-Wl,-soname,{needs}", "-o", stand_in], check=True)
    named = [f"-Wl,-soname,{soname}"] if soname else []
    subprocess.run([*link, *named, "-o", path, "-x", "none", stand_in], check=True)
    shutil.rmtree(stand_in.parent)


def with_record(room: Room, name: str, version: str, paths: list[str]) -> None:
    """A distribution with these files, whatever is in them."""
    info = room.install(name, version)
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in paths))


def test_a_library_of_rocm_that_nobody_has(room: Room) -> None:
    room.torch(requires=["rocm[libraries]==7.10.0"])
    library(room.site / "torch/lib/libtorch_hip.so", needs="librocblas.so.5")
    item = one(visit(room), "needed")
    assert item.verdict == "missing"
    assert item.detail == "librocblas.so.5 is nowhere; torch needs it (torch/lib/libtorch_hip.so)"
    assert item.next_step == f'{pip(room)} {INDEX} "rocm[libraries]==7.10.0"'


def test_a_library_of_the_system_that_is_not_installed(room: Room, tree: Tree) -> None:
    """A tool's own need is noted; torch's would stop it."""
    (room.site / "_rocm_sdk_core").mkdir()
    library(room.site / "_rocm_sdk_core/libroctool.so", needs="libnuma.so.1")
    with_record(room, "rocm-sdk-core", "7.10.0", ["_rocm_sdk_core/libroctool.so"])
    item = one(visit(room, tree), "needed")
    assert (item.verdict, item.next_step) == ("note", "apt-get install libnuma1")
    write(tree.root / "usr/lib/x86_64-linux-gnu/libnuma.so.1")
    assert of(visit(room, tree), "needed") == []


def test_a_library_under_its_soname_in_another_distribution(room: Room, tree: Tree) -> None:
    room.torch()
    library(room.site / "torch/lib/libtorch_hip.so", needs="libamdhip64.so.7")
    (room.site / "_rocm_sdk_core").mkdir()
    own = room.site / "_rocm_sdk_core/libamdhip64.so.7.1"
    library(own, needs="libc.so.6", soname="libamdhip64.so.7")
    with_record(room, "rocm-sdk-core", "7.10.0", ["_rocm_sdk_core/libamdhip64.so.7.1"])
    assert of(visit(room, tree), "needed") == []


# --- a set


def manifest(*entries: FileEntry) -> SetManifest:
    return new_set(family="gfx90X", targets=["gfx90a"], platform="linux", files=entries, sources={})


def entry(
    project: str,
    version: str,
    *,
    tag: str = "py3-none-any",
    sha256: str = "0" * 64,
    metadata: str | None = "1" * 64,
) -> FileEntry:
    name = f"{project.replace('-', '_')}-{version}-{tag}.whl"
    return FileEntry(name, sha256, 1, project, version, metadata_sha256=metadata)


def test_every_distribution_is_compared_with_the_set(room: Room) -> None:
    info = room.torch("2.9.0+ROCm7.10.0")
    own = hashlib.sha256((info / "METADATA").read_bytes()).hexdigest()
    room.install("torchvision", "0.24.0")
    room.install("triton", "3.5.0")
    room.install("apex", "1.0")
    given = manifest(
        # METADATA may spell a version in another way than indexes do.
        entry("torch", "2.9.0+rocm7.10.0", metadata=own),
        entry("torchvision", "0.24.0+rocm7.10.0"),
        entry("triton", "3.5.0"),
    )
    found = visit(room, manifest=given)
    assert {item.about: (item.verdict, item.detail.rpartition(": ")[2]) for item in of(found, "set")} == {
        "torch": ("ok", "its METADATA is the set's"),
        "torchvision": ("wrong", "the set has 0.24.0+rocm7.10.0"),
        "triton": ("wrong", "another build"),
        "apex": ("note", "the set has no such project"),
    }
    assert found.environment is not None
    whose = {item.name: item.whose for item in found.environment.installed}
    assert whose == {"torch": "set", "torchvision": "other", "triton": "other", "apex": "unknown"}
    step = next(item.next_step for item in of(found, "set") if item.about == "torchvision")
    assert step == f"{pip(room)} {INDEX} --reinstall --no-deps torchvision==0.24.0+rocm7.10.0"


@pytest.mark.parametrize(("digest", "verdict"), [("a" * 64, "ok"), ("b" * 64, "wrong")])
def test_the_digest_of_the_file_that_was_installed_decides(room: Room, digest: str, verdict: str) -> None:
    url = f'{{"url": "https://x.example/t.whl", "archive_info": {{"hash": "sha256={digest}"}}}}'
    room.torch(more={"direct_url.json": url})
    found = visit(room, manifest=manifest(entry("torch", "2.9.0+rocm7.10.0", sha256="a" * 64)))
    assert one(found, "set").verdict == verdict


def test_of_an_sdist_the_version_is_all_there_is(room: Room) -> None:
    room.install("rocm", "7.10.0")
    found = visit(room, manifest=manifest(entry("rocm", "7.10.0", metadata=None)))
    assert one(found, "set").verdict == "ok" and "an sdist" in one(found, "set").detail


def test_a_set_without_torch_for_this_python(room: Room) -> None:
    found = visit(room, manifest=manifest(entry("torch", "2.9.0", tag="cp39-cp39-linux_x86_64")))
    item = one(found, "python")
    assert item.verdict == "wrong" and "the set has no torch for it, but 3.9" in item.detail


def test_without_a_set_nothing_is_compared(room: Room) -> None:
    room.torch()
    assert of(visit(room), "set") == []


# --- importing


def failing(room: Room, body: str, **more: object) -> Diagnosis:
    room.torch()
    (room.site / "torch/__init__.py").write_text(body)
    return visit(room, import_=True, **more)


def test_torch_is_imported_only_when_asked(room: Room) -> None:
    room.torch()
    assert of(visit(room), "import") == []
    (room.site / "torch/__init__.py").write_text("from torch.version import __version__\n")
    assert one(visit(room, import_=True), "import").detail == "torch 2.9.0+rocm7.10.0 can be imported"


# What glibc's loader and Python say, word for word.
SAID = {
    "OSError('libamdhip64.so.7: cannot open shared object file: No such file or directory')": (
        "the library libamdhip64.so.7 is missing; rocm-sdk-core has it",
        "rocm-sdk-core",
    ),
    "ImportError('librocblas.so.5: cannot open shared object file: No such file or directory')": (
        "the library librocblas.so.5 is missing; rocm-sdk-libraries has it",
        '"rocm[libraries]==7.10.0"',
    ),
    "ImportError('libomp.so.5: cannot open shared object file: No such file or directory')": (
        "the library libomp.so.5 is missing from this system",
        "apt-get install libomp5",
    ),
    "ImportError('/x/libtorch_hip.so: file too short')": (
        "the library /x/libtorch_hip.so is damaged, or for another machine: file too short",
        "--no-deps torch==2.9.0+rocm7.10.0",
    ),
    """ImportError("/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x/libtorch.so)")""": (
        "/lib/libc.so.6 of this system is too old: it has no GLIBC_2.38, which /x/libtorch.so needs",
        "use a newer distribution, or wheels for an older one (manylinux_2_28)",
    ),
    "ImportError('/x/libtorch_hip.so: undefined symbol: hipFoo')": (
        "/x/libtorch_hip.so needs hipFoo, which no library that was loaded has: "
        "copies of two versions are mixed",
        "--no-deps torch==2.9.0+rocm7.10.0",
    ),
    "ModuleNotFoundError(\"No module named 'typing_extensions'\", name='typing_extensions')": (
        "torch needs the Python module typing_extensions, which is not installed",
        "typing-extensions",
    ),
    "ModuleNotFoundError(\"No module named 'rocm_sdk'\", name='rocm_sdk')": (
        "torch needs the Python module rocm_sdk, which is not installed",
        " rocm",
    ),
    "RuntimeError('this program was built for ROCm 7.10.*, but ROCm 7.9.0 is installed as Python pack…')": (
        "torch was built for ROCm 7.10.*, installed is ROCm 7.9.0",
        '"rocm[libraries]==7.10.*"',
    ),
    "RuntimeError('what nobody thought of')": (
        "torch cannot be imported: RuntimeError: what nobody thought of",
        "-X faulthandler -c 'import torch'",
    ),
}


@pytest.mark.parametrize("raised", SAID)
def test_a_torch_that_cannot_be_imported_is_explained(room: Room, raised: str) -> None:
    cause, step = SAID[raised]
    room.torch(requires=["rocm[libraries]==7.10.0"])
    (room.site / "torch/__init__.py").write_text(f"raise {raised}\n")
    item = one(visit(room, import_=True), "import")
    assert (item.verdict, item.detail) == ("wrong", cause)
    assert item.next_step.endswith(step)


def test_a_library_that_a_package_had_is_mended_by_that_package(room: Room) -> None:
    room.rocm()
    (room.site / "_rocm_sdk_core/lib/libamdhip64.so.7").unlink()
    said = "libamdhip64.so.7: cannot open shared object file: No such file or directory"
    item = one(failing(room, f"raise OSError({said!r})\n"), "import")
    assert item.detail == "the library libamdhip64.so.7 is missing: rocm-sdk-core 7.10.0 had it"
    assert item.next_step.endswith("--reinstall --no-deps rocm-sdk-core==7.10.0")


def test_a_foreign_library_path_is_named_as_the_way_out(room: Room, tree: Tree) -> None:
    body = "raise ImportError('/x/libtorch_hip.so: undefined symbol: hipFoo')\n"
    found = failing(room, body, tree=tree, environ={"LD_LIBRARY_PATH": "/opt/rocm/lib"})
    assert one(found, "import").next_step == "unset LD_LIBRARY_PATH"


def test_a_torch_for_another_python(room: Room) -> None:
    write(room.site / "torch/_C.cpython-39-x86_64-linux-gnu.so")
    item = one(failing(room, "import torch._C\n"), "import")
    assert item.detail == f"torch here is for Python 3.9, this is Python {HERE}"
    assert item.next_step == "uv venv --python 3.9 NEW, and install there"


def test_a_torch_that_ends_the_process(room: Room) -> None:
    item = one(failing(room, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"), "import")
    assert item.detail.startswith("import torch did not come to its end: was killed by signal 11")


def test_a_torch_that_exits(room: Room) -> None:
    item = one(failing(room, "import sys\nsys.exit('no GPU, no torch')\n"), "import")
    assert "ended with exit code 1: no GPU, no torch" in item.detail


# --- which environment


def test_an_environment_is_named_by_its_directory_or_its_program(room: Room) -> None:
    assert find_python(str(room.root)) == find_python(str(room.python)) == room.python


@pytest.mark.parametrize("text", ["nowhere", "empty", ""])
def test_what_is_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="--python"):
        find_python(text)


def test_a_program_that_is_no_python(room: Room) -> None:
    room.python.unlink()
    room.python.symlink_to("/bin/true")
    with pytest.raises(MissingTool, match="does not answer as a Python interpreter"):
        visit(room)


def test_the_active_environment_is_looked_at_where_it_has_something(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert active_python({"VIRTUAL_ENV": str(room.root)}) == room.python
    assert active_python({"CONDA_PREFIX": str(room.root)}) == room.python
    monkeypatch.chdir(room.root)
    assert active_python({"VIRTUAL_ENV": "/nowhere"}) is None
    (room.root / ".venv").symlink_to(room.root)
    assert active_python({}) == room.root / ".venv/bin/python"
    assert visit(room, asked=False).environment is None
    room.torch()
    assert visit(room, asked=False).environment is not None
