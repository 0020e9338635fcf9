"""What the doctor finds on machines: each finding where it belongs, and none where it does not."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from rocwright.compat.doctor.facts import Case, Device, DoctorTable, Machine
from rocwright.compat.doctor.machine import User, gather_machine
from rocwright.compat.doctor.observations import Diagnosis, Observation
from rocwright.compat.doctor.rules import machine as rules
from rocwright.compat.doctor.run import diagnose, make_case
from rocwright.data import load_table
from trees import write
from unit.compat.doctor.desk import RADEON_6900, Tree, bad, of, one

TABLE = load_table("doctor", DoctorTable)


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 50_000_000_000}))


def visit(tree: Tree, **environ: str) -> Diagnosis:
    return diagnose(
        root=tree.root, environ=environ, which=lambda name: f"/usr/bin/{name}", work_dir=tree.root
    )


def said(rule: object, case: Case) -> list[Observation]:
    return list(rule(case))  # type: ignore[operator]


def case(**facts: object) -> Case:
    given = {"system": "linux", "nodes": "/sys/nodes", "driver_listed": True, "user": "user1", **facts}
    return make_case(Machine(**given), TABLE)  # type: ignore[arg-type]


def test_a_machine_with_a_gpu_in_order_has_nothing_to_mend(tree: Tree) -> None:
    found = visit(tree.gpu())
    assert found.gpus == ("gfx90a",)
    assert [item for item in found.observations if item.verdict != "ok"] == []
    assert found.errors == 0 and found.environment is None


def test_a_machine_without_a_gpu_is_told_of_in_the_words_of_the_readme(tree: Tree) -> None:
    found = visit(tree)
    assert [item.id for item in found.observations] == [
        *("gpu", "git", "cc", "g++", "make", "rocm-source", "disk"),
    ]
    assert one(found, "gpu").verdict == "note"


# --- the kernel driver


def test_a_gpu_on_the_bus_without_its_driver(tree: Tree) -> None:
    item = one(visit(tree.board("0000:03:00.0")), "driver")
    assert (item.verdict, item.next_step) == ("missing", "sudo modprobe amdgpu")
    assert "1 AMD GPU (0000:03:00.0)" in item.detail


@pytest.mark.parametrize(
    ("vendor", "kind"), [("0x10de", "0x030000"), ("0x1002", "0x040300"), ("0x1022", "0x060000")]
)
def test_other_boards_are_no_gpus_of_amds(tree: Tree, vendor: str, kind: str) -> None:
    """An NVIDIA GPU, the sound device of a Radeon, a bridge of AMD's."""
    assert of(visit(tree.board(vendor=vendor, kind=kind)), "driver") == []


def test_an_accelerator_without_a_screen_is_one(tree: Tree) -> None:
    """An MI300X is a processing accelerator, class 12 of the PCI ID list."""
    assert one(visit(tree.board(kind="0x120000")), "driver").verdict == "missing"


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("etc/modprobe.d/no-gpu.conf", "# off\nblacklist amdgpu\n", "/etc/modprobe.d/no-gpu.conf"),
        ("etc/modprobe.d/no-gpu.conf", "install amdgpu /bin/false\n", "/etc/modprobe.d/no-gpu.conf"),
        ("proc/cmdline", "ro quiet nomodeset\n", "nomodeset"),
        ("proc/cmdline", "ro modprobe.blacklist=nouveau,amdgpu\n", "modprobe.blacklist=nouveau,amdgpu"),
    ],
)
def test_a_driver_that_is_forbidden(tree: Tree, path: str, text: str, named: str) -> None:
    write(tree.board().root / path, text)
    item = one(visit(tree), "driver")
    assert item.verdict == "wrong" and named in item.detail and named in item.next_step


@pytest.mark.parametrize("text", ["#blacklist amdgpu\n", "blacklist amdgpu_other\n", "options amdgpu x=1\n"])
def test_lines_that_forbid_nothing(tree: Tree, text: str) -> None:
    write(tree.board().root / "etc/modprobe.d/a.conf", text.replace("amdgpu_other", "amdgpux"))
    assert one(visit(tree), "driver").verdict == "missing"


