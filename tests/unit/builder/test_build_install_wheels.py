"""Built wheels in the user's environment: what was built last, also where the version is the same."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from rocwright.builder.decide.plan import BuildRequest, BuiltWheel
from rocwright.builder.family import _install_wheels
from rocwright.builder.order import Order
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.run.family import FamilyResult
from rocwright.system import venv


def wheel(directory: Path, name: str, content: str) -> str:
    directory.mkdir(exist_ok=True)
    path = directory / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(
            f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return str(path)


def test_where_no_wheel_was_made_there_is_nothing_to_say(tmp_path: Path) -> None:
    order = Order(
        RocmPlace("environment"), BuildRequest({}, "linux", ()), str(tmp_path / "out"), str(tmp_path)
    )
    said: list[str] = []
    editable = BuiltWheel("torch", "1.0", str(tmp_path), "", 0, 0, 0, 0)
    _install_wheels(
        venv.Environment(tmp_path / "no environment"), FamilyResult((editable,)), order, said.append
    )
    assert said == []


@pytest.mark.slow
def test_split_wheels_of_the_same_version_are_both_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    target = venv.create(tmp_path / "env")
    order = Order(
        place=RocmPlace("environment", str(target.root)),
        wanted=BuildRequest(sources={}, platform="linux", targets=("gfx942",)),
        output_dir=str(tmp_path / "out"),
        work_dir=str(tmp_path / "work"),
    )
    for content in ("first", "second"):
        host = wheel(tmp_path / content, "torch", content)
        device = wheel(tmp_path / content, "amd_torch_device_gfx942", content)
        built = BuiltWheel("torch", "1.0", host, "00", 1, 0, 0, 0, device=(device,))
        _install_wheels(target, FamilyResult((built,)), order, print)
    (site,) = target.root.glob("lib/python3*/site-packages")
    assert (site / "torch.py").read_text() == "second"
    assert (site / "amd_torch_device_gfx942.py").read_text() == "second"
