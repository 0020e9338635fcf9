"""How close giving a wheel another version comes to copying the file and digesting it.

``python benchmarks/store_reversion.py [WHEEL]``: without a wheel it makes one of the shape of torch (190 MB,
12,000 files, 700 MB unpacked). Each side runs in a process of its own, in turns; wall and CPU are those of
the work, without the start of the interpreter; memory is that of the process. The floor copies the file as
the system does it best, and takes the sha256 of the copy, on one thread.
"""

from __future__ import annotations

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

from measured import Side, sha256, turns
from results import Figure, Report, Row, compared, ended, shown

MOST_CPU = 1.25  # of the floor
MOST_OF_CPU = 1.1  # wall, of CPU by threads
THREADS = 2  # one of ours writes, the other digests
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
    report = Report("store", __doc__, runs=7)
    report.parser.add_argument("wheel", type=Path, nargs="?")
    report.parser.add_argument("--work-dir", type=Path)
    report.parser.add_argument("--side", choices=SIDES, help="run one side only, in this process")
    options = report.parse()
    with tempfile.TemporaryDirectory(dir=options.work_dir) as scratch:
        wheel = options.wheel or make(Path(scratch))
        folder = Path(scratch) / "new"
        folder.mkdir()
        if options.side:
            print(json.dumps(SIDES[options.side](wheel, folder)))
            return 0
        report.add(compare(wheel, options.work_dir, options.runs))
    return report.finish()


def compare(wheel: Path, work: Path | None, runs: int) -> Row:
    """Both sides in turn, memory of ours besides."""
    more = ["--work-dir", work] if work else []
    sides = {
        side: Side([sys.executable, __file__, wheel, "--side", side, *more], inner=True) for side in SIDES
    }
    measured = turns(sides, runs, sample=("reversion",))
    with zipfile.ZipFile(wheel) as archive:
        files = len(archive.infolist())
    what = f"a {shown(wheel.stat().st_size, 'B')} wheel of {files:,} files under another version"
    memory = Figure("memory", "B", measured.first["reversion"].peak_anonymous, MOST_MEMORY)
    return compared(
        "reversion",
        what,
        measured,
        against="copying and hashing it",
        sides=("reversion", "floor"),
        cpu=MOST_CPU,
        of_cpu=MOST_OF_CPU,
        more=[memory],
        threads=THREADS,
    )


if __name__ == "__main__":
    ended(main)