def test_a_driver_that_offers_no_gpu_for_computing(tree: Tree) -> None:
    item = one(visit(tree.board().driver()), "driver")
    assert item.verdict == "wrong" and "dmesg" in item.next_step


def test_in_a_container_the_driver_is_the_hosts(tree: Tree) -> None:
    assert "on the host" in one(visit(tree.board().docker()), "driver").next_step


# --- containers


def test_a_container_without_the_devices_is_told_the_line(tree: Tree) -> None:
    found = visit(tree.gpu(devices=False).docker())
    item = one(found, "container")
    assert item.verdict == "missing"
    assert "no /dev/kfd and no /dev/dri/renderD*" in item.detail
    assert item.next_step == (
        "docker run --device=/dev/kfd --device=/dev/dri --group-add video --group-add render --ipc=host "
        "--security-opt seccomp=unconfined IMAGE"
    )
    assert of(found, "access") == []


def test_a_container_with_half_of_them(tree: Tree) -> None:
    write(tree.gpu(devices=False).docker().root / "dev/kfd")
    item = one(visit(tree), "container")
    assert "/dev/dri" in item.detail and "/dev/kfd" not in item.detail


def test_a_container_with_the_devices_lacks_nothing_but_memory_and_calls(tree: Tree) -> None:
    found = visit(tree.gpu().docker())
    assert of(found, "container") == [] and found.errors == 0
    assert one(found, "shared-memory").detail.startswith("shared memory (/dev/shm) has 67 MB")
    assert one(found, "seccomp").verdict == "note"


@pytest.mark.parametrize("shared", ["size=8g", "size=8388608k", "inode64"])
def test_enough_shared_memory_is_not_mentioned(tree: Tree, shared: str) -> None:
    assert of(visit(tree.gpu().docker(shared)), "shared-memory") == []


def test_a_container_on_a_machine_without_a_gpu_needs_no_devices(tree: Tree) -> None:
    found = visit(tree.docker())
    assert of(found, "container") == of(found, "seccomp") == []


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", "", "podman"),
        ("proc/1/environ", "HOME=/\0container=lxc\0", "lxc"),
        ("proc/1/cgroup", "0::/kubepods/besteffort/pod1\n", "kubepods"),
        ("proc/1/cgroup", "0::/init.scope\n", ""),
    ],
)
def test_kinds_of_containers(tree: Tree, path: str, text: str, kind: str) -> None:
    write(tree.root / path, text)
    facts = gather_machine(
        TABLE, root=tree.root, environ={}, user=User("user1", 1000, (1000,)), platform="linux"
    )
    assert facts.container == kind


# --- rights


def device(path: str, group: str, *, usable: bool = False, mode: int = 0o660) -> Device:
    return Device(path, group, mode, usable)


def test_a_user_without_the_groups_is_told_the_command() -> None:
    (item,) = said(
        rules.access,
        case(kfd=device("/dev/kfd", "render"), render=(device("/dev/dri/renderD128", "render"),)),
    )
    assert item.verdict == "missing"
    assert "user1 may not use /dev/kfd (660, group render), /dev/dri/renderD128" in item.detail
    assert item.next_step == "sudo usermod -a -G render user1, then log in again"


def test_where_the_devices_name_no_group_both_are_wanted() -> None:
    (item,) = said(rules.access, case(kfd=device("/dev/kfd", "root", mode=0o600)))
    assert item.next_step.startswith("sudo usermod -a -G render,video user1")


def test_a_user_who_has_just_joined_logs_in_again() -> None:
    (item,) = said(
        rules.access, case(kfd=device("/dev/kfd", "render"), groups=("user1",), enrolled=("render",))
    )
    assert item.next_step == "log in again, or: newgrp render"


def test_a_container_is_given_the_number_of_a_group_that_it_has_no_name_for() -> None:
    (item,) = said(rules.access, case(kfd=device("/dev/kfd", "992"), container="docker"))
    assert item.next_step == "docker run --group-add 992 … IMAGE"


