"""Other Pythons on PATH compile what a wheel has for them; here programs that say what these would."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from rocwright.check.elsewhere import compiled_elsewhere
from rocwright.check.report import Report
from rocwright.check.run import CheckRequest, gather_paths
from wheels import write_wheel

NEWEST = 29
# Refuses modules whose names end with its number.
PYTHON = """#!{python}
import json, sys
if "-c" in sys.argv:
    sys.exit(print("cp3{minor}"))
{end}
with open(sys.argv[-1], "w") as answers:
    for wheel in json.load(open(sys.argv[-2]))["wheels"]:
        for name, *_ in wheel["sources"]:
            fault = {{"problem": "invalid syntax", "line": 7}} if name.endswith("{minor}.py") else {{}}
            print(json.dumps({{"imports": [], **fault}}), file=answers)
"""
FILES = {
    "demo/__init__.py": "from . import at_once_8\n",
    "demo/at_once_8.py": "x = 1\n",
    "demo/late_8.py": "x = 1\n",
    f"demo/late_{NEWEST}.py": "x = 1\n",
}


@pytest.fixture
def pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for minor in (7, 8, 9, NEWEST):
        add(folder, minor)
    return folder


def add(folder: Path, minor: int, end: str = "") -> None:
    program = folder / f"python3.{minor}"
    program.write_text(PYTHON.format(python=sys.executable, minor=minor, end=end))
    program.chmod(0o755)


def checked(folder: Path, *, python: str | None = None, tag: str = "py3-none-any") -> Report:
    path = write_wheel(folder, "demo", "1.0", FILES, tag=tag, python=python)
    gathered = gather_paths(CheckRequest((path,)))
    return msgspec.structs.replace(
        gathered, files=compiled_elsewhere(gathered.files, lambda _: None)
    ).judged()


def found(report: Report) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.rule, one.members, one.cause) for one in report.findings if "ython" in one.cause]


def here() -> str:
    return f"3.{sys.version_info.minor}"


SAID = "cannot compile it: line 7: invalid syntax"
AT_ONCE = ("python-syntax", ("demo/at_once_8.py",), f"Python 3.8 {SAID}")
LATE = ("python-compiles", (f"demo/late_{NEWEST}.py",), f"Python 3.{NEWEST} {SAID}")


def test_the_oldest_that_is_promised_and_the_newest(tmp_path: Path, pythons: Path) -> None:
    report = checked(tmp_path, python=">=3.7")
    assert found(report) == [AT_ONCE, LATE]
    assert report.compiled == ("3.8", here(), f"3.{NEWEST}")


def test_who_promises_no_oldest_python_is_not_asked_for_it(tmp_path: Path, pythons: Path) -> None:
    report = checked(tmp_path)
    assert found(report) == [LATE]
    assert report.compiled == (here(), f"3.{NEWEST}")


def test_no_other_python_than_those_of_the_wheel_is_asked(tmp_path: Path, pythons: Path) -> None:
    tag = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"
    report = checked(tmp_path, tag=tag)
    assert found(report) == []
    assert report.compiled == (here(),)


def test_a_python_that_ends_early_is_told(tmp_path: Path, pythons: Path) -> None:
    add(pythons, NEWEST, "sys.exit(3)")
    [(rule, _, cause)] = found(checked(tmp_path))
    assert rule == "python-unread" and f"Python 3.{NEWEST}" in cause
