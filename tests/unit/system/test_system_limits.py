"""Memory and cores that control groups leave, read from trees like those of real machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocwright.system.limits import Memory, available_cores, available_memory, find_groups

GIB = 1 << 30
V2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def machine(root: Path, *, groups: str, mounts: str, files: dict[str, str], total_gib: int = 64) -> Path:
    kib = total_gib << 20
    written = {
        "proc/meminfo": f"MemTotal: {kib} kB\nMemFree: 100 kB\nMemAvailable: {kib - (4 << 20)} kB\n",
        "proc/self/cgroup": groups,
        "proc/self/mountinfo": "22 1 254:0 / / rw - ext4 /dev/root rw\n" + mounts,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }
    for name, text in written.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v1_mount(controller: str, base: str = "/") -> str:
    return f"35 31 0:32 {base} /sys/fs/cgroup/{controller} rw - cgroup cgroup rw,{controller}\n"


def test_a_machine_without_groups_is_its_own_limit(tmp_path: Path) -> None:
    root = machine(tmp_path, groups="", mounts="", files={})
    assert available_memory(root=root) == Memory(64 * GIB, 60 * GIB)
    assert find_groups("memory", root=root) is None


def test_the_limit_of_a_group_around_the_own_one_holds(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="0::/user.slice/app.service\n",
        mounts=V2,
        files={
            "user.slice/app.service/memory.max": "max\n",
            "user.slice/app.service/memory.high": "max\n",
            "user.slice/app.service/memory.current": f"{GIB}\n",
            "user.slice/app.service/memory.stat": "anon 1\n",
            "user.slice/memory.max": f"{8 * GIB}\n",
            "user.slice/memory.current": f"{3 * GIB}\n",
            # Files of the page cache and freeable kernel memory make room at once; anonymous memory does not.
            "user.slice/memory.stat": f"anon {GIB}\ninactive_file {GIB}\nactive_file {GIB // 2}\n"
            f"slab_reclaimable {GIB // 4}\n",
        },
    )
    # 8 - (3 - 1 - 0.5 - 0.25) GiB
    assert available_memory(root=root) == Memory(
        8 * GIB, 27 * GIB // 4, str(root / "sys/fs/cgroup/user.slice")
    )


def test_a_group_is_not_filled_beyond_where_it_is_slowed_down(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="0::/job\n",
        mounts=V2,
        files={
            "job/memory.max": f"{16 * GIB}\n",
            "job/memory.high": f"{12 * GIB}\n",
            "job/memory.current": f"{2 * GIB}\n",
            "job/memory.stat": "inactive_file 0\n",
        },
    )
    assert available_memory(root=root).available == 10 * GIB


def test_a_container_with_a_namespace_sees_its_group_as_the_top(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="0::/\n",
        mounts=V2,
        files={
            "memory.max": f"{4 * GIB}\n",
            "memory.current": f"{GIB}\n",
            "memory.stat": "inactive_file 0\n",
        },
    )
    assert available_memory(root=root) == Memory(4 * GIB, 3 * GIB, str(root / "sys/fs/cgroup"))


def test_a_container_of_version_1_sees_the_path_on_the_host(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="4:memory:/docker/1a2b\n0::/\n",
        mounts=v1_mount("memory", "/docker/1a2b") + V2.replace("cgroup rw", "cgroup/unified rw"),
        files={
            "memory/memory.limit_in_bytes": f"{6 * GIB}\n",
            "memory/memory.usage_in_bytes": f"{3 * GIB}\n",
            # In version 1, names without `total_` leave out the groups below.
            "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}\ntotal_active_file 0\n",
        },
    )
    assert available_memory(root=root) == Memory(6 * GIB, 4 * GIB, str(root / "sys/fs/cgroup/memory"))


def test_the_number_for_no_limit_is_none(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="4:memory:/slice/job\n",
        mounts=v1_mount("memory"),
        files={
            "memory/slice/job/memory.limit_in_bytes": "9223372036854771712\n",
            "memory/slice/job/memory.usage_in_bytes": "5\n",
        },
    )
    assert available_memory(root=root) == Memory(64 * GIB, 60 * GIB)


@pytest.mark.parametrize(("hierarchy", "available"), [("1\n", 1 * GIB), ("0\n", 60 * GIB)])
def test_version_1_hands_limits_down_only_where_told(tmp_path: Path, hierarchy: str, available: int) -> None:
    root = machine(
        tmp_path,
        groups="4:memory:/slice/job\n",
        mounts=v1_mount("memory"),
        files={
            "memory/slice/memory.limit_in_bytes": f"{2 * GIB}\n",
            "memory/slice/memory.usage_in_bytes": f"{GIB}\n",
            "memory/slice/memory.use_hierarchy": hierarchy,
            "memory/slice/job/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    assert available_memory(root=root).available == available


def test_a_machine_that_is_fuller_than_the_group_decides(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="0::/job\n",
        mounts=V2,
        files={"job/memory.max": f"{7 * GIB}\n", "job/memory.current": "0\n", "job/memory.stat": ""},
        total_gib=8,
    )
    # 8 GiB, of which 4 are taken by others; the group would allow 7.
    assert available_memory(root=root) == Memory(8 * GIB, 4 * GIB)


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="0::/job\n",
        mounts=V2,
        files={"job/memory.max": f"{GIB}\n", "job/memory.current": f"{2 * GIB}\n", "job/memory.stat": ""},
    )
    assert available_memory(root=root).available == 0


def test_a_group_outside_of_what_is_mounted_leaves_the_topmost(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="0::/../other\n",
        mounts=V2,
        files={"memory.max": f"{4 * GIB}\n", "memory.current": "0\n", "memory.stat": ""},
    )
    assert available_memory(root=root).available == 4 * GIB


def test_a_group_that_went_away_does_not_stop_the_look(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        groups="0::/slice/gone\n",
        mounts=V2,
        files={
            "slice/memory.max": f"{4 * GIB}\n",
            "slice/memory.current": "0\n",
            "slice/memory.stat": "",
            "slice/cpu.stat": "",
        },
    )
    assert available_memory(root=root).limit_of == str(root / "sys/fs/cgroup/slice")


def test_this_machine_says_how_much_it_has() -> None:
    memory = available_memory()
    assert memory.total is not None and memory.available is not None
    assert 0 < memory.available <= memory.total


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("own", "around", "cores"),
    [
        ("max 100000\n", "max 100000\n", 8),
        ("150000 100000\n", "max 100000\n", 2),
        ("max 100000\n", "300000 100000\n", 3),
        ("50000 100000\n", "300000 100000\n", 1),
        ("6400000 100000\n", "max 100000\n", 8),
        ("", "", 8),
    ],
)
def test_cores_that_groups_of_version_2_pay_for(tmp_path: Path, own: str, around: str, cores: int) -> None:
    files = {"slice/cpu.max": around, "slice/job/cpu.max": own, "slice/cpu.stat": "usage_usec 1\n"}
    root = machine(tmp_path, groups="0::/slice/job\n", mounts=V2, files=files)
    assert available_cores(root=root) == cores


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(("quota", "cores"), [("-1\n", 8), ("250000\n", 3), ("1000\n", 1)])
def test_cores_that_groups_of_version_1_pay_for(tmp_path: Path, quota: str, cores: int) -> None:
    root = machine(
        tmp_path,
        # Both controllers are one mount on most systems.
        groups="3:cpu,cpuacct:/docker/1a2b\n",
        mounts="33 31 0:29 /docker/1a2b /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
        files={"cpu,cpuacct/cpu.cfs_quota_us": quota, "cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
    )
    assert available_cores(root=root) == cores


@pytest.mark.usefixtures("eight_cores")
def test_cores_without_groups(tmp_path: Path) -> None:
    assert available_cores(root=tmp_path) == 8
