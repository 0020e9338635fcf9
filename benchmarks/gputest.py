"""What isolation costs beside pytest-xdist: 1,000 trivial tests with as many workers.

``python benchmarks/gputest.py WORK`` writes the tests (in one file; in 50 files) and prints one JSON object.
Both sides run in processes of their own, in turn, several times; ratios are of the median walls, with the
start of Python, and of the median CPU seconds, with those of the workers. Ours is a script that calls
`run_isolated`, on the interpreter that runs this; the floor is `pytest -n`. With ``--torch PYTHON``, an
interpreter that has torch and pytest, the cost of lost processes is measured too (`gputest_crash.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

from gputest_crash import SLACK_S, crashes

MOST = 1.5  # of pytest-xdist
TESTS = 1000
FILES = (1, 50)


def write_tests(directory: Path, files: int) -> None:
    """`TESTS` tests over so many files."""
    directory.mkdir(parents=True, exist_ok=True)
    each = TESTS // files
    for number in range(files):
        lines = (f"def test_{test}():\n    assert {test} + 1 == {test + 1}\n\n\n" for test in range(each))
        (directory / f"test_{number:02}.py").write_text("".join(lines))


def isolated(directory: Path, workers: int) -> dict[str, object]:
    """Our side, in this process."""
    from rocwright.gputest.isolate.plan import Isolation
    from rocwright.gputest.isolate.run import run_isolated

    done = run_isolated(
        Isolation(
            python=Path(sys.executable),
            root=directory,
            files=tuple(sorted(path.name for path in directory.glob("test_*.py"))),
            test_s=60,
            collect_s=60,
            end_s=10,
            log_dir=directory / "logs",
            workers=tuple({} for _ in range(workers)),
        )
    )
    passed = sum(case.verdict == "passed" for case in done.results)
    return {"passed": passed, "worker_starts": done.worker_starts}


def spent(command: list[str], directory: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a command in the directory of the tests; all of them have to pass."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True)
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert f'"passed": {TESTS}' in done.stdout or f"{TESTS} passed" in done.stdout, done.stdout
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(directory: Path, workers: int, runs: int) -> dict[str, object]:
    """Both sides in turn."""
    commands = {
        "isolated": [sys.executable, str(Path(__file__).resolve()), str(directory), "--side", "isolated"],
        "xdist": [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider"],
    }
    # At its end pytest removes what earlier sessions of anybody left in the usual place: not measured here.
    commands["xdist"] += ["--basetemp", str(directory.with_name("basetemp"))]
    commands["isolated"] += ["--workers", str(workers)]
    for command in commands.values():
        spent(command, directory)  # byte code and the file cache, for both
    seen: dict[str, list[tuple[float, float]]] = {side: [] for side in commands}
    for _ in range(runs):
        for side, command in commands.items():
            seen[side].append(spent(command, directory))
    walls, cpus = (
        {side: round(statistics.median(one[which] for one in ran), 3) for side, ran in seen.items()}
        for which in (0, 1)
    )
    return {
        "ratio": round(walls["isolated"] / walls["xdist"], 3),
        "cpu_ratio": round(cpus["isolated"] / cpus["xdist"], 3),
        "wall_s": walls,
        "cpu_s": cpus,
        "commands": {side: shlex.join(command) for side, command in commands.items()},
    }


def main() -> int:
    """Run one side, or everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", type=Path, help="where the tests are written")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--torch", type=Path, metavar="PYTHON", help="measure lost processes, on this torch")
    parser.add_argument("--rounds", type=int, default=2, help="how often each of them is lost")
    parser.add_argument("--side", choices=("isolated",), help="run one side only, in this process")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(isolated(options.work, options.workers)))
        return 0
    measured: dict[str, object] = {}
    ratios: list[float] = []
    for files in FILES:
        directory = options.work.resolve() / f"files-{files}"
        write_tests(directory, files)
        found = compare(directory, options.workers, options.runs)
        measured[f"{files} files"] = found
        ratios.append(float(str(found["ratio"])))
    lost = None
    if options.torch is not None:
        lost = crashes(options.torch.absolute(), options.work.resolve() / "crashes", options.rounds)
    report = {
        "goal": {"ratio": MOST, "crash_s": f"start + {SLACK_S:g}"},
        "measured": {"ratio": max(ratios), "crash_s": None if lost is None else lost["cost_s"]},
        "floor": measured,
        "crashes": lost,
        "met": max(ratios) <= MOST and (lost is None or bool(lost["met"])),
        "tests": TESTS,
        "workers": options.workers,
        "runs": options.runs,
    }
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
