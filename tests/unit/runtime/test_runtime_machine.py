"""What the detector's own wheel says of machines: every chip, several GPUs, none, containers, damage."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import fake_machine
import pytest
from fake_machine import Machine, Row, row, rows

ROWS = rows()


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module that looks, from a directory laid out as the wheel is."""
    directory = str(fake_machine.package(tmp_path_factory.mktemp("site")))
    sys.path.insert(0, directory)
    try:
        yield importlib.import_module("rocwright_detect._machine").look
    finally:
        sys.path.remove(directory)
        for name in [name for name in sys.modules if name.startswith("rocwright_detect")]:
            del sys.modules[name]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def seen(look, machine: Machine, **more: object) -> dict:
    return look(str(machine.root), "linux", environ={}, **more)


def test_the_table_of_this_test_has_enough_targets() -> None:
    assert len({one.target for one in ROWS}) >= 25
    assert len({one.by_id for one in ROWS} - {None}) >= 25


@pytest.mark.parametrize("one", ROWS, ids=lambda one: f"{one.target}-{one.device}")
def test_each_gpu_by_its_driver(look, machine: Machine, one: Row) -> None:
    address = machine.gpu(one)
    report = seen(look, machine)
    assert (report["platform"], report["source"], report["problems"], report["notes"]) == (
        "linux",
        "kfd",
        [],
        [],
    )
    (gpu,) = report["gpus"]
    assert (gpu["target"], gpu["name"], gpu["location"]) == (one.target, one.name, address)
    assert (gpu["device_id"], gpu["revision"], gpu["near"]) == (f"0x{one.device}", one.revision, [])


@pytest.mark.parametrize("one", ROWS, ids=lambda one: f"{one.target}-{one.device}")
def test_each_gpu_by_its_pci_id_when_the_driver_is_missing(look, machine: Machine, one: Row) -> None:
    address = machine.pci(one.device, one.revision)
    report = seen(look, machine)
    (gpu,) = report["gpus"]
    assert report["source"] == "pci"
    assert (gpu["target"], gpu["name"], gpu["location"]) == (one.by_id, one.name, address)
    (note,) = report["notes"]
    assert f"1002:{one.device}" in note
    assert "driver (amdgpu) is not loaded" in note


def test_the_gpu_of_a_processor_and_a_card(look, machine: Machine) -> None:
    """The driver numbers them; which one comes first is the machine's business."""
    machine.gpu(row("744c"))
    machine.gpu(row("164e"))
    report = seen(look, machine)
    assert [(gpu["index"], gpu["target"], gpu["integrated"]) for gpu in report["gpus"]] == [
        (0, "gfx1100", False),
        (1, "gfx1036", True),
    ]


def test_eight_equal_gpus_are_eight(look, machine: Machine) -> None:
    addresses = [machine.gpu(row("74a1")) for _ in range(8)]
    report = seen(look, machine)
    assert [gpu["location"] for gpu in report["gpus"]] == addresses
    assert {gpu["name"] for gpu in report["gpus"]} == {"AMD Instinct MI300X"}


def test_partitions_of_one_gpu_share_its_place(look, machine: Machine) -> None:
    """In CPX mode an MI300X is several nodes of the driver, and one device on the bus."""
    machine.gpu(row("74a1"))
    text = (machine.nodes / "3/properties").read_text()
    machine.node(4, text)
    report = seen(look, machine)
    assert [gpu["location"] for gpu in report["gpus"]] == ["0000:03:00.0"] * 2
    assert report["notes"] == []


@pytest.mark.parametrize("kind", ["030000", "030200", "038000", "120000"])
def test_displays_and_accelerators_are_gpus(look, machine: Machine, kind: str) -> None:
    machine.pci("740f", "02", kind=kind)
    assert [gpu["target"] for gpu in seen(look, machine)["gpus"]] == ["gfx90a"]


def test_a_machine_without_amd_gpu(look, machine: Machine) -> None:
    machine.pci("2684", vendor="10de")  # a GPU of somebody else
    machine.pci("ab30", kind="040300")  # the sound of a Radeon
    machine.pci("1478", kind="060400")  # its bridge
    report = seen(look, machine)
    assert (report["gpus"], report["problems"], report["notes"]) == ([], [], [])
    machine.driver()
    assert seen(look, machine)["gpus"] == []


def test_an_empty_root(look, machine: Machine) -> None:
    report = seen(look, machine)
    assert (report["gpus"], report["problems"]) == ([], [])


def test_a_container_without_dev_kfd_sees_the_gpu_and_says_what_is_missing(look, machine: Machine) -> None:
    machine.driver(device_file=False)
    machine.gpu(row("744c"))
    report = seen(look, machine)
    assert [gpu["target"] for gpu in report["gpus"]] == ["gfx1100"]
    (note,) = report["notes"]
    assert note.startswith("there is no /dev/kfd")
    assert "--device=/dev/kfd --device=/dev/dri" in note


