"""The GPU detector on hand-made copies of the kernel driver's files."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import fake_rocm as fake
import pytest

_spec = importlib.util.spec_from_file_location("detect", fake.RUNTIME / "rocm/src/rocm_sdk/_detect.py")
detect = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(detect)

CPU = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"


def node(root: Path, number: int, properties: str, name: str | None = None) -> None:
    directory = root / str(number)
    directory.mkdir(parents=True)
    (directory / "properties").write_text(properties)
    if name is not None:
        (directory / "name").write_text(name + "\n")


def gpu(version: int, extra: str = "") -> str:
    return f"cpu_cores_count 0\nsimd_count 416\ngfx_target_version {version}\n{extra}"


@pytest.mark.parametrize(
    ("version", "target"),
    [
        (90006, "gfx906"),
        (90010, "gfx90a"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (100300, "gfx1030"),
        (100306, "gfx1036"),
        (110003, "gfx1103"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (80003, "gfx803"),
    ],
)
def test_target_names(version: int, target: str) -> None:
    assert detect.target_name(version) == target


@pytest.mark.parametrize("version", [0, 5, 91600, 90016])
def test_versions_that_name_no_target(version: int) -> None:
    with pytest.raises(ValueError, match=str(version)):
        detect.target_name(version)


def test_gpus_in_numeric_order_of_nodes_without_cpus(tmp_path: Path) -> None:
    node(tmp_path, 0, CPU)
    node(tmp_path, 10, gpu(100300))
    node(
        tmp_path,
        2,
        gpu(90010, "location_id 50688\ndomain 1\ndevice_id 29704\ndrm_render_minor 129\nunique_id 255\n"),
        "aldebaran",
    )
    found, problems = detect.scan(str(tmp_path))
    assert problems == []
    assert [(g["index"], g["node"], g["target"], g["name"]) for g in found] == [
        (0, 2, "gfx90a", "aldebaran"),
        (1, 10, "gfx1030", None),
    ]
    # 50688 = 0xc600: bus c6, device 0, function 0
    assert found[0]["location"] == "0001:c6:00.0"
    assert (found[0]["device_id"], found[0]["render_minor"]) == ("0x7408", 129)
    assert found[0]["unique_id"] == "0x00000000000000ff"


def test_no_driver_and_no_gpu_are_no_problem(tmp_path: Path) -> None:
    assert detect.scan(str(tmp_path / "absent")) == ([], [])
    node(tmp_path, 0, CPU)
    assert detect.detect_gpus(str(tmp_path)) == []


def test_unreadable_gpu_is_reported_and_never_an_empty_answer(tmp_path: Path) -> None:
    (tmp_path / "1" / "properties").mkdir(parents=True)  # reading it fails, whoever runs the test
    found, problems = detect.scan(str(tmp_path))
    assert found == []
    assert problems == [f"cannot read {tmp_path}/1/properties: Is a directory"]
    with pytest.raises(detect.DetectionError, match="1/properties: Is a directory"):
        detect.detect_gpus(str(tmp_path))


def test_a_container_with_one_of_two_gpus_sees_one(tmp_path: Path) -> None:
    (tmp_path / "1" / "properties").mkdir(parents=True)
    node(tmp_path, 2, gpu(90402))
    assert [g["target"] for g in detect.detect_gpus(str(tmp_path))] == ["gfx942"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no simd_count"),
        ("simd_count 4\n", "too old"),
        ("simd_count 4\ngfx_target_version 0\n", "gfx_target_version 0"),
    ],
)
def test_odd_properties_are_problems(tmp_path: Path, text: str, words: str) -> None:
    node(tmp_path, 1, text)
    found, problems = detect.scan(str(tmp_path))
    assert found == []
    assert len(problems) == 1
    assert words in problems[0]
