"""What it costs to publish so that a power cut loses nothing: 30 files, synced against not synced.

``python benchmarks/store_durable.py`` prints one JSON object. Both sides are `rocwright set create
--no-install` into a new folder, in turns, each in a process of its own. The ratio is that of the middles:
each sync waits for a disk that others use, too. With `--stage` the set is listed in a channel besides.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from sdk_measure import Command, middle, run, shown

MOST = 1.3
FILES, SIZE = 30, 1_000_000
SIDES = {"synced": "1", "unsynced": "0"}


def make(folder: Path) -> None:
    """So many wheels of one module and some noise each."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    import random

    from wheels import ANY, write_wheel

    noise = random.Random(8)
    for number in range(FILES):
        name = f"part{number:02}"
        content = {f"{name}/__init__.py": "", f"{name}/data.bin": noise.randbytes(SIZE)}
        write_wheel(folder, name, "1.0", content, tag=ANY)


def main() -> int:
    """Run both sides in turns and print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--work-dir", type=Path, help="on the disk to measure (default: that of temporary files)"
    )
    parser.add_argument("--stage", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as scratch:
        wheels, store = Path(scratch) / "dist", Path(scratch) / "store"
        make(wheels)
        program = [sys.executable, "-m", "rocwright", "set", "create", wheels]
        command: Command = [*program, "--family", "none", "--no-install", "--store", store]
        command += ["--stage"] if options.stage else []
        wall: dict[str, list[float]] = {side: [] for side in SIDES}
        cpu: dict[str, list[float]] = {side: [] for side in SIDES}
        for number in range(options.runs + 1):
            for side, sync in SIDES.items():
                shutil.rmtree(store, ignore_errors=True)
                ran = run(command, env={"ROCWRIGHT_STORE_SYNC": sync}, sample=False)
                if number:  # the first warms the file cache for both
                    wall[side].append(ran.wall)
                    cpu[side].append(ran.cpu)
    ratio = round(middle(wall["synced"], 3) / middle(wall["unsynced"], 3), 2)
    result = {
        "goal": f"wall at most {MOST} of the same without syncs",
        "set": {"files": FILES, "bytes": FILES * SIZE},
        "measured": {"wall_s": middle(wall["synced"], 3), "cpu_s": middle(cpu["synced"], 3), "ratio": ratio},
        "floor": {"wall_s": middle(wall["unsynced"], 3), "cpu_s": middle(cpu["unsynced"], 3)},
        "met": ratio <= MOST,
        "command": shown(command),
    }
    print(json.dumps(result, indent=2))
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
