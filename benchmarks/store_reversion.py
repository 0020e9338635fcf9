"""How close giving a wheel another version comes to copying the file and digesting it.

``python benchmarks/store_reversion.py [WHEEL]`` prints one JSON object. Without a wheel it makes one of the
shape of torch (190 MB, 12,000 files, 700 MB unpacked). Each side runs in a process of its own, in turns; wall
and CPU are those of the work, without the start of the interpreter; memory is that of the process. The floor
copies the file as the system does it best, and takes the sha256 of the copy. One core is enough for both.
Besides the ratio of each pair's seconds, that of the best runs is told: it is the one that neighbours on a
busy machine disturb least.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
import time
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

from sdk_measure import Command, middle, run, sha256, shown

MOST_WALL = 1.3  # of the floor
MOST_MEMORY = 80_000_000
VERSION = "2.10.0a0+rocm7.13.0a20260430"
FILES, PACKED, UNPACKED = 12_000, 190_000_000, 700_000_000
SMALL = 10_000
INFO = f"torch-{VERSION}.dist-info"


def make(folder: Path) -> Path:
    """A wheel of torch's shape: thousands of headers, a few libraries that hold nearly all bytes."""
    path = folder / f"torch-{VERSION}-cp312-cp312-linux_x86_64.whl"
    source = random.Random(8)
    words = [source.randbytes(6).hex() for _ in range(2_000)]
    noise = source.randbytes(1 << 20)
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:

        def add(name: str, data: bytes) -> None:
            archive.writestr(name, data)
            digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}\n")

        add("torch/version.py", f"__version__ = {VERSION!r}\nhip = '7.13.0'\n".encode())
        add("torch/_rocm_init.py", b"def initialize():\n    check_version = '7.13.0a20260430'\n")
        for number in range(FILES - 7):
            text = " ".join(source.choices(words, k=SMALL // 13)).encode()
            add(f"torch/include/part{number % 97}/header{number}.h", text)
        small = archive.fp.tell()  # type: ignore[union-attr]
        # Noise fills what is to be stored, zeros what is only there unpacked.
        share = (PACKED - small) // 2 >> 20
        zeros = b"\0" * ((UNPACKED - PACKED) // 2 // share)
        for library in ("libtorch_cpu", "libtorch_hip"):
            add(f"torch/lib/{library}.so", (noise + zeros) * share)
        add(f"{INFO}/METADATA", f"Metadata-Version: 2.4\nName: torch\nVersion: {VERSION}\n".encode())
        add(f"{INFO}/WHEEL", b"Wheel-Version: 1.0\nTag: cp312-cp312-linux_x86_64\n")
        archive.writestr(f"{INFO}/RECORD", "".join([*rows, f"{INFO}/RECORD,,\n"]))
    return path


def reversion(wheel: Path, folder: Path) -> dict[str, object]:
    """Our side: plan and write, sha256 of the result included."""
    from rocwright.wheel.reversion.plan import plan_reversion
    from rocwright.wheel.reversion.versions import parse_rule
    from rocwright.wheel.reversion.write import write_reversion

    began, cpu = time.monotonic(), time.process_time()
    written = write_reversion(plan_reversion([wheel], parse_rule("release")), folder)
    return {
        "wall_s": time.monotonic() - began,
        "cpu_s": time.process_time() - cpu,
        "sha256": written[0].sha256,
    }


def floor(wheel: Path, folder: Path) -> dict[str, object]:
    """The other side: the file copied, and its sha256."""
    began, cpu = time.monotonic(), time.process_time()
    shutil.copyfile(wheel, folder / "copy")
    digest = sha256(folder / "copy")
    return {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu, "sha256": digest}


SIDES = {"reversion": reversion, "floor": floor}


def main() -> int:
    """Run both sides in turns and print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--work-dir", type=Path)
    parser.add_argument("--side", choices=SIDES, help="run one side only, in this process")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as scratch:
        wheel = options.wheel or make(Path(scratch))
        folder = Path(scratch) / "new"
        folder.mkdir()
        if options.side:
            print(json.dumps(SIDES[options.side](wheel, folder)))
            return 0
        result = compare(wheel, options)
    print(json.dumps(result, indent=2))
    return 0 if result["met"] else 1


def compare(wheel: Path, options: argparse.Namespace) -> dict[str, object]:
    """Paired runs: the ratio is the median of those of each pair."""
    commands: dict[str, Command] = {
        side: [sys.executable, __file__, wheel, "--side", side]
        + (["--work-dir", options.work_dir] if options.work_dir else [])
        for side in SIDES
    }
    run(commands["floor"], sample=False)  # warms the file cache for both
    # Looking at memory takes a core of its own, so it is done once, beside the timed runs.
    peaks = {side: run(command).peak_anonymous for side, command in commands.items()}
    pairs = [
        {side: run(command, sample=False).said for side, command in commands.items()}
        for _ in range(options.runs)
    ]
    ratio, cpu_ratio = (
        middle(float(pair["reversion"][key]) / float(pair["floor"][key]) for pair in pairs)
        for key in ("wall_s", "cpu_s")
    )
    best = {
        side: {key: min(float(pair[side][key]) for pair in pairs) for key in ("wall_s", "cpu_s")}
        for side in SIDES
    }
    measured = {
        side: {
            "wall_s": middle((float(pair[side]["wall_s"]) for pair in pairs), 3),
            "cpu_s": middle((float(pair[side]["cpu_s"]) for pair in pairs), 3),
            "best_wall_s": round(best[side]["wall_s"], 3),
            "best_cpu_s": round(best[side]["cpu_s"], 3),
            "peak_anonymous_bytes": peaks[side],
        }
        for side in SIDES
    }
    with zipfile.ZipFile(wheel) as archive:
        infos = archive.infolist()
    return {
        "goal": f"wall at most {MOST_WALL} of copy and sha256, memory at most {MOST_MEMORY // 1_000_000} MB",
        "wheel": {
            "bytes": wheel.stat().st_size,
            "files": len(infos),
            "unpacked": sum(info.file_size for info in infos),
        },
        "measured": measured["reversion"]
        | {
            "ratio": ratio,
            "cpu_ratio": cpu_ratio,
            "best_ratio": round(best["reversion"]["wall_s"] / best["floor"]["wall_s"], 2),
            "best_cpu_ratio": round(best["reversion"]["cpu_s"] / best["floor"]["cpu_s"], 2),
        },
        "floor": measured["floor"],
        "met": ratio <= MOST_WALL and peaks["reversion"] <= MOST_MEMORY,
        "commands": {side: shown(command) for side, command in commands.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
