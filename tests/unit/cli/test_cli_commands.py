"""The command line as a user meets it: exit codes, named errors, no traceback, data that can be piped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rocwright
from command_line import run_program
from needs import need_distribution
from rocwright import cli, errors
from rocwright.cli import parse
from rocwright.errors import RocwrightError


def test_help_names_every_command(tmp_path: Path) -> None:
    done = run_program("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in ("check", "checkout", "demo", "doctor", "sdk"):
        assert command in done.stdout


@pytest.mark.parametrize("command", ["check", "demo", "checkout", "doctor", "sdk"])
def test_each_command_has_help(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code in (0, None)
    assert "Usage:" in capsys.readouterr().out


@pytest.mark.parametrize("group", ["", "set", "store", "test", "test skips"])
@pytest.mark.parametrize("ask", [[], ["--help"]])
def test_the_help_of_a_group_says_what_each_command_does(group: str, ask: list[str], tmp_path: Path) -> None:
    done = run_program(*group.split(), *ask, cwd=tmp_path)
    assert done.returncode == 0
    rows = re.findall(r"^  ([a-z][a-z-]*)  +(.*)$", done.stdout, re.MULTILINE)
    found = cli.called(group.split())[1]
    assert isinstance(found, cli.CommandGroup)
    assert [name for name, told in rows if told] == [name for name, _ in found.named()]


def test_version(tmp_path: Path) -> None:
    done = run_program("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, rocwright.__version__)


@pytest.mark.parametrize("words", [["frobnicate"], ["check", "--no-such-option"], ["sdk", "import"]])
def test_words_that_are_no_command_fail(tmp_path: Path, words: list[str]) -> None:
    done = run_program(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert words[-1] in done.stdout + done.stderr or "prefix" in (done.stdout + done.stderr).lower()


# ---- check ----


def test_an_empty_folder_is_not_fine(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    done = run_program("check", "dist", cwd=tmp_path)
    assert done.returncode == 9
    assert "error (ContractBroken)" in done.stderr
    assert "empty-folder" in done.stdout


def test_zeros_are_no_wheel(tmp_path: Path) -> None:
    name = "torch-2.9.0-cp311-cp311-linux_x86_64.whl"
    (tmp_path / name).write_bytes(bytes(200_000))
    done = run_program("check", name, cwd=tmp_path)
    assert done.returncode == 9
    assert name in done.stdout
    as_json = run_program("check", name, "--json", cwd=tmp_path)
    assert as_json.returncode == 9
    report = json.loads(as_json.stdout)
    assert report["files"] == [name]
    assert report["findings"][0]["severity"] == "error"


@pytest.mark.parametrize(
    ("words", "code", "kind", "named"),
    [
        (["check", "nowhere.whl"], 2, "UsageError", "nowhere.whl does not exist"),
        (["check"], 2, "UsageError", "nothing to check"),
        (["check", ".", "--targets", "mi300"], 3, "InvalidTarget", "'mi300'"),
        (["sdk", "import", "."], 3, "InvalidPrefix", "is not a ROCm installation"),
        (["sdk", "import", "nowhere"], 3, "InvalidPrefix", "nowhere is not a directory"),
        (["sdk", "fetch", "."], 2, "UsageError", "exists already"),
        (["sdk", "unpack", ".", "."], 2, "UsageError", "exists already"),
        (["sdk", "unpack", ".", "rocm"], 3, "InvalidInput", "there is no *.deb"),
        (["demo", "--list-steps", "--targets", "gfx90a,mi300"], 3, "InvalidTarget", "'mi300'"),
        (["demo", "--list-steps", "--targets", ","], 2, "UsageError", "no GPU target"),
        (
            ["demo", "--targets", "gfx90a,gfx9999"],
            3,
            "InvalidTarget",
            "cannot compile for gfx9999, only for ",
        ),
        (["demo", "--targets", "gfx1201"], 3, "InvalidTarget", "or give a newer ROCm with --rocm-prefix"),
        (["demo", "--jobs", "-3"], 2, "UsageError", "give another --jobs"),
        (["demo", "--jobs", "0"], 2, "UsageError", "give another --jobs"),
        (["demo", "--family", "../x"], 2, "UsageError", "'../x' cannot be part of a package name"),
        (["checkout", "tourch"], 2, "UsageError", "'tourch'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_ends_in_its_code_and_a_named_error(
    tmp_path: Path,
    words: list[str],
    code: int,
    kind: str,
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if words[:2] == ["demo", "--targets"]:
        need_distribution("debian-12")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    captured = capsys.readouterr()
    assert ended.value.code == code
    assert captured.err.startswith(f"error ({kind}): ")
    assert named in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_no_rocm(tmp_path: Path) -> None:
    done = run_program("sdk", "import", ".", "--dest-dir", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert "next: give the directory that holds bin/, include/ and lib/" in done.stderr
    assert not (tmp_path / "out").exists()


# ---- demo, doctor ----


@pytest.mark.parametrize("option", ["--work-dir", "--cache-dir"])
@pytest.mark.parametrize("place", ["file", "file/below", "file/further/below"])
def test_the_demo_begins_nothing_where_nothing_can_be(tmp_path: Path, option: str, place: str) -> None:
    (tmp_path / "file").touch()
    other = {"--work-dir": "--cache-dir", "--cache-dir": "--work-dir"}[option]
    words = ("demo", option, place, other, "other", "--rocm-prefix", tmp_path)
    done = run_program(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"error (InvalidInput): {option} {tmp_path / place} cannot be made: ")
    assert f"next: give {option} a directory that you may write to" in done.stderr
    assert not list(tmp_path.glob("other/*"))


def test_the_steps_of_the_demo_are_listed_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "prefix").mkdir()
    done = run_program("demo", "--list-steps", "--rocm-prefix", "prefix", cwd=tmp_path, env={"COLUMNS": "40"})
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    steps = {row[0]: row[1:] for row in rows[2:]}
    assert "test-pip" in steps["gate"] and "test-uv" in steps["gate"]
    assert "gate" in steps["promote"]
    assert (steps["rocm-artifacts"], steps["rocm-prefix"]) == ([], ["rocm-artifacts"])
    assert list(tmp_path.iterdir()) == [tmp_path / "prefix"]


def test_doctor_says_what_is_missing_and_ends_accordingly(tmp_path: Path) -> None:
    done = run_program("doctor", "--json", cwd=tmp_path, env={"PATH": str(tmp_path)})
    found = json.loads(done.stdout)
    verdicts = {item["id"]: item["verdict"] for item in found["findings"]}
    assert verdicts["git"] == verdicts["g++"] == verdicts["rocm-source"] == "missing"
    assert done.returncode == 4
    assert "error (MissingTool)" in done.stderr


def test_doctor_as_table_and_as_json_agree(tmp_path: Path) -> None:
    as_json, table = run_program("doctor", "--json", cwd=tmp_path), run_program("doctor", cwd=tmp_path)
    found = json.loads(as_json.stdout)
    missing = sum(item["verdict"] == "missing" for item in found["findings"])
    assert as_json.returncode == table.returncode == (4 if missing else 0)
    for item in found["findings"]:
        assert item["id"] in table.stdout
        assert item["detail"].split(",")[-1].strip() in table.stdout


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    pipeline = f'"{sys.executable}" -c "from rocwright.cli import main; main()" --help | true'
    done = subprocess.run(["/bin/sh", "-c", pipeline], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""


# ---- every class of error ----

# As the tree in the documentation draws them.
CODES = {
    "NotReady": 12,
    "RocwrightError": 1,
    "UsageError": 2,
    "UnknownRelease": 3,
    "InvalidInput": 3,
    "InvalidElf": 3,
    "InvalidPatch": 3,
    "InvalidPe": 3,
    "InvalidBundle": 3,
    "InvalidArchive": 3,
    "InvalidWheel": 3,
    "InvalidPrefix": 3,
    "InvalidData": 3,
    "InvalidPin": 3,
    "MissingTool": 4,
    "WrongTorch": 4,
    "Unreachable": 5,
    "NotOffered": 5,
    "IntegrityError": 6,
    "CommandFailed": 7,
    "NoSpace": 8,
    "ContractBroken": 9,
    "GateClosed": 10,
    "UnsavedWork": 11,
    "ChannelBusy": 13,
    "ClaimFailed": 14,
    "TorchBroken": 15,
    "NotSetUp": 16,
    "SuiteFailed": 1,
    "NoGpu": 1,
    "NoObject": 3,
    "Interrupted": 130,
}


def classes(root: type[RocwrightError]) -> Iterator[type[RocwrightError]]:
    yield root
    for child in root.__subclasses__():
        yield from classes(child)


def test_the_tree_has_no_class_that_is_not_drawn() -> None:
    mine = {
        each.__name__: each.exit_code
        for each in classes(RocwrightError)
        if each.__module__ == errors.__name__
    }
    assert mine == CODES
    assert set(errors.__all__) == set(CODES)
    drawn = str(errors.__doc__)
    assert all(f"{name} " in drawn for name in CODES)


def ends(problem: BaseException, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of a command that raises `problem`."""

    def app(_: object, *, exit_on_error: bool, print_error: bool) -> None:
        raise problem

    class Left(BaseException):
        pass

    left: list[int] = []

    def leave(code: int) -> None:
        left.append(code)
        raise Left

    monkeypatch.setattr(parse, "app", app)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises((SystemExit, Left)) as ended:
        cli.main(["any"])
    return left[0] if left else ended.value.code


