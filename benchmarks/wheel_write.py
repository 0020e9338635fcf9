"""How close writing a wheel comes to reading, hashing and compressing the same bytes (`sdk_floor.py`).

``python benchmarks/wheel_write.py DIRECTORY`` runs each side in a process of its own, in turn. The floor
keeps no order and writes nothing. Bytes are compared with one zlib 6 stream for each file, stored where that
is larger.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from measured import Side, run, turns
from results import Figure, Report, compared, ended, shown

from rocwright.system.files import walk_files
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.write import FileSource, Member, WheelPlan, write_wheel

MOST_CPU = 1.25  # of the floor
MOST_OF_CPU = 1.1  # wall, of CPU by threads
MOST_BYTES = 1.0  # of zlib 6
MOST_MEMORY = 300_000_000


def write(directory: Path, threads: int) -> dict[str, object]:
    """Our side: a whole wheel, on disk."""
    members = tuple(
        Member(
            f"benchmark/{path.relative_to(directory).as_posix()}", FileSource(path), os.access(path, os.X_OK)
        )
        for path in walk_files(directory)
        if not path.is_symlink()
    )
    plan = WheelPlan("benchmark", "1", Metadata("benchmark", "1"), members)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as target:
        written = write_wheel(plan, Path(target), threads=threads, compression="balanced")
    return {"bytes": written.size, "input_bytes": written.stored_bytes}


def main() -> int:
    """Run all sides and print the comparison."""
    report = Report("wheel", __doc__, runs=3, command="make bench")
    report.parser.add_argument("directory", type=Path)
    report.parser.add_argument("--threads", type=int, default=2)
    report.parser.add_argument("--side", choices=("write",), help="run one side only, in this process")
    options = report.parse()
    if options.side:
        print(json.dumps(write(options.directory, options.threads)))
        return 0
    floor = [sys.executable, Path(__file__).with_name("sdk_floor.py")]
    more = [options.directory, "--threads", str(options.threads)]
    sides = {
        "ours": Side([sys.executable, __file__, *more, "--side", "write"]),
        "floor": Side([*floor, "floor", *more]),
    }
    measured = turns(sides, options.runs, sample=("ours",))
    first = measured.first["ours"]
    zlib = run([*floor, "zlib6", *more], sample=False).said["packed"]
    figures = [
        Figure("memory", "B", first.peak_anonymous, MOST_MEMORY),
        Figure("bytes of zlib 6", "×", round(first.said["bytes"] / zlib, 3), MOST_BYTES),
    ]
    what = f"writing {shown(first.said['input_bytes'], 'B')} of libraries as a wheel"
    against = "only reading, hashing and compressing (libdeflate 6) them"
    goals = {"cpu": MOST_CPU, "of_cpu": MOST_OF_CPU, "threads": options.threads}
    report.add(compared("write", what, measured, against=against, more=figures, **goals))
    return report.finish()


if __name__ == "__main__":
    ended(main)
