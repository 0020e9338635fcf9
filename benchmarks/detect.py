"""How long `rocwright-detect` takes, installed from its wheel: 8 GPUs among 200 other PCI devices.

The wheel is built and installed by pip into a fresh environment, and looks at a made copy of such a machine's
/sys. Each side runs in a process of its own, in turn. The floor is the start of the same Python, which every
program in it pays.
"""

from __future__ import annotations

import sys
import tempfile
import venv
from pathlib import Path

from measured import Side, run, turns
from results import Figure, Report, compared, ended, seconds

ROOT = Path(__file__).resolve().parents[1]
MOST_WALL_MS = 100  # start to end
MOST_BYTES = 50_000
GPUS, OTHERS = 8, 200
NODE = "simd_count 1216\ngfx_target_version 90402\ndevice_id 29857\nlocation_id {location}\ndomain 0\n"


def make_machine(root: Path) -> None:
    """The files of the kernel driver and of the PCI bus, below `root`."""

    def put(path: str, text: str) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    put("dev/kfd", "")
    put("sys/class/kfd/kfd/topology/nodes/0/properties", "simd_count 0\n")
    for number in range(GPUS + OTHERS):
        gpu = number < GPUS
        if gpu:
            text = NODE.format(location=number + 1 << 8)
            put(f"sys/class/kfd/kfd/topology/nodes/{number + 1}/properties", text)
        values = ("1002", "74a1", "120000", "00") if gpu else ("8086", "1234", "060400", "00")
        for name, value in zip(("vendor", "device", "class", "revision"), values, strict=True):
            put(f"sys/bus/pci/devices/0000:{number + 1:02x}:00.0/{name}", f"0x{value}\n")


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    report = Report("detect", __doc__, runs=15)
    runs: int = report.parse().runs
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_machine(place / "machine")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        built = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", place]
        run([*built, ROOT / "runtime/detect"], sample=False)
        (wheel,) = place.glob("*.whl")
        venv.create(place / "venv", with_pip=True)
        python = place / "venv/bin/python"
        run([python, *pip[1:], "install", "--no-index", wheel], sample=False)
        ours = [place / "venv/bin/rocwright-detect", "--root", place / "machine"]
        ours += ["--offline", "--index", "https://packages.example.org/rocm/"]
        measured = turns({"ours": Side(ours), "floor": Side([python, "-c", "pass"])}, runs)
        more = [
            seconds("start to end", measured.wall("ours") * 1e3, measured.load, MOST_WALL_MS, "ms"),
            Figure("wheel", "B", wheel.stat().st_size, MOST_BYTES),
        ]
    what = f"which GPUs are here, {GPUS} among {OTHERS} PCI devices"
    report.add(compared("detect", what, measured, against="the start of Python", more=more))
    return report.finish()


if __name__ == "__main__":
    ended(main)
