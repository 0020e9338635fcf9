"""Built wheels in the user's environment: what was built last, also where the version is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.builder.decide.plan import BuildRequest, BuiltWheel
from rocwright.builder.family import _install_wheels
from rocwright.builder.order import Order
from rocwright.builder.rocm.place import RocmPlace
from rocwright.builder.run.family import FamilyResult
from rocwright.system import venv
from wheels import ANY, write_wheel


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
        host, device = (
            str(write_wheel(tmp_path / content, name, "1.0", {f"{name}.py": content}, tag=ANY))
            for name in ("torch", "amd_torch_device_gfx942")
        )
        built = BuiltWheel("torch", "1.0", host, "00", 1, 0, 0, 0, device=(device,))
        _install_wheels(target, FamilyResult((built,)), order, print)
    (site,) = target.root.glob("lib/python3*/site-packages")
    assert (site / "torch.py").read_text() == "second"
    assert (site / "amd_torch_device_gfx942.py").read_text() == "second"
