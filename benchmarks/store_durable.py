"""What it costs to publish so that a power cut loses nothing: 30 files, synced against not synced.

Both sides are `rocwright set create --no-install` into a new folder, in turns, each in a process of its own.
The goal is one of walls: each sync waits for a disk. With `--stage` the set is listed in a channel besides.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from measured import Command, Side, fresh, turns
from results import Report, compared, ended

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
    report = Report("store", __doc__, runs=7)
    report.parser.add_argument(
        "--work-dir", type=Path, help="on the disk to measure (default: that of temporary files)"
    )
    report.parser.add_argument("--stage", action="store_true")
    options = report.parse()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as scratch:
        wheels, store = Path(scratch) / "dist", Path(scratch) / "store"
        make(wheels)
        program = [sys.executable, "-m", "rocwright", "set", "create", wheels]
        command: Command = [*program, "--family", "none", "--no-install", "--store", store]
        command += ["--stage"] if options.stage else []
        sides = {
            side: Side(command, lambda: fresh(store), env={"ROCWRIGHT_STORE_SYNC": sync})
            for side, sync in SIDES.items()
        }
        measured = turns(sides, options.runs)
    both = ("synced", "unsynced")
    how = "with `--stage`" if options.stage else "`set create --no-install`"
    what = f"publishing {FILES} files of {SIZE // 10**6} MB into a folder ({how}), synced"
    name = "durable, staged" if options.stage else "durable"
    report.add(compared(name, what, measured, against="not synced", sides=both, wall=MOST))
    return report.finish()


if __name__ == "__main__":
    ended(main)