def test_a_container_with_one_of_two_gpus(look, machine: Machine) -> None:
    """The other node refuses to be read; on the bus, which is not hidden, both are seen."""
    machine.gpu(row("74a1"))
    other = machine.pci("74a1", "00")
    (machine.nodes / "4/properties").mkdir(parents=True)  # reading it fails, whoever runs the test
    report = seen(look, machine)
    assert [gpu["location"] for gpu in report["gpus"]] == ["0000:03:00.0"]
    assert len(report["problems"]) == 1
    assert "4/properties" in report["problems"][0]
    assert len(report["notes"]) == 1
    assert other in report["notes"][0]


def test_nodes_that_cannot_be_read_at_all_leave_the_bus_to_ask(look, machine: Machine) -> None:
    machine.pci("7550", "c0")
    (machine.nodes / "1/properties").mkdir(parents=True)
    report = seen(look, machine)
    assert [gpu["target"] for gpu in report["gpus"]] == ["gfx1201"]
    assert "Is a directory" in report["problems"][0]
    assert "does not list it" in report["notes"][0]


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("vendor", "", "vendor says ''"),
        ("device", "0xZZZZ\n", "device says '0xZZZZ'"),
        ("device", "744c\n", "device says '744c'"),
        ("class", "\x00\x01\x02", "class says"),
        ("revision", "0xc8c8\n", "revision says '0xc8c8'"),
    ],
)
def test_garbage_on_the_bus_is_a_problem_and_no_guess(
    look, machine: Machine, file: str, text: str, words: str
) -> None:
    address = machine.pci("744c", "c8")
    (machine.devices / address / file).write_text(text)
    report = seen(look, machine)
    assert report["gpus"] == []
    assert len(report["problems"]) == 1
    assert address in report["problems"][0]
    assert words in report["problems"][0]


def test_a_file_that_cannot_be_read_hides_no_other_gpu(look, machine: Machine) -> None:
    address = machine.pci("744c", "c8")
    machine.pci("7590", "c0")
    (machine.devices / address / "device").unlink()
    (machine.devices / address / "device").mkdir()
    report = seen(look, machine)
    assert [gpu["target"] for gpu in report["gpus"]] == ["gfx1200"]
    assert report["problems"] == [f"PCI device {address}: cannot read device: Is a directory"]


def test_without_a_revision_there_is_a_name_only_where_all_share_it(look, machine: Machine) -> None:
    for device in ("744c", "7489"):
        address = machine.pci(device)
        (machine.devices / address / "revision").unlink()
    first, second = seen(look, machine)["gpus"]
    assert (first["target"], first["name"], first["chip"]) == ("gfx1100", None, "Navi 31")
    assert second["name"] == "AMD Radeon Pro W7500"


def test_an_unknown_id_has_no_target_but_neighbours(look, machine: Machine) -> None:
    machine.pci("759f", "c0")
    machine.pci("6779", "00")  # a Radeon HD 6450
    first, second = seen(look, machine)["gpus"]
    assert (first["target"], first["near"]) == (None, ["gfx1200"])
    assert (second["target"], second["near"]) == (None, [])


def test_a_target_that_the_table_has_not_is_the_drivers(look, machine: Machine) -> None:
    machine.gpu(Row(130000, "7fff", "00", "gfx1300", None, None))
    (gpu,) = seen(look, machine)["gpus"]
    assert (gpu["target"], gpu["name"], gpu["chip"]) == ("gfx1300", None, None)


def test_variables_that_change_what_programs_see_are_told(look, machine: Machine) -> None:
    machine.gpu(row("73ff"))
    environ = {"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": ""}
    report = look(str(machine.root), "linux", environ=environ)
    assert [gpu["target"] for gpu in report["gpus"]] == ["gfx1032"]
    assert report["notes"] == [
        "HSA_OVERRIDE_GFX_VERSION=10.3.0 is set: HIP programs may see other GPUs or targets"
    ]


def test_other_systems_are_not_guessed_about(look, machine: Machine) -> None:
    report = look(str(machine.root), "darwin", environ={})
    assert report["gpus"] == []
    assert "not on darwin" in report["problems"][0]


def test_a_name_of_the_driver_is_shown_as_text(look, machine: Machine) -> None:
    """A chip that the table has not keeps the driver's name; what is no text in it is left out."""
    machine.gpu(Row(130000, "7fff", "00", "gfx1300", None, None))
    (machine.nodes / "3/name").write_bytes(b"navi\x1b[31m5\n")
    assert seen(look, machine)["gpus"][0]["chip"] == "navi[31m5"
