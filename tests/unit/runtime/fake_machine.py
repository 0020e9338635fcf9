"""Copies of the files that a Linux with AMD GPUs has below /sys and /dev, for the tests of the detector."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TABLE = Path(__file__).resolve().parent / "gpus-by-driver.txt"
AMD = "1002"

# As kfd_topology.c writes a node: the processor, and what the detector reads of a GPU between its neighbours.
CPU_NODE = (
    "cpu_cores_count 32\nsimd_count 0\nmem_banks_count 1\ngfx_target_version 0\nvendor_id 0\ndevice_id 0\n"
)
GPU_NODE = """\
cpu_cores_count 0
simd_count 192
mem_banks_count 1
caches_count 206
max_waves_per_simd 16
lds_size_in_kb 64
wave_front_size 32
gfx_target_version {version}
vendor_id 4098
device_id {device}
location_id {location}
domain {domain}
drm_render_minor {minor}
hive_id 0
unique_id {unique}
"""


@dataclass(frozen=True)
class Row:
    """A line of the table: what the driver reports, and what others call it (None: nothing)."""

    version: int
    device: str
    revision: str
    target: str
    by_id: str | None
    name: str | None


def rows() -> list[Row]:
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            version, device, revision, target, by_id, name = line.split(None, 5)
            none_or = {"-": None}
            found.append(
                Row(
                    int(version), device, revision, target, none_or.get(by_id, by_id), none_or.get(name, name)
                )
            )
    return found


def row(device: str) -> Row:
    return next(one for one in rows() if one.device == device)


def package(directory: Path) -> Path:
    """A directory with the package as the wheel has it: its own modules, and the one detector."""
    target = directory / "rocwright_detect"
    shutil.copytree(
        ROOT / "runtime/detect/src/rocwright_detect", target, ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(ROOT / "runtime/rocm/src/rocm_sdk/_detect.py", target)
    return directory


class Machine:
    """A root directory; GPUs come onto bus 3, 4, … in the order in which they are put in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.nodes = root / "sys/class/kfd/kfd/topology/nodes"
        self.devices = root / "sys/bus/pci/devices"
        self.buses = 2
        (root / "sys").mkdir(parents=True)

    def pci(self, device: str, revision: str = "c1", *, vendor: str = AMD, kind: str = "030000") -> str:
        """Put a card in; returns its address."""
        self.buses += 1
        address = f"0000:{self.buses:02x}:00.0"
        directory = self.devices / address
        directory.mkdir(parents=True)
        for name, value in (("vendor", vendor), ("device", device), ("class", kind), ("revision", revision)):
            (directory / name).write_text(f"0x{value}\n")
        return address

    def driver(self, *, device_file: bool = True) -> None:
        """The kernel driver, which lists the processor as node 0."""
        self.node(0, CPU_NODE)
        if device_file:
            self.put("dev/kfd", "")

    def node(self, number: int, text: str) -> None:
        self.put(f"sys/class/kfd/kfd/topology/nodes/{number}/properties", text)

    def gpu(self, one: Row) -> str:
        """Put in a card that the driver lists; returns its address."""
        if not self.nodes.exists():
            self.driver()
        address = self.pci(one.device, one.revision)
        self.node(
            self.buses,
            GPU_NODE.format(
                version=one.version,
                device=int(one.device, 16),
                location=self.buses << 8,
                domain=0,
                minor=125 + self.buses,
                unique=self.buses,
            ),
        )
        return address

    def put(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file
