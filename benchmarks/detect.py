"""How long `rocwright-detect` takes, installed from its wheel: 8 GPUs among 200 other PCI devices.

``python benchmarks/detect.py`` prints one JSON object. The wheel is built and installed by pip into a fresh
environment, and looks at a made copy of such a machine's /sys. Each side runs in a process of its own, in
turn; figures are medians. The floor is the start of the same Python, which every program in it pays.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_WALL = 0.1  # seconds, start to end
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


def measured(command: list[str]) -> tuple[float, float]:
    """Seconds and CPU seconds of one process; raises when it fails."""
    before, begun = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    passed, after = time.perf_counter() - begun, os.times()
    return passed, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> int:
    """Measure, print, and tell by the exit code whether the goals were met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        make_machine(place / "machine")
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "wheel", "--no-deps", "--wheel-dir", place, ROOT / "runtime/detect"], check=True
        )
        (wheel,) = place.glob("*.whl")
        venv.create(place / "venv", with_pip=True)
        python = place / "venv/bin/python"
        subprocess.run([python, *pip[1:], "install", "--no-index", wheel], check=True)
        ours = [str(place / "venv/bin/rocwright-detect"), "--root", str(place / "machine")]
        ours += ["--index", "https://packages.example.org/rocm/"]
        floor = [str(python), "-c", "pass"]
        sides: list[list[tuple[float, float]]] = [[], []]
        for _ in range(runs + 1):
            for side, command in zip(sides, (ours, floor), strict=True):
                side.append(measured(command))
        size = wheel.stat().st_size
    # The first ones find files that are not in memory yet.
    (wall, cpu), (floor_wall, floor_cpu) = (
        [statistics.median(figures) for figures in zip(*side[1:], strict=True)] for side in sides
    )
    met = wall <= MOST_WALL and size <= MOST_BYTES
    found = {
        "goal": {"wall_s": MOST_WALL, "bytes": MOST_BYTES},
        "measured": {"wall_s": round(wall, 3), "cpu_s": round(cpu, 3), "bytes": size},
        "floor": {"wall_s": round(floor_wall, 3), "cpu_s": round(floor_cpu, 3)},
        "met": met,
        "commands": {"ours": shlex.join(ours), "floor": shlex.join(floor)},
        "runs": runs,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
    }
    print(json.dumps(found, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
