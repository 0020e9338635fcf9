"""What commands print for people fits a terminal of 80 columns: beyond it is only what is copied as a whole,
a path, an address, a name of a file or a digest. Of long lists the first are shown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_sets import created, run

from command_line import Ended, Run
from rocwright.cli import main
from wheels import write_torch, write_wheel

__all__ = ["run"]

Call = Callable[..., Ended]


@pytest.fixture
def call(run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Any command, in the directory and the environment of `run`, on a terminal without colours."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("TERM", "dumb")

    def call(*words: object) -> Ended:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words)])
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return call


def too_long(text: str) -> list[str]:
    """Lines over 80 columns that hold no word for which there is no room, and no command to type."""
    long = [line for line in text.splitlines() if len(line) > 80]
    return [line for line in long if max(map(len, line.split())) < 30 and "rocwright " not in line]


@pytest.mark.parametrize(
    "words",
    [
        "compat query",
        "compat query which gpus",
        "compat show",
        "data list",
        "data explain families",
        "doctor",
        "demo --list-steps",
        "pipeline plan",
        "pipeline plan --profile release --sources upstream",
        "test skips show",
        "test plan --targets gfx942 --torch 2.9",
        "pipeline families",
        "set list",
        "set show newest",
        "set log staging:fam",
        "set verify newest",
        "set gc",
        "set pin",
        "set diff newest newest",
        "set promote newest --to release",
        "set create dist-1.0-0 --dry-run --no-install",
        "store probe",
        "wheel show torch",
        "check torch dist-1.0-0",
        "kpack list torch",
    ],
)
def test_what_a_command_prints_fits(call: Call, run: Run, words: str) -> None:
    created(run, "1.0", "--stage")
    torch = write_torch(Path("torch"))
    done = call(*[torch if word == "torch" else word for word in words.split()])
    assert "Traceback" not in done.err
    assert done.out or words in NOTHING, done.err
    assert too_long(done.out) == []


# There is nothing to list in a store as young as this.
NOTHING = ("set pin", "kpack list torch")


def test_a_check_of_many_wheels_shows_some_that_are_sound_and_all_that_are_not(call: Call) -> None:
    for number in range(30):
        write_wheel(Path("many"), f"good{number:02}", "1.0", {f"good{number:02}/__init__.py": ""})
    write_wheel(Path("many"), "zbad", "1.0", {"zbad/__init__.py": ""}, said=("zbad", "2.0"))
    done = call("check", "many")
    lines = done.out.splitlines()
    assert done.code == 9
    assert sum(line.startswith("ok ") and ".whl" in line for line in lines) == 20
    assert "ok      10 more files; --json lists all" in lines
    assert any(line.startswith("failed") and "zbad" in line for line in lines)
    assert ": 31 files, " in done.err


def test_a_wheel_of_many_libraries_shows_those_with_device_code_and_the_first_others(call: Call) -> None:
    elf = b"\x7fELF" + bytes(60)
    files = {f"many/lib{number:02}.so": elf for number in range(30)}
    done = call("wheel", "show", write_wheel(Path("libraries"), "many", "1.0", files))
    assert done.code == 0, done.err
    assert "  and 10 more; --json lists all" in done.out.splitlines()
