"""What Windows prints about its display adapters, in all its shapes, and the Linux beside it (WSL)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import fake_machine
import pytest
from fake_machine import Machine

# Instance ids as Windows makes them; Intel's adapter is VEN_8086.
XTX = r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\6&18D4E9B8&0&00000019"
XTX_TOO = r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8\6&2F5B7A1C&0&00000021"
RAPHAEL = r"PCI\VEN_1002&DEV_164E&SUBSYS_88771043&REV_D8\4&2A866275&0&0041"
INTEL = r"PCI\VEN_8086&DEV_A780&SUBSYS_88821043&REV_04\3&11583659&0&10"

LIST = f"""
Name         : AMD Radeon RX 7900 XTX
PNPDeviceID  : {XTX}

Name         : AMD Radeon(TM) Graphics
PNPDeviceID  : {RAPHAEL}

Name         : Intel(R) UHD Graphics 770
PNPDeviceID  : {INTEL}
"""
# Windows PowerShell 5 writes & as \u0026.
JSON = (
    '[{"Name":"AMD Radeon RX 7900 XTX","PNPDeviceID":"'
    + XTX.replace("\\", "\\\\").replace("&", "\\u0026")
    + '"},{"PNPDeviceID":"'
    + RAPHAEL.replace("\\", "\\\\")
    + '"}]'
)
PNPUTIL = f"""\
Microsoft PnP Utility

Instance ID:                {XTX}
Device Description:         AMD Radeon RX 7900 XTX
Class Name:                 Display
Status:                     Started

Instance ID:                {RAPHAEL}
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory):
    directory = str(fake_machine.package(tmp_path_factory.mktemp("site")))
    sys.path.insert(0, directory)
    try:
        yield (
            importlib.import_module("rocwright_detect._pci"),
            importlib.import_module("rocwright_detect._machine"),
        )
    finally:
        sys.path.remove(directory)
        for name in [name for name in sys.modules if name.startswith("rocwright_detect")]:
            del sys.modules[name]


@pytest.fixture
def pci(modules) -> ModuleType:
    return modules[0]


@pytest.fixture
def look(modules):
    return modules[1].look


@pytest.mark.parametrize("text", [LIST, JSON, PNPUTIL, f"{XTX}\r\n{RAPHAEL}\r\n"])
def test_every_shape_has_the_same_gpus(pci: ModuleType, text: str) -> None:
    found = [(gpu["device"], gpu["revision"]) for gpu in pci.windows(text)]
    assert found == [("744c", "c8"), ("164e", "d8")]


def test_equal_gpus_are_told_apart_by_their_instances_and_an_id_said_twice_is_one_gpu(
    pci: ModuleType,
) -> None:
    assert len(pci.windows(f"{XTX}\n{XTX_TOO}\n")) == 2
    assert len(pci.windows(f"PNPDeviceID : {XTX}\nDeviceID : {XTX.lower()}\n")) == 1


def test_what_an_adapter_is_compatible_with_is_no_further_adapter(pci: ModuleType) -> None:
    """As `pnputil /enum-devices /ids` prints it."""
    ids = (
        r"PCI\VEN_1002&DEV_744C&SUBSYS_0E3B1002",
        r"PCI\VEN_1002&DEV_744C&CC_030000",
        r"PCI\VEN_1002&DEV_744C",
    )
    text = "\n".join([f"Instance ID: {XTX}", "Hardware IDs:", *ids, f"Instance ID: {RAPHAEL}"])
    assert [gpu["device"] for gpu in pci.windows(text)] == ["744c", "164e"]


def test_ids_without_instance_or_revision(pci: ModuleType) -> None:
    (gpu,) = pci.windows(r"MatchingDeviceId: pci\ven_1002&dev_7550")
    assert (gpu["device"], gpu["revision"]) == ("7550", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        INTEL,
        r"HDAUDIO\FUNC_01&VEN_1002&DEV_AA01&SUBSYS_00AA0100",
        r"PCI\VEN_1002&DEV_74",
        r"ROOT\BasicDisplay\0000",
        "\x00\x01\xff",
    ],
)
def test_what_is_no_adapter_of_amd(pci: ModuleType, text: str) -> None:
    assert pci.windows(text) == []


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8", "utf-8-sig"])
def test_files_as_powershell_writes_them(pci: ModuleType, encoding: str) -> None:
    assert len(pci.windows(pci.decoded(LIST.encode(encoding)))) == 2


def test_windows_is_asked_on_windows(look) -> None:
    report = look(platform="win32", ask=lambda: LIST, environ={})
    assert (report["platform"], report["source"]) == ("windows", "windows")
    assert [(gpu["target"], gpu["name"]) for gpu in report["gpus"]] == [
        ("gfx1100", "AMD Radeon RX 7900 XTX"),
        ("gfx1036", "AMD Radeon 610M"),
    ]


def test_a_linux_inside_windows_asks_windows(look, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "root")
    machine.put("dev/dxg", "")
    machine.pci("008e", vendor="1414", kind="030200")  # what Windows puts on the bus
    report = look(str(machine.root), "linux", ask=lambda: PNPUTIL, environ={})
    assert (report["platform"], report["source"]) == ("wsl", "windows")
    assert [gpu["target"] for gpu in report["gpus"]] == ["gfx1100", "gfx1036"]


def test_a_linux_without_dxg_never_asks_windows(look, tmp_path: Path) -> None:
    report = look(str(tmp_path), "linux", ask=lambda: pytest.fail("asked"), environ={})
    assert report["platform"] == "linux"


@pytest.mark.parametrize(
    "why", [FileNotFoundError(2, "No such file or directory"), OSError("it ended with 1")]
)
def test_a_windows_that_cannot_be_asked_is_a_problem_with_a_way_out(
    look, tmp_path: Path, why: OSError
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/dxg").touch()

    def ask() -> str:
        raise why

    report = look(str(tmp_path), "linux", ask=ask, environ={})
    assert report["gpus"] == []
    (problem,) = report["problems"]
    assert problem.startswith(f"Windows could not be asked for its GPUs: {why.strerror or why}")
    assert "--from-windows gpus.txt" in problem