def test_of_several_gpus_one_may_be_somebody_elses() -> None:
    own = (device("/dev/dri/renderD128", "user1", usable=True), device("/dev/dri/renderD129", "user2"))
    (item,) = said(rules.access, case(kfd=device("/dev/kfd", "render", usable=True), render=own))
    assert item.verdict == "note" and "/dev/dri/renderD129" in item.detail
    (item,) = said(rules.access, case(kfd=device("/dev/kfd", "render"), render=own))
    assert item.verdict == "missing"


def test_devices_that_may_be_used_are_no_fault() -> None:
    (item,) = said(rules.access, case(kfd=device("/dev/kfd", "render", usable=True)))
    assert (item.verdict, item.detail) == ("ok", "user1 may use /dev/kfd")
    assert said(rules.access, case()) == []


def test_a_driver_with_gpus_and_no_device(tree: Tree) -> None:
    item = one(visit(tree.gpu(devices=False)), "access")
    assert item.verdict == "missing" and "no /dev/kfd" in item.detail


def test_rights_are_those_of_this_user(tree: Tree) -> None:
    tree.gpu()
    (tree.root / "dev/kfd").chmod(0)
    facts = gather_machine(
        TABLE, root=tree.root, environ={}, user=User("user1", 1000, (992, 7)), platform="linux"
    )
    assert facts.kfd is not None
    assert facts.kfd.usable == (os.geteuid() == 0)
    assert facts.kfd.mode == 0
    assert facts.groups == ("render", "7")


def test_a_users_groups_at_the_next_login(tree: Tree) -> None:
    write(tree.root / "etc/group", "video:x:44:user1,user2\nrender:x:992:user2\nbroken line\nx:x:y:user1\n")
    facts = gather_machine(TABLE, root=tree.root, environ={}, user=User("user1", 1000, ()), platform="linux")
    assert facts.enrolled == ("video",)


# --- variables


def test_an_override_for_another_gpu(tree: Tree) -> None:
    found = visit(tree.gpu(RADEON_6900 + 1), HSA_OVERRIDE_GFX_VERSION="10.3.0")
    item = one(found, "override")
    assert item.verdict == "wrong"
    assert "treat every GPU as gfx1030, also gfx1031" in item.detail
    assert item.next_step == "unset HSA_OVERRIDE_GFX_VERSION"


def test_an_override_that_changes_nothing_is_noted(tree: Tree) -> None:
    found = visit(tree.gpu(RADEON_6900), HSA_OVERRIDE_GFX_VERSION="10.3.0")
    assert (one(found, "override").verdict, found.errors) == ("note", 0)
    assert of(visit(tree), "override") == []


def test_an_override_with_letters_is_hexadecimal_in_the_name(tree: Tree) -> None:
    assert "as gfx90a" in one(visit(tree, HSA_OVERRIDE_GFX_VERSION="9.0.10"), "override").detail


@pytest.mark.parametrize("value", ["", "10.3", "gfx1030", "10.3.0;rm"])
def test_an_override_that_nobody_reads(tree: Tree, value: str) -> None:
    assert one(visit(tree, HSA_OVERRIDE_GFX_VERSION=value), "override").verdict == "wrong"


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("HIP_VISIBLE_DEVICES", "0", "note"),
        ("ROCR_VISIBLE_DEVICES", "", "wrong"),
        ("CUDA_VISIBLE_DEVICES", "-1", "wrong"),
        ("HIP_VISIBLE_DEVICES", "0,1", None),
        ("ROCR_VISIBLE_DEVICES", "GPU-0123456789abcdef,GPU-fedcba9876543210", None),
        ("ROCR_VISIBLE_DEVICES", "GPU-0123456789abcdef", "note"),
        ("HIP_VISIBLE_DEVICES", "", None),
    ],
)
def test_variables_that_hide_gpus(tree: Tree, name: str, value: str, verdict: str | None) -> None:
    found = of(visit(tree.gpu(number=1).gpu(number=2), **{name: value}), "visibility")
    assert [item.verdict for item in found] == ([verdict] if verdict else [])
    assert [item.next_step for item in found] == ([f"unset {name}"] if verdict else [])


