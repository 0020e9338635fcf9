"""Which libraries are mapped: lines as Linux writes them (proc_pid_maps(5)), and this very process."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rocwright.compat.probe import run

MAPS = """\
55d0c0a00000-55d0c0a2f000 r--p 00000000 fe:01 1234                       /usr/bin/python3.12
7f1c3a000000-7f1c3b000000 r-xp 00001000 fe:01 4321                       /opt/my torch/lib/libtorch_hip.so
7f1c3b000000-7f1c3c000000 rw-p 00002000 fe:01 4321                       /opt/my torch/lib/libtorch_hip.so
7f1c3d000000-7f1c3e000000 r-xp 00000000 fe:01 4322                       /opt/rocm/lib/librccl.so.1.0.70100
7f1c3f000000-7f1c40000000 rw-s 00000000 00:06 99                         /dev/kfd
7f1c41000000-7f1c42000000 rw-p 00000000 00:00 0                          [heap]
7f1c43000000-7f1c44000000 rw-p 00000000 00:00 0
"""


@pytest.fixture
def maps() -> ModuleType:
    path = run.SCRIPT.with_name("rocwright_about.py")
    spec = importlib.util.spec_from_file_location("rocwright_about_tested", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_libraries_by_name(maps: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "maps").write_text(MAPS)
    monkeypatch.setattr(maps, "_MAPS", str(tmp_path / "maps"))
    assert maps.mapped() == {
        "libtorch_hip.so": "/opt/my torch/lib/libtorch_hip.so",
        "librccl.so.1.0.70100": "/opt/rocm/lib/librccl.so.1.0.70100",
    }
    monkeypatch.setattr(maps, "_MAPS", str(tmp_path / "absent"))
    assert maps.mapped() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say")
def test_this_process(maps: ModuleType) -> None:
    assert any(name.startswith("libc.so") for name in maps.mapped())
