"""What making Python packages of ROCm costs, against the least it could cost, and what they cost in use.

``python benchmarks/sdk.py ROCM WORK`` prints one JSON object. ROCM is the distribution's installation; WORK
is for `rocwright kpack split` of it, which is kept, and for everything else, which is not. Both sides of a
comparison run in processes of their own, in turn, with the inputs in the page cache; ratios are medians of
the ratios of each turn. Our wall is that of the whole command, the floor's (`sdk_floor.py`) is without the
start of Python.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdk_measure import Command, Ran, disk_bytes, middle, run, sha256, shown
from sdk_runtime import UV, runtime

HERE = Path(__file__).resolve().parent
ROCWRIGHT = Path(sys.executable).with_name("rocwright")
CORES = len(os.sched_getaffinity(0))
MOST_WALL = 1.25  # of the floor
MOST_BYTES = 1.0  # of zlib 6
MOST_MEMORY = 300_000_000
MOST_EXTRA_DISK = 1_000_000
MOST_RERUN_S = 1.0
LEGACY_FAMILY = "debian12"


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


def fresh(path: Path) -> Path:
    """A directory that is not there."""
    shutil.rmtree(path, ignore_errors=True)
    return path


def packages_in(directory: Path) -> list[Path]:
    """The packages, without the stamp of the last run."""
    return sorted([*directory.glob("*.whl"), *directory.glob("*.tar.gz")])


def inflated(wheels: Path, directory: Path) -> Inflated:
    """Unpack what was deflated, as input of the floor."""
    said = run(floor("inflate", fresh(directory), CORES, sorted(wheels.glob("*.whl"))), sample=False).said
    return Inflated(wheels, directory, **said)


def cold(
    source: Path, inputs: Inflated, target: Path, threads: int, runs: int, *options: str
) -> dict[str, object]:
    """All packages into an empty directory, and the floor, in turn.

    The bound of memory is promised where one library has 1.3 GB.
    """
    ours, least = making(source, target, threads, *options), floor("floor", inputs.directory, threads)
    turns: list[tuple[Ran, Ran]] = []
    for _ in range(runs):
        fresh(target)
        turns.append((run(ours), run(least)))
    walls = [(mine.wall, float(other.said["wall"])) for mine, other in turns]
    ratio = middle(mine / other for mine, other in walls)
    peak = max(mine.peak_anonymous for mine, _ in turns)
    goal, met = f"wall at most {MOST_WALL} of the floor", ratio <= MOST_WALL
    if "--family" in options:
        goal += f", anonymous memory at most {MOST_MEMORY // 10**6} MB"
        met = met and peak <= MOST_MEMORY
    return {
        "goal": goal,
        "measured": {
            "wall": ratio,
            "cpu": middle(mine.cpu / other.cpu for mine, other in turns),
            "wall_s": middle(mine for mine, _ in walls),
            "cpu_s": middle(mine.cpu for mine, _ in turns),
            "peak_anonymous_bytes": peak,
            "wall of each turn": [round(mine / other, 2) for mine, other in walls],
        },
        "floor": {
            "wall_s": middle(other for _, other in walls),
            "cpu_s": middle(other.cpu for _, other in turns),
            "bytes": inputs.raw,
            "members": inputs.members,
        },
        "met": met,
        "threads": threads,
        "runs": runs,
        "commands": {"ours": shown(ours), "floor": shown(least)},
    }


def size(inputs: Inflated) -> dict[str, object]:
    """Bytes of all packages, and what they would be with zlib 6; stored members count as they are."""
    command = floor("zlib6", inputs.directory, CORES)
    ours = sum(path.stat().st_size for path in packages_in(inputs.wheels))
    theirs = ours - inputs.packed + int(run(command, sample=False).said["packed"])
    return {
        "goal": f"at most {MOST_BYTES} of zlib 6",
        "measured": {"ratio": round(ours / theirs, 4), "bytes": ours},
        "floor": {"bytes": theirs},
        "met": ours <= theirs * MOST_BYTES,
        "commands": {"floor": shown(command)},
    }


def again(source: Path, first: Path, scratch: Path) -> dict[str, object]:
    """A second build with other threads: the same bytes, and how much disk it took meanwhile."""
    target, temporary = fresh(scratch / "again"), fresh(scratch / "tmp")
    temporary.mkdir()
    threads = CORES + 1
    command = making(source, target, threads)
    done = run(command, watch=(target, temporary), env={"TMPDIR": str(temporary)})
    extra = done.peak_disk - disk_bytes(target)
    digests = [{path.name: sha256(path) for path in packages_in(place)} for place in (first, target)]
    return {
        "extra disk": {
            "goal": "the outputs and nothing else (at most 1 MB)",
            "measured": {"extra_bytes": extra, "output_bytes": disk_bytes(target)},
            "met": extra <= MOST_EXTRA_DISK,
            "commands": {"ours": shown(command)},
        },
        "two builds": {
            "goal": f"the same bytes with {CORES} and {threads} threads",
            "measured": {
                "files": len(digests[0]),
                "differ": [n for n in digests[0] if digests[0][n] != digests[1].get(n)],
            },
            "met": digests[0] == digests[1],
        },
    }


def rerun(source: Path, target: Path) -> dict[str, object]:
    """The same command again; then with other content in one file whose mtime was put back."""
    command = making(source, target, CORES)
    runs = [run(command) for _ in range(5)]
    same = all(done.said["unchanged"] for done in runs)
    file = max(source.rglob("*.h"), key=lambda path: path.stat().st_size)
    noticed = not with_other_content(file, lambda: run(command).said["unchanged"])
    wall = middle(done.wall for done in runs)
    return {
        "goal": f"at most {MOST_RERUN_S} s with nothing changed, not fooled by a restored mtime",
        "measured": {
            "wall_s": wall,
            "cpu_s": middle(done.cpu for done in runs),
            "unchanged": same,
            "other content noticed": noticed,
        },
        "met": wall <= MOST_RERUN_S and same and noticed,
        "runs": len(runs),
        "commands": {"ours": shown(command)},
    }


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


def plain(split: Path, inputs: Inflated, scratch: Path, ours: float) -> dict[str, object]:
    """The same wheels by copies, patchelf and setuptools; once."""
    if shutil.which("patchelf") is None:
        return {"not run": "patchelf is not installed"}
    python = scratch / "setuptools/bin/python"
    try:
        run([UV, "venv", "-q", "--python", sys.executable, scratch / "setuptools"])
        run([UV, "pip", "install", "-q", "--python", python, "setuptools>=75"])
    except SystemExit as error:
        return {"not run": f"setuptools cannot be installed: {error}"}
    place = fresh(scratch / "plain")
    command: Command = [sys.executable, HERE / "sdk_plain.py", split, inputs.directory, place]
    command += ["--python", python]
    done = run(command)
    left = disk_bytes(place)
    shutil.rmtree(place)
    return {
        "wall_s": round(done.wall, 1),
        "cpu_s": round(done.cpu, 1),
        "of ours": round(done.wall / ours, 1),
        **done.said,
        "peak_anonymous_bytes": done.peak_anonymous,
        "disk_bytes_at_the_end": left,
        "commands": {"plain": shown(command)},
    }


def kpack(split: Path, scratch: Path, runs: int) -> dict[str, object]:
    """Packages with device code in packages of its own, and their use."""
    wheels = scratch / "kpack"
    built = run(making(split, wheels, CORES)).said  # the page cache is warm from here on
    inputs = inflated(wheels, scratch / "kpack-members")
    report: dict[str, object] = {}
    for threads in sorted({2, CORES}):
        name = f"cold, {threads} threads" + (", which are all cores" if threads == CORES else "")
        report[name] = measured = cold(split, inputs, scratch / "cold", threads, runs)
    fresh(scratch / "cold")
    report["bytes"] = size(inputs)
    report |= again(split, wheels, scratch)
    report["rerun"] = rerun(split, wheels)
    requirement = f"rocm[libraries,devel,device-{built['targets'][0]}]=={built['version']}"
    report["runtime"] = runtime(scratch / "again", scratch, requirement)
    shutil.rmtree(scratch / "venv")
    wall = measured["measured"]["wall_s"]
    report["the plain way"] = plain(split, inputs, scratch, wall)
    shutil.rmtree(inputs.directory)
    return report


def legacy(rocm: Path, scratch: Path, runs: int) -> dict[str, object]:
    """Packages with all device code inside the libraries, the largest of which has 1.3 GB."""
    wheels = scratch / "legacy"
    options = ("--family", LEGACY_FAMILY)
    run(making(rocm, wheels, CORES, *options))
    inputs = inflated(wheels, scratch / "legacy-members")
    return {
        "cold": cold(rocm, inputs, scratch / "cold", CORES, runs, *options),
        "bytes": size(inputs),
    }


def main() -> int:
    """Measure everything, or one half."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rocm", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--runs", type=int, default=3, help="turns of the cold builds")
    parser.add_argument("--only", choices=("kpack", "legacy"))
    options = parser.parse_args()
    began = time.monotonic()
    rocm, split = options.rocm.resolve(), options.work.resolve() / "split"
    report: dict[str, object] = {"cores": CORES}
    if not split.exists():
        command: Command = [ROCWRIGHT, "kpack", "split", rocm, "--output-dir", split]
        report["split"] = {"wall_s": round(run(command).wall, 1), "commands": {"ours": shown(command)}}
    scratch = fresh(options.work.resolve() / "scratch")
    scratch.mkdir()
    try:
        if options.only != "legacy":
            report["kpack"] = kpack(split, scratch, options.runs)
        if options.only != "kpack":
            report["legacy"] = legacy(rocm, scratch, max(1, options.runs - 1))
    finally:
        shutil.rmtree(scratch)
    report["took_s"] = round(time.monotonic() - began)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
