"""What the doctor finds about device code, files and libraries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rocwright.compat.doctor.environment import gather_environment
from rocwright.compat.doctor.facts import DoctorTable, Machine, TorchImport
from rocwright.compat.doctor.run import judge, make_case
from rocwright.data import load_table
from trees import write
from unit.compat.doctor.desk import INDEX, MI210, RADEON_6900, RADEON_7900, Room, Tree, of, one, pip, visit

# --- device code


def test_a_gpu_without_its_device_package(room: Room, tree: Tree) -> None:
    room.rocm(devices=["gfx90a"], offered=["gfx90a", "gfx1100"])
    item = one(visit(room, tree.gpu(RADEON_7900)), "device-code")
    assert item.verdict == "missing"
    assert item.detail == (
        "rocm 7.10.0 has no device code for GPU 0 (gfx1100); only the package for gfx90a is installed"
    )
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
    assert item.next_step == (
        r"sudo sed -i '\|^/opt/rocm/lib/*$|d' /etc/ld.so.conf /etc/ld.so.conf.d/*.conf && sudo ldconfig"
    )


def test_the_line_that_takes_a_directory_out_takes_no_other(room: Room, tree: Tree) -> None:
    room.rocm()
    write(tree.root / "opt/rocm-7.0/lib/libamdhip64.so.7")
    given = "/opt/rocm-7.0/lib/\n/opt/rocm-7x0/lib\n/opt/rocm-7.0/lib64\n/opt/rocm-7.0/lib\n"
    configuration = write(tree.root / "etc/ld.so.conf", given)
    item = next(one for one in of(visit(room, tree), "foreign-libraries") if one.about == "/opt/rocm-7.0/lib")
    words = item.next_step.partition(" && ")[0].removeprefix("sudo ").replace("/etc/ld.so.conf.d/*.conf", "")
    subprocess.run(words.replace("/etc/ld.so.conf", str(configuration)), shell=True, check=True)
    assert configuration.read_text() == "/opt/rocm-7x0/lib\n/opt/rocm-7.0/lib64\n"


def test_an_environment_behind_a_link_is_the_same(room: Room, tree: Tree, tmp_path: Path) -> None:
    room.rocm()
    (tmp_path / "link").symlink_to(room.root)
    lib = tmp_path / "link" / (room.site / "_rocm_sdk_core/lib").relative_to(room.root)
    found = visit(room, tree, root=Path("/"), environ={"LD_LIBRARY_PATH": str(lib)})
    assert [item for item in of(found, "foreign-libraries") if item.bad] == []
    # What a process has loaded is known by its real path.
    table = load_table("doctor", DoctorTable)
    environment = gather_environment(tmp_path / "link/bin/python", table)
    for place, bad in ((room.site, []), (tmp_path / "other", ["loaded"])):
        imported = TorchImport(version="2.9.0", loaded=(f"{place}/_rocm_sdk_core/lib/libamdhip64.so.7",))
        said = judge(make_case(Machine("linux", "/x", False), table, environment, imported))
        assert [item.id for item in said if item.id == "loaded"] == bad


def test_metadata_puts_nothing_into_a_command(room: Room) -> None:
    """Commands are there to be pasted."""
    room.install("rocm-sdk-x", "1.0", {"x.so": ""}, requires=["torch"])
    (info,) = room.site.glob("rocm_sdk_x*")
    for name in ("METADATA", "RECORD"):
        text = (info / name).read_text()
        (info / name).write_text(text.replace("Version: 1.0", "Version: 1.0$(touch y)`touch y`;touch y"))
    (room.site / "x.so").unlink()
    step = one(visit(room), "files").next_step
    assert "'rocm-sdk-x==1.0$(touch y)`touch y`;touch y'" in step


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
    assert item.detail == "librocblas.so.5 is not found anywhere; torch needs it (torch/lib/libtorch_hip.so)"
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
