"""What isolation costs beside pytest-xdist: 1,000 trivial tests with as many workers.

``python benchmarks/gputest.py WORK`` writes the tests (in one file; in 50 files). Both sides run in processes
of their own, in turn, with the start of Python; CPU seconds are with those of the workers. Ours is a script
that calls `run_isolated`, on the interpreter that runs this; the floor is `pytest -n`. With ``--torch
PYTHON``, an interpreter that has torch and pytest, the cost of lost processes is measured too
(`gputest_crash.py`).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from gputest_crash import crashes
from measured import Side, fresh, turns
from results import Report, Row, compared, ended

MOST = 1.5  # of pytest-xdist
TESTS = 1000
FILES = (1, 50)


def write_tests(directory: Path, tests: int, files: int) -> None:
    """So many tests over so many files."""
    fresh(directory, made=True)
    each = tests // files
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
            test_s=600,
            collect_s=600,
            end_s=60,
            log_dir=directory / "logs",
            workers=tuple({} for _ in range(workers)),
        )
    )
    passed = sum(case.verdict == "passed" for case in done.results)
    return {"passed": passed, "worker_starts": done.worker_starts}


def compare(directory: Path, tests: int, files: int, workers: int, runs: int) -> Row:
    """Both sides in turn; all tests have to pass."""
    write_tests(directory, tests, files)
    ours = [sys.executable, Path(__file__).resolve(), directory, "--side", "isolated"]
    xdist = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider"]
    # At its end pytest removes what earlier sessions of anybody left in the usual place: not measured here.
    xdist += ["--basetemp", directory.with_name("basetemp")]
    sides = {
        "ours": Side([*ours, "--workers", str(workers)], cwd=directory),
        "xdist": Side(xdist, cwd=directory),
    }
    measured = turns(sides, runs)
    for ran in [one for side in measured.ran.values() for one in side]:
        assert f'"passed": {tests}' in ran.output or f"{tests} passed" in ran.output, ran.output
    what = f"{tests:,} trivial tests in {files} file{'s' * (files > 1)}, each isolated, {workers} workers"
    against, both = "pytest-xdist with as many", ("ours", "xdist")
    name = f"{files} files"
    return compared(name, what, measured, against=against, sides=both, cpu=MOST, wall=MOST, threads=workers)


def main() -> int:
    """Run one side, or everything."""
    report = Report("gputest", __doc__, runs=3)
    parser = report.parser
    parser.add_argument("work", type=Path, help="where the tests are written")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--tests", type=int, default=TESTS, help="how many trivial tests there are")
    parser.add_argument("--files", type=int, action="append", help="over how many files; may be repeated")
    parser.add_argument("--torch", type=Path, metavar="PYTHON", help="measure lost processes, on this torch")
    parser.add_argument("--rounds", type=int, default=2, help="how often each of them is lost")
    parser.add_argument("--side", choices=("isolated",), help="run one side only, in this process")
    options = report.parse()
    if options.side:
        print(json.dumps(isolated(options.work, options.workers)))
        return 0
    for files in options.files or FILES:
        directory = options.work.resolve() / f"files-{files}"
        report.add(compare(directory, options.tests, files, options.workers, options.runs))
    if options.torch is not None:
        report.add(crashes(options.torch.absolute(), options.work.resolve() / "crashes", options.rounds))
    return report.finish()


if __name__ == "__main__":
    ended(main)