def test_what_hides_gpus_matters_where_there_are_some(tree: Tree) -> None:
    assert of(visit(tree, HIP_VISIBLE_DEVICES="3"), "visibility") == []


# --- ROCm on the system


def test_several_rocms_are_named_once_each(tree: Tree) -> None:
    for version in ("6.4.1", "7.0.0"):
        write(tree.root / f"opt/rocm-{version}/.info/version", f"{version}-85\n")
        (tree.root / f"opt/rocm-{version}/lib").mkdir()
    (tree.root / "opt/rocm").symlink_to("rocm-7.0.0")
    item = one(visit(tree), "system-rocm")
    assert item.verdict == "note"
    assert "/opt/rocm (7.0.0-85), /opt/rocm-6.4.1 (6.4.1-85);" in item.detail


def test_the_native_rocm_10_is_one_however_many_links_lead_to_it(tree: Tree) -> None:
    rocm = tree.root / "opt/rocm"
    for version in ("7.14.1", "10.0.0"):
        core = rocm / f"core-{version.rpartition('.')[0]}"
        write(core / ".info/version", f"{version}\n")
        (core / "lib").mkdir()
        (core / "bin").mkdir()
    for name, target in (("core", "core-10.0"), ("lib", "core-10.0/lib"), ("bin", "core-10.0/bin")):
        (rocm / name).symlink_to(target)
    item = one(visit(tree), "system-rocm")
    assert "several ROCms on this system: /opt/rocm (10.0.0), /opt/rocm/core-7.14 (7.14.1);" in item.detail
    item = one(visit(tree, PATH="/usr/bin:/opt/rocm/core-10.0/bin"), "system-rocm")
    assert item.next_step == "export PATH=/usr/bin"


def test_a_rocm_on_path_is_taken_out_of_it(tree: Tree) -> None:
    (tree.root / "opt/rocm/bin").mkdir(parents=True)
    item = one(visit(tree, PATH="/usr/bin:/opt/rocm/bin:/bin"), "system-rocm")
    assert item.next_step == "export PATH=/usr/bin:/bin"
    assert of(visit(tree, PATH="/usr/bin"), "system-rocm") == []


def test_the_distributions_own_rocm_counts(tree: Tree) -> None:
    write(tree.root / "usr/lib/x86_64-linux-gnu/libamdhip64.so.5.2.3")
    (tree.root / "opt/rocm/lib").mkdir(parents=True)
    assert "/usr/lib/x86_64-linux-gnu (5.2.3)" in one(visit(tree), "system-rocm").detail


# --- other systems


def test_windows_is_not_looked_at_and_says_so() -> None:
    facts = gather_machine(TABLE, root=Path("/"), environ={}, user=User("user1", -1, ()), platform="win32")
    (item,) = said(rules.platform, make_case(facts, TABLE))
    assert item.verdict == "note" and "on Windows only the environment is checked" in item.detail
    assert said(rules.gpu, make_case(facts, TABLE)) == []


def test_wsl_is_told_of(tree: Tree) -> None:
    write(tree.root / "dev/dxg")
    assert "WSL" in one(visit(tree), "platform").detail
    assert of(visit(Tree(tree.root / "other")), "platform") == []


def test_a_machine_that_shows_nothing_at_all(tmp_path: Path) -> None:
    """No /sys, no /proc, no /etc, no /dev: nothing is invented."""
    found = diagnose(root=tmp_path / "void", environ={}, which=lambda _: "/x", work_dir=tmp_path)
    assert found.errors == 0 and bad(found) == {}
    assert {item.id for item in found.observations if item.verdict != "ok"} == {"gpu"}


def test_facts_are_frozen_and_are_json() -> None:
    facts = Machine(system="linux", nodes="/x", driver_listed=False)
    with pytest.raises(AttributeError):
        facts.user = "other"  # type: ignore[misc]
    assert msgspec.json.decode(msgspec.json.encode(facts), type=Machine) == facts
