"""What making Python packages of ROCm costs, against the least it could cost, and what they cost in use.

``python benchmarks/sdk.py ROCM WORK``: ROCM is the distribution's installation; WORK is for `rocwright kpack
split` of it, which is kept (`kept.py`), and for everything else, which is not. Both sides of a comparison
(the floor's is `sdk_floor.py`) run in processes of their own, in turn, with the inputs in the page cache.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kept import identity, kept, spoiled
from measured import CORES, ROCWRIGHT, Command, Side, Watched, disk_bytes, fresh, middle, run, sha256, turns
from results import Figure, Report, Row, compared, ended, row, seconds, shown
from sdk_runtime import UV, runtime

HERE = Path(__file__).resolve().parent
MOST_CPU = 1.25  # of the floor
MOST_OF_CPU = 1.1  # wall, of CPU by threads
MOST_BYTES = 1.0  # of zlib 6
MOST_MEMORY = 300_000_000
MOST_EXTRA_DISK = 1_000_000
MOST_RERUN_S = 1.0
LEGACY_FAMILY = "debian12"
# The code that decides what a split ROCm is.
SPLITTING = ("binary", "device_code", "model", "system")


@dataclass(frozen=True)
class Inflated:
    """Wheels, and their deflated members as files of their own."""

    wheels: Path
    directory: Path
    packed: int
    raw: int
    members: int


def making(source: Path, target: Path, threads: int, *options: str) -> Command:
    """The command that makes the packages."""
    return [
        ROCWRIGHT,
        "sdk",
        "import",
        source,
        "--dest-dir",
        target,
        "--jobs",
        str(threads),
        *options,
        "--json",
    ]


def floor(side: str, directory: Path, threads: int, wheels: Sequence[Path] = ()) -> Command:
    """The command of the other side."""
    return [sys.executable, HERE / "sdk_floor.py", side, directory, *wheels, "--threads", str(threads)]


def packages_in(directory: Path) -> list[Path]:
    """The packages, without the stamp of the last run."""
    return sorted([*directory.glob("*.whl"), *directory.glob("*.tar.gz")])


def inflated(wheels: Path, directory: Path) -> Inflated:
    """Unpack what was deflated, as input of the floor."""
    said = run(floor("inflate", fresh(directory), CORES, sorted(wheels.glob("*.whl"))), sample=False).said
    return Inflated(wheels, directory, **said)


def cold(
    name: str, what: str, source: Path, inputs: Inflated, target: Path, threads: int, runs: int, *options: str
) -> Row:
    """All packages into an empty directory, and the floor, in turn.

    The bound of memory is promised where one library has 1.3 GB.
    """
    sides = {
        "ours": Side(making(source, target, threads, *options), lambda: fresh(target)),
        "floor": Side(floor("floor", inputs.directory, threads)),
    }
    measured = turns(sides, runs, sample=("ours",))
    most = MOST_MEMORY if options else None
    return compared(
        name,
        f"{what}, {threads} threads",
        measured,
        against=f"only reading, hashing and compressing the {shown(inputs.raw, 'B')} that get compressed",
        cpu=MOST_CPU,
        of_cpu=MOST_OF_CPU,
        more=[Figure("memory", "B", measured.first["ours"].peak_anonymous, most)],
        threads=threads,
    )


def size(name: str, what: str, inputs: Inflated) -> Row:
    """Bytes of all packages, and what they would be with zlib 6; stored members count as they are."""
    packed = int(run(floor("zlib6", inputs.directory, CORES), sample=False).said["packed"])
    ours = sum(path.stat().st_size for path in packages_in(inputs.wheels))
    figures = [
        Figure("bytes", "×", round(ours / (ours - inputs.packed + packed), 4), MOST_BYTES),
        Figure("in all", "B", ours),
    ]
    return row(name, what, None, figures, against="zlib 6")


def again(source: Path, first: Path, scratch: Path) -> Row:
    """A second build with other threads: the same bytes, and how much disk it took meanwhile."""
    target, temporary = fresh(scratch / "again"), fresh(scratch / "tmp", made=True)
    command = making(source, target, CORES + 1)
    done = run(command, watch=(target, temporary), env={"TMPDIR": str(temporary)})
    digests = [{path.name: sha256(path) for path in packages_in(place)} for place in (first, target)]
    differ = sum(digests[0].get(name) != digests[1].get(name) for name in digests[0] | digests[1])
    figures = [
        Figure("files that differ", "", differ, 0),
        Figure("disk beside the outputs", "B", done.peak_disk - disk_bytes(target), MOST_EXTRA_DISK),
    ]
    return row("again", f"packages made with {CORES} and {CORES + 1} threads", None, figures)


def rerun(source: Path, target: Path) -> Row:
    """The same command again; then with other content in one file whose mtime was put back."""
    command = making(source, target, CORES)
    with Watched() as watched:
        runs = [run(command, sample=False) for _ in range(5)]
    file = max(source.rglob("*.h"), key=lambda path: path.stat().st_size)
    with spoiled(source):
        fooled = with_other_content(file, lambda: run(command, sample=False).said["unchanged"])
    figures = [
        seconds("wall", middle((done.wall for done in runs), 3), watched.load, MOST_RERUN_S),
        seconds("CPU", middle((done.cpu for done in runs), 3), watched.load),
        Figure("runs that made them anew", "", sum(not done.said["unchanged"] for done in runs), 0),
        Figure("fooled by a restored mtime", "", int(fooled), 0),
    ]
    return row("rerun", "packages again, nothing changed", watched.load, figures, runs=len(runs))


def with_other_content(file: Path, look: Callable[[], bool]) -> bool:
    """What `look` returns while a byte of the file is another one, its size and mtime as before."""
    content, facts = file.read_bytes(), file.stat()
    assert facts.st_nlink == 1, f"{file} has other names, which would change too"

    def put(data: bytes) -> None:
        with file.open("r+b") as stream:
            stream.write(data)
        os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    put(content[:-1] + bytes([content[-1] ^ 1]))
    try:
        return look()
    finally:
        put(content)


def plain(what: str, split: Path, inputs: Inflated, scratch: Path) -> list[Row]:
    """The same wheels by copies, patchelf and setuptools; once, against ours once."""
    if shutil.which("patchelf") is None:
        print("plain: not run, patchelf is not installed", file=sys.stderr)
        return []
    python, place = scratch / "setuptools/bin/python", scratch / "plain"
    try:
        run([UV, "venv", "-q", "--python", sys.executable, scratch / "setuptools"], sample=False)
        run([UV, "pip", "install", "-q", "--python", python, "setuptools>=75"], sample=False)
    except SystemExit:
        print("plain: not run, setuptools cannot be installed", file=sys.stderr)
        return []
    target = scratch / "cold"
    ours = Side(making(split, target, CORES), lambda: fresh(target))
    command = [sys.executable, HERE / "sdk_plain.py", split, inputs.directory, place, "--python", python]
    measured = turns({"ours": ours, "plain": Side(command, lambda: fresh(place))}, 1)
    disk = Figure("disk at the end", "×", round(disk_bytes(target) / disk_bytes(place), 3))
    shutil.rmtree(place)
    against = "our imitation of the reference's scripts: copies, patchelf, setuptools"
    return [compared("plain", what, measured, against=against, sides=("ours", "plain"), more=[disk])]


def kpack(report: Report, split: Path, scratch: Path, runs: int) -> None:
    """Packages with device code in packages of its own, and their use."""
    wheels = scratch / "kpack"
    built = run(making(split, wheels, CORES)).said  # the page cache is warm from here on
    inputs = inflated(wheels, scratch / "kpack-members")
    packages, targets = len(packages_in(wheels)), len(built["targets"])
    what = f"ROCm's {packages} packages, device packages for {targets} targets"
    for threads in sorted({2, CORES}):
        name = "kpack" if threads == 2 else "kpack, all cores"
        report.add(cold(name, what, split, inputs, scratch / "cold", threads, runs))
    report.add(size("bytes", what, inputs), again(split, wheels, scratch), rerun(split, wheels))
    requirement = f"rocm[libraries,devel,device-{built['targets'][0]}]=={built['version']}"
    report.add(*runtime(scratch / "again", scratch, requirement))
    shutil.rmtree(scratch / "venv")
    report.add(*plain(what, split, inputs, scratch))
    shutil.rmtree(inputs.directory)


def legacy(report: Report, rocm: Path, scratch: Path, runs: int) -> None:
    """Packages with all device code inside the libraries, the largest of which has 1.3 GB."""
    wheels = scratch / "legacy"
    options = ("--family", LEGACY_FAMILY)
    run(making(rocm, wheels, CORES, *options))
    inputs = inflated(wheels, scratch / "legacy-members")
    what = "ROCm's packages with device code inside the libraries, one of 1.3 GB"
    report.add(cold("legacy", what, rocm, inputs, scratch / "cold", CORES, runs, *options))
    report.add(size("legacy bytes", what, inputs))


def main() -> int:
    """Measure everything, or one half."""
    report = Report("sdk", __doc__, runs=3)
    report.parser.add_argument("rocm", type=Path)
    report.parser.add_argument("work", type=Path)
    report.parser.add_argument("--only", choices=("kpack", "legacy"))
    options = report.parse()
    rocm, work = options.rocm.resolve(), options.work.resolve()

    def make(place: Path) -> None:
        run([ROCWRIGHT, "kpack", "split", rocm, "--output-dir", place], sample=False)

    split = kept(work, "split", identity(SPLITTING, rocm), make)
    scratch = fresh(work / "scratch", made=True)
    try:
        if options.only != "legacy":
            kpack(report, split, scratch, options.runs)
        if options.only != "kpack":
            legacy(report, rocm, scratch, max(1, options.runs - 1))
    finally:
        shutil.rmtree(scratch)
    return report.finish()


if __name__ == "__main__":
    ended(main)
