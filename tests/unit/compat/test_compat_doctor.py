"""The doctor looks and says; GPUs come from copies of the kernel driver's files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocwright.compat.detector import Gpu, detect
from rocwright.compat.doctor.observations import Diagnosis, Observation
from rocwright.compat.doctor.run import diagnose as visit

PROGRAMS = ("git", "cc", "g++", "make", "apt-get", "dpkg-deb")


def node(root: Path, number: int, version: int, simd: int = 416) -> None:
    (root / str(number)).mkdir(parents=True)
    (root / str(number) / "properties").write_text(f"simd_count {simd}\ngfx_target_version {version}\n")


NODES = "sys/class/kfd/kfd/topology/nodes"


def diagnose(*, nodes: Path, **more: Any) -> Diagnosis:
    """A visit to the machine with these nodes, and devices that anybody may use."""
    root = nodes.parents[5]
    if nodes.exists():
        for name in ("dev/kfd", "dev/dri/renderD128"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).touch()
    return visit(root=root, **more)


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """One processor, an MI250 (gfx90a) and a Radeon (gfx1030)."""
    root = tmp_path / NODES
    node(root, 0, 0, simd=0)
    node(root, 1, 90010)
    node(root, 12, 100300)
    return root


def which(*absent: str) -> Callable[[str], str | None]:
    return lambda name: None if name in absent or name not in PROGRAMS else f"/usr/bin/{name}"


@pytest.fixture(autouse=True)
def _plain_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 50_000_000_000}))


def by_id(found: Diagnosis) -> dict[str, Observation]:
    ids = [item.id for item in found.observations]
    assert len(ids) == len(set(ids))
    return {item.id: item for item in found.observations}


def test_gpus_are_listed_without_processors_in_the_drivers_order(nodes: Path) -> None:
    found = detect(nodes)
    assert found.gpus == (Gpu(0, 1, "gfx90a"), Gpu(1, 12, "gfx1030"))
    assert found.problems == ()


def test_no_driver_is_no_gpu_and_no_problem(tmp_path: Path) -> None:
    found = detect(tmp_path / "absent" / NODES)
    assert (found.gpus, found.problems) == ((), ())


def test_a_machine_in_order_lacks_nothing(nodes: Path, tmp_path: Path) -> None:
    found = diagnose(nodes=nodes, which=which(), work_dir=tmp_path)
    assert found.gpus == ("gfx90a", "gfx1030")
    assert found.errors == 0
    assert {item.verdict for item in found.observations} == {"ok"}
    assert by_id(found)["gpu"].detail == "gfx90a, gfx1030"


@pytest.mark.parametrize(
    ("program", "package"), [("git", "git"), ("cc", "gcc"), ("g++", "g++"), ("make", "make")]
)
def test_a_missing_program_comes_with_its_command(
    nodes: Path, tmp_path: Path, program: str, package: str
) -> None:
    found = diagnose(nodes=nodes, which=which(program), work_dir=tmp_path)
    assert found.errors == 1
    item = by_id(found)[program]
    assert (item.verdict, item.next_step) == ("missing", f"apt-get install {package}")
    assert "needed to" in item.detail


@pytest.mark.parametrize("program", ["apt-get", "dpkg-deb"])
def test_without_apt_a_prefix_is_the_way(nodes: Path, tmp_path: Path, program: str) -> None:
    found = diagnose(nodes=nodes, which=which(program), work_dir=tmp_path)
    assert found.errors == 1
    assert by_id(found)["rocm-source"].next_step == "use --rocm-prefix DIR"


def test_no_gpu_is_a_note_and_no_fault(tmp_path: Path) -> None:
    absent = diagnose(nodes=tmp_path / "absent" / NODES, which=which(), work_dir=tmp_path)
    assert by_id(absent)["gpu"].verdict == "note"
    assert f"no {tmp_path}/absent/" in by_id(absent)["gpu"].detail
    node(tmp_path / NODES, 0, 0, simd=0)
    none = diagnose(nodes=tmp_path / NODES, which=which(), work_dir=tmp_path)
    assert by_id(none)["gpu"].verdict == "note"
    assert "lists none" in by_id(none)["gpu"].detail
    assert (absent.errors, none.errors, absent.gpus) == (0, 0, ())


def test_a_gpu_that_cannot_be_read_is_never_no_gpu(tmp_path: Path) -> None:
    (tmp_path / NODES / "1" / "properties").mkdir(parents=True)
    found = diagnose(nodes=tmp_path / NODES, which=which(), work_dir=tmp_path)
    item = by_id(found)["gpu"]
    assert (item.verdict, found.errors) == ("missing", 1)
    assert "1/properties" in item.detail
    assert "/dev/kfd" in item.next_step


def test_a_gpu_of_the_future_is_not_guessed(tmp_path: Path) -> None:
    node(tmp_path / NODES, 1, 91600)
    found = diagnose(nodes=tmp_path / NODES, which=which(), work_dir=tmp_path)
    assert found.gpus == ()
    assert "91600" in by_id(found)["gpu"].detail


def test_too_little_room_is_said_in_numbers(
    nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1_500_000_000}))
    found = diagnose(nodes=nodes, which=which(), work_dir=tmp_path)
    assert found.errors == 1
    assert by_id(found)["disk"].detail.startswith("1.5 GB free")


def test_room_is_looked_at_where_a_directory_not_made_yet_will_be(
    nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert "disk" in by_id(diagnose(nodes=nodes, which=which(), work_dir=tmp_path / "not" / "yet"))


def test_variables_that_lead_libraries_astray_are_noted(
    nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/rocm/lib")
    monkeypatch.setenv("PYTHONPATH", "/x")
    found = diagnose(nodes=nodes, which=which(), work_dir=tmp_path)
    item = by_id(found)["environment"]
    assert (item.verdict, item.next_step) == ("note", "unset LD_LIBRARY_PATH PYTHONPATH")
    assert found.errors == 0