@pytest.mark.parametrize(("name", "code"), CODES.items(), ids=CODES)
def test_every_error_ends_in_its_code(
    name: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = getattr(errors, name)
    problem = (
        kind("cc x.c", 2, cwd="/src", next_step="n")
        if name == "CommandFailed"
        else kind("what", where="/file", next_step="n")
    )
    assert ends(problem, monkeypatch) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"error ({name}): {problem}\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_whose_streams_are_closed_ends_well(tmp_path: Path, closed: str) -> None:
    command = f"exec {sys.executable} -m rocwright wheel cp-version --python-version 3.12 {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


WAITING = """
import time
from pathlib import Path
from rocwright import cli
from rocwright.cli.parse import app

@app.command
def wait():
    Path("ready").touch()
    time.sleep(60)

cli.main(["wait"])
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda sent: sent.name)
def test_a_command_that_is_interrupted_says_so(tmp_path: Path, sent: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITING], cwd=tmp_path, stderr=subprocess.PIPE) as run:
        while not (tmp_path / "ready").exists():
            assert run.poll() is None
            time.sleep(0.02)
        run.send_signal(sent)
        _, said = run.communicate(timeout=30)
    assert (run.returncode, said) == (
        130,
        b"error (Interrupted): interrupted\n  next: run the same command again to go on\n",
    )


def test_ctrl_c_outside_a_run_is_an_interruption_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(KeyboardInterrupt(), monkeypatch) == 130
    assert capsys.readouterr().err == (
        "error (Interrupted): interrupted\n  next: run the same command again to go on\n"
    )


def test_a_mistake_of_ours_is_not_dressed_up_as_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def app(_: object, *, exit_on_error: bool, print_error: bool) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(parse, "app", app)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    with pytest.raises(ZeroDivisionError):
        cli.main(["any"])


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RocwrightError("x"), "x"),
        (RocwrightError("x", where="/a"), "x\n  in: /a"),
        # A place that the sentence names already is not named twice.
        (RocwrightError("/a is bad", where=Path("/a"), next_step="mend it"), "/a is bad\n  next: mend it"),
    ],
)
def test_an_error_says_what_where_and_what_next(error: RocwrightError, text: str) -> None:
    assert str(error) == text
