"""The terminal: data on stdout, talk on stderr, whole without colour or width."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping

import msgspec
import pytest

from rocwright.errors import InvalidPrefix
from rocwright.system import console

QUIET = {"PATH": os.environ["PATH"], "PYTHONPATH": "src", "LANG": "C.UTF-8"}


def piped(code: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"from rocwright.system import console\n{code}"],
        capture_output=True,
        text=True,
        env={**QUIET, **(env or {})},
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (148_807_836, "148.8 MB"),
        (1_300_000_000, "1.3 GB"),
        (12_345_000_000_000, "12345.0 GB"),
    ],
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert console.human_bytes(count) == text


@pytest.mark.parametrize(("count", "text"), [(999_960, "1.0 MB"), (999_999_999, "1.0 GB")])
def test_bytes_that_round_up_to_the_next_unit(count: int, text: str) -> None:
    assert console.human_bytes(count) == text


def test_data_goes_to_stdout_and_talk_to_stderr() -> None:
    done = piped("console.out('data [bold]x[/bold]'); console.say('talk [red]y[/red]')")
    assert (done.stdout, done.stderr) == ("data [bold]x[/bold]\n", "talk [red]y[/red]\n")


@pytest.mark.parametrize("env", [{}, {"COLUMNS": "20"}, {"CI": "1"}], ids=["plain", "narrow", "ci"])
def test_a_line_of_talk_is_never_cut(env: dict[str, str]) -> None:
    assert piped("console.say('word ' * 60 + 'end')", env).stderr == "word " * 60 + "end\n"


@pytest.mark.parametrize("length", [150, 400])
@pytest.mark.parametrize("env", [{}, {"COLUMNS": "40"}], ids=["plain", "narrow"])
def test_a_path_in_a_table_to_a_pipe_can_be_copied(length: int, env: dict[str, str]) -> None:
    path = "/" + "x" * length
    done = piped(f"console.table('T', ('what', 'path', 'n'), [('a', {path!r}, '1')], right=(2,))", env)
    assert path in done.stdout
    assert "\x1b" not in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines == [["T"], ["what", "path", "n"], ["a", path, "1"]]


def test_a_table_takes_text_as_it_is() -> None:
    done = piped("console.table('T', ('a',), [('[red]rocm[libraries]==7.1[/red]',)])")
    assert "[red]rocm[libraries]==7.1[/red]" in done.stdout


def test_json_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    class Value(msgspec.Struct):
        name: str
        sizes: tuple[int, ...]

    console.out_json(Value("ü[bold]", (1, 2)))
    text = capsys.readouterr().out
    assert json.loads(text) == {"name": "ü[bold]", "sizes": [1, 2]}
    assert len(text.splitlines()) > 1


def test_an_error_is_shown_whole_and_unstyled(capsys: pytest.CaptureFixture[str]) -> None:
    console.error(InvalidPrefix("no [ROCm] here", where="/opt/rocm", next_step="give another"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error (InvalidPrefix): no [ROCm] here\n  in: /opt/rocm\n  next: give another\n"


def test_progress_without_a_terminal_is_a_line_at_start_and_end() -> None:
    done = piped(
        "p = console.Progress(total=2)\n"
        "with p.shown():\n"
        "    p.start('build'); p.note('build', 'unseen'); p.end('build', 'done', '3 files')\n"
        "    p.end('test', 'cached', 'x')\n"
    )
    assert done.stdout == ""
    lines = [line.split() for line in done.stderr.splitlines()]
    assert lines[0] == ["start", "build"]
    assert lines[1][:3] == ["done", "[1/2]", "build"]
    assert lines[1][4:] == ["s", "3", "files"]
    assert lines[2][:3] == ["cached", "[2/2]", "test"]
    assert len(lines) == 3
    assert "\x1b" not in done.stderr


def test_progress_of_many_short_steps_is_one_line_each() -> None:
    done = piped(
        "p = console.Progress(total=0, starts=False)\n"
        "with p.shown():\n"
        "    p.expect(2)\n"
        "    p.start('torch'); p.expect(1); p.start('third_party/fmt'); p.note('torch', 'receiving 43 %')\n"
        "    p.end('third_party/fmt', 'done'); p.end('torch', 'done'); p.end('fbgemm', 'cached')\n"
    )
    lines = [line.split() for line in done.stderr.splitlines()]
    assert [line[:3] for line in lines] == [
        ["done", "[1/3]", "third_party/fmt"],
        ["done", "[2/3]", "torch"],
        ["cached", "[3/3]", "fbgemm"],
    ]


def test_a_long_step_is_heard_of_in_a_log() -> None:
    done = piped(
        "p = console.Progress(total=1, starts=False, every_s=0)\n"
        "with p.shown():\n"
        "    p.note('nobody', 'x'); p.start('torch'); p.note('torch', 'receiving 43 %')\n"
        "    p.end('torch', 'done')\n"
    )
    first, last = (line.split() for line in done.stderr.splitlines())
    assert first == ["...", "torch", "0", "s", "receiving", "43", "%"]
    assert last[:3] == ["done", "[1/1]", "torch"]


def test_a_step_that_says_nothing_is_heard_of_too() -> None:
    done = piped(
        "import time\n"
        "p = console.Progress(total=1, starts=False, beats=True, every_s=0.05)\n"
        "with p.shown():\n"
        "    p.start('torch'); time.sleep(0.5); p.end('torch', 'done')\n"
    )
    *heard, last = (line.split() for line in done.stderr.splitlines())
    assert heard
    assert all((words[:2], words[3]) == (["...", "torch"], "s") for words in heard)
    assert last[:3] == ["done", "[1/1]", "torch"]


def test_steps_whose_results_hold_need_no_line_each() -> None:
    done = piped(
        "p = console.Progress(total=2, cached=False)\n"
        "with p.shown():\n    p.end('fetch', 'cached', 'x'); p.end('build', 'failed', 'y')\n"
    )
    (line,) = done.stderr.splitlines()
    assert line.split()[:3] == ["failed", "[2/2]", "build"]


def test_progress_spells_out_what_a_terminal_would_obey() -> None:
    done = piped(
        "p = console.Progress(total=1); name = 'a\\x1b[31mb'\n"
        "with p.shown():\n    p.start(name); p.end(name, 'done')"
    )
    assert "\x1b" not in done.stderr
    assert done.stderr.count("a\\x1b[31mb") == 2


def test_a_live_display_keeps_long_names_apart() -> None:
    names = [f"third_party/flash-attention/csrc/composable_kernel/{end}" for end in ("include", "library")]
    code = (
        "import time; from rocwright.system import console\n"
        "p = console.Progress(total=2)\n"
        "with p.shown():\n"
        f"    [p.start(name) for name in {names!r}]\n"
        f"    p.note({names[0]!r}, 'receiving 43 %'); time.sleep(0.6)\n"
        f"    [p.end(name, 'done') for name in {names!r}]\n"
    )
    seen = on_terminal({"NO_COLOR": "1"}, code)
    assert "third_party/…c/composable_kernel/include" in seen
    assert "third_party/…c/composable_kernel/library" in seen
    assert "receiving 43 %" in seen
    assert f"[2/2] {names[1]}" in seen


def test_what_an_output_cannot_show_is_spelled_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from rocwright.system import console; console.out('a\\u2026\\udcffb')"],
        env={**QUIET, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a\\u2026\\udcffb\n", "")


@pytest.mark.parametrize("call", ["say({0!a})", "error(InvalidPrefix({0!a}))"])
def test_a_terminal_obeys_no_name_of_a_file(call: str) -> None:
    code = call.format("a\x1b[31m\x07\u202eb\n  c")
    done = piped(f"from rocwright.errors import InvalidPrefix\nconsole.{code}")
    assert "a\\x1b[31m\\x07\\u202eb\n  c" in done.stderr


def test_quiet_progress_says_nothing() -> None:
    done = piped(
        "p = console.Progress(total=1, quiet=True)\nwith p.shown():\n    p.start('x'); p.end('x', 'done')"
    )
    assert (done.stdout, done.stderr) == ("", "")


ERROR = (
    "from rocwright.system import console; from rocwright.errors import UsageError; "
    "console.error(UsageError('no'))"
)


def on_terminal(env: Mapping[str, str], code: str = ERROR) -> str:
    """What `code` writes to a real terminal."""
    try:
        ours, theirs = pty.openpty()
    except OSError:
        pytest.skip("this system gives out no pseudo terminals (a container without /dev/pts)")
    child = subprocess.Popen(
        [sys.executable, "-c", code], stderr=theirs, stdout=theirs, env={**QUIET, "TERM": "xterm", **env}
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 4096):
            seen += piece
    except OSError:
        pass  # the other end of a terminal closes with EIO
    os.close(ours)
    assert child.wait() == 0
    return seen.decode()


def test_colour_on_a_terminal_unless_the_user_wants_none() -> None:
    assert "\x1b[1;31m" in on_terminal({})
    plain = on_terminal({"NO_COLOR": "1"})
    assert "[31m" not in plain
    assert ";31m" not in plain
    assert "error (UsageError): no" in plain.replace("\x1b[1m", "").replace("\x1b[0m", "")
